/* Made from jupyter_hvd/gradcost/report.schema.json by `jlpm types`. */

/**
 * All that the panel shows: `functions` may be inspected instead of this one, `beside` compared with it.
 */
export interface Report {
  id: string;
  function: string;
  wrt: string[];
  differentiable: string[];
  parameters: [string, string][];
  result: string;
  linked: boolean;
  sliders: Slider[];
  value: Figure;
  forward: Figure;
  adjoint: Figure;
  forward_ratio: Ratio;
  adjoint_ratio: Ratio;
  curves: Curve[];
  value_rows: Row[];
  adjoint_rows: Row[];
  heat: Heat[];
  advice: Advice[];
  plain: Plain | null;
  measured: Measured | null;
  times: Times[];
  functions: string[];
  histories: History[];
  beside: string[];
  compared: Compared[];
  note: string;
  error: string;
  version: number;
}
/**
 * A size to choose: equal ones move together.
 */
export interface Slider {
  name: string;
  names: string[];
  value: number;
  low: number;
  high: number;
  fixed: string;
}
/**
 * What a program costs: its formula, how it reads at these sizes, and its counts. `entries` are the
 * numbers that its statements hold, `histories` those of them that loops keep from turn to turn.
 */
export interface Figure {
  formula: string;
  here: string;
  additions: number | null;
  multiplications: number | null;
  calls: number | null;
  total: number | null;
  io: number | null;
  entries: number | null;
  histories: number | null;
}
/**
 * A derivative against its function, and the theorem that bounds it; `interfaces` where the theorem counts what goes in
 * and out of both beside the operations.
 */
export interface Ratio {
  ratio: number | null;
  bound: number;
  theorem: string;
  interfaces: boolean;
}
/**
 * Operations over one size, the others as chosen; None where a read would be out of range.
 */
export interface Curve {
  size: string;
  at: number;
  sizes: number[];
  value: (number | null)[];
  forward: (number | null)[];
  adjoint: (number | null)[];
}
/**
 * A statement of Tensor SSA, its cost, and where it came from.
 *
 * `target` is what it fills; `statement` what each entry is, the condition behind it, and nothing
 * more; `call` what the user wrote that it came from. A loop is followed by the statements of its
 * turns, `X4.B3`, whose operations, those of all turns, are in the loop's.
 */
export interface Row {
  name: string;
  /**
   * @minItems 3
   * @maxItems 3
   */
  statement: [string, string, string];
  support: string;
  points: number | null;
  formula: string;
  operations: number | null;
  share: number;
  rule: string;
  why: string;
  source: string;
  place: Source | null;
  seconds: number | null;
  call: string;
  target: string;
}
/**
 * A line of the user's, in a cell, `In [count]`, that the notebook knows as `cell`, or in a file.
 */
export interface Source {
  cell: string | null;
  count: number | null;
  file: string;
  line: number;
  text: string;
}
/**
 * A line of the user's and its part of all operations of value and gradient.
 */
export interface Heat {
  place: Source;
  value: number;
  adjoint: number;
  share: number;
}
/**
 * What would lower the cost: `saves` operations of value and gradient, at these sizes.
 *
 * `before` and `after` are the costs where the message does not tell them, `way` is the number of
 * the rewriting, for who accepts it; -1 where there is none.
 */
export interface Advice {
  kind: 'outside' | 'factored' | 'reassociated' | 'guard' | 'shared' | 'jax';
  message: string;
  place: Source | null;
  code: string;
  before: string;
  after: string;
  saves: number;
  way: number;
}
/**
 * What plain `jax.grad` makes of the program, or of the user's function `against`: XLA's
 * estimates, at some sizes of each curve.
 */
export interface Plain {
  state: 'pending' | 'done' | 'failed';
  against: string;
  message: string;
  adjoint: {
    [k: string]: [number, number][];
  };
  memory: {
    [k: string]: [number, number][];
  };
}
/**
 * Times in seconds and bytes at the sizes where they were measured, in numbers of type `dtype`.
 *
 * Value, gradient and plain JAX's gradient (`jax_adjoint`) run in turn, `repeats` times: medians, quartiles of both gradients.
 * `faster` is "noisy" where times vary too much to say, "neither" where they are alike, "unknown" without plain JAX's.
 */
export interface Measured {
  sizes: {
    [k: string]: number;
  };
  at: string;
  repeats: number;
  device: string;
  dtype: string;
  value: number;
  adjoint: number;
  /**
   * @minItems 2
   * @maxItems 2
   */
  adjoint_spread: [number, number];
  value_bytes: number;
  adjoint_bytes: number;
  value_statements: {
    [k: string]: number;
  };
  adjoint_statements: {
    [k: string]: number;
  };
  jax_adjoint: number | null;
  jax_spread: [number, number] | null;
  faster: 'gradient' | 'jax.grad' | 'neither' | 'noisy' | 'unknown';
  note: string;
}
/**
 * Measured seconds of value and gradient over one size, the others as `at` says, in numbers of type `dtype`.
 *
 * No growth is told where few sizes take longer than what any call does, or no power fits.
 */
export interface Times {
  size: string;
  at: {
    [k: string]: number;
  };
  device: string;
  dtype: string;
  sizes: number[];
  value: number[];
  adjoint: number[];
  value_growth: Growth | null;
  adjoint_growth: Growth | null;
}
/**
 * Seconds grow like the size to the power `exponent`, from the size `since` on.
 */
export interface Growth {
  exponent: number;
  since: number;
}
/**
 * Numbers that loops keep between their turns, over a size that says how many there are: as it is, with
 * `checkpoint=True`, and with `checkpoint="blocks"`.
 */
export interface History {
  size: string;
  at: number;
  sizes: number[];
  whole: (number | null)[];
  carried: (number | null)[];
  blocks: (number | null)[];
}
/**
 * Another function, at the sizes of this one: `curves` and `times` by this one's sizes, each over the
 * other's that goes with it. `error` says what is missing.
 */
export interface Compared {
  function: string;
  wrt: string[];
  value: Figure | null;
  adjoint: Figure | null;
  curves: {
    [k: string]: Curve;
  };
  times: {
    [k: string]: Times;
  };
  error: string;
}
