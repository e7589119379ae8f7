/* Made from jupyter_hvd/conversion.schema.json by `jlpm types`. */

/**
 * The outcome of converting one file: an entry of `files` in `jupyter hvd convert --json`, and the answer of `POST convert`.
 */
export interface Conversion {
  /**
   * The file; null in an answer of the server, which reads no file.
   */
  path: string | null;
  /**
   * `unchanged`: there is no TensorFlow training to distribute. `refused`: an error-level diagnostic says why. `invalid`: not Python.
   */
  status: 'converted' | 'unchanged' | 'refused' | 'invalid';
  training_loop: 'gradient_tape' | 'keras_fit' | 'both' | 'none';
  /**
   * The file that was written, null where none was.
   */
  output: string | null;
  changes: Change[];
  diagnostics: Diagnostic[];
  /**
   * The converted notebook, nbformat 4; from the server only.
   */
  notebook?: {};
  /**
   * The models whose size the source tells; from the server only.
   */
  models?: ModelSize[];
  /**
   * The mode of this conversion; from the server only.
   */
  batch?: 'per-rank' | 'global';
  training?: TrainingNumbers;
}
/**
 * One change, the rule that asked for it and why. It belongs to one cell. It can be taken or left by itself, unless it provides what others need.
 *
 * This interface was referenced by `Conversion`'s JSON-Schema
 * via the `definition` "Change".
 */
export interface Change {
  /**
   * The rule's code.
   */
  rule: string;
  /**
   * What the user decides on with it: changes of `rate`, `batch` and `steps` are right together only, and all need the `start`.
   */
  decision: 'start' | 'averaging' | 'rate' | 'batch' | 'steps' | 'output';
  /**
   * The cell's index from 0, null in a script.
   */
  cell: number | null;
  /**
   * The line in the cell, from 1, at which the change starts.
   */
  line: number;
  /**
   * The changed lines as they were.
   */
  before: string;
  /**
   * The same lines with this change alone.
   */
  after: string;
  /**
   * One sentence for the user.
   */
  why: string;
  /**
   * What must be in the program for this change to work, each provided by another change.
   */
  needs: string[];
  /**
   * What this change provides: it is made where a change that needs it is made, and only there.
   */
  provides: string | null;
  /**
   * In the order in which they are applied.
   */
  edits: Edit[];
}
/**
 * Replace the text from `start` to `end` by `text`. Edits of several changes are applied in a stable order by start, end and priority.
 *
 * This interface was referenced by `Conversion`'s JSON-Schema
 * via the `definition` "Edit".
 */
export interface Edit {
  /**
   * In Unicode code points from the start of the cell or script.
   */
  start: number;
  end: number;
  /**
   * Orders the insertions at one place.
   */
  priority: number;
  text: string;
  /**
   * The index of a change of the conversion: where that is made, this edit is not.
   */
  unless: number | null;
}
/**
 * Something that the user should know; one of severity `error` refuses the file.
 *
 * This interface was referenced by `Conversion`'s JSON-Schema
 * via the `definition` "Diagnostic".
 */
export interface Diagnostic {
  code: string;
  severity: 'error' | 'warning' | 'info';
  cell: number | null;
  line: number;
  column: number;
  /**
   * What is wrong.
   */
  message: string;
  /**
   * What to do about it.
   */
  help: string;
}
/**
 * What is averaged at each step of training a model.
 *
 * This interface was referenced by `Conversion`'s JSON-Schema
 * via the `definition` "ModelSize".
 */
export interface ModelSize {
  name: string;
  /**
   * Trainable parameters.
   */
  parameters: number;
  bytes: number;
}
/**
 * What one process trains with, as far as the source tells; from the server only.
 *
 * This interface was referenced by `Conversion`'s JSON-Schema
 * via the `definition` "TrainingNumbers".
 */
export interface TrainingNumbers {
  /**
   * Examples a step.
   */
  batch: number | null;
  /**
   * The learning rate.
   */
  rate: number | null;
  /**
   * Passes over the data.
   */
  epochs: number | null;
  /**
   * The name of the array that has the examples.
   */
  rows_of: string | null;
  /**
   * The indices of the cells that train when they run.
   */
  cells: number[];
}
/**
 * A rule, as `GET rules` lists it.
 *
 * This interface was referenced by `Conversion`'s JSON-Schema
 * via the `definition` "Rule".
 */
export interface Rule {
  code: string;
  name: string;
  why: string;
  /**
   * The rule's page, in Markdown.
   */
  page: string;
}
/**
 * The body of `POST convert`.
 *
 * This interface was referenced by `Conversion`'s JSON-Schema
 * via the `definition` "ConvertRequest".
 */
export interface ConvertRequest {
  /**
   * nbformat JSON.
   */
  notebook: {};
  options?: Options;
  /**
   * Where the notebook lies on the server: the settings of its project count.
   */
  path?: string;
}
/**
 * This interface was referenced by `Conversion`'s JSON-Schema
 * via the `definition` "Options".
 */
export interface Options {
  /**
   * Codes, or prefixes of codes, of the rules to use; empty means all.
   */
  select?: string[];
  /**
   * Whether the ranks share batches N times as large as those of one process, at N times the learning rate, or the batches of one process, with its result.
   */
  batch?: 'per-rank' | 'global';
  /**
   * Whether every rank reads all data, or rank 0 reads datasets for all ranks, or each rank draws the random numbers of a dataset's maps for its own rows only.
   */
  data?: 'each' | 'rank0' | 'augment';
  /**
   * After so many epochs `fit` reaches the multiplied learning rate.
   */
  warmup_epochs?: number;
  /**
   * Whether what the program needs of jupyter_hvd.runtime is a file beside it; the server writes none, and refuses it.
   */
  standalone?: boolean;
  /**
   * Whether the data of the ranks are compared while they train, and the ranks stopped where these differ.
   */
  guard?: boolean;
  /**
   * Codes, or prefixes of codes, of the rules to leave out.
   */
  ignore?: string[];
}
/**
 * The body of `POST script`.
 *
 * This interface was referenced by `Conversion`'s JSON-Schema
 * via the `definition` "ScriptRequest".
 */
export interface ScriptRequest {
  /**
   * nbformat JSON.
   */
  notebook: {};
}
/**
 * The answer of `POST script`.
 *
 * This interface was referenced by `Conversion`'s JSON-Schema
 * via the `definition` "Script".
 */
export interface Script {
  /**
   * Python, with magics and text as comments.
   */
  script: string;
}
/**
 * The body of `POST verify`.
 *
 * This interface was referenced by `Conversion`'s JSON-Schema
 * via the `definition` "VerifyRequest".
 */
export interface VerifyRequest {
  /**
   * nbformat JSON.
   */
  notebook: {};
  options?: Options;
  /**
   * The number of ranks.
   */
  n: number;
  steps?: number;
  /**
   * Where the notebook lies on the server: the program works on copies of the files beside it.
   */
  path?: string;
  /**
   * The user knows that there is much to copy: see `confirm`.
   */
  confirmed?: boolean;
  /**
   * The indices of the changes that are left out; with `converted`.
   */
  left?: number[];
  /**
   * nbformat JSON: what the other changes make of the notebook, which is verified in place of the whole conversion.
   */
  converted?: {};
}
/**
 * A line of the answer of `POST verify` (NDJSON): how far one check has come.
 *
 * This interface was referenced by `Conversion`'s JSON-Schema
 * via the `definition` "VerifyCheck".
 */
export interface VerifyCheck {
  check: string;
  status: 'running' | 'pass' | 'fail' | 'unknown';
  detail: string;
}
/**
 * The last line of the answer of `POST verify`.
 *
 * This interface was referenced by `Conversion`'s JSON-Schema
 * via the `definition` "VerifyEnd".
 */
export interface VerifyEnd {
  done: true;
  holds: boolean;
  /**
   * The outcome in a sentence, with batch global.
   */
  verdict?: string;
  /**
   * Why there is no verdict, where there is none.
   */
  message?: string;
  /**
   * What is to be copied, where it is very much; the same request with `confirmed` goes on.
   */
  confirm?: string;
}
