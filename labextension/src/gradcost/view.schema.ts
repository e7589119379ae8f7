/* Made from jupyter_hvd/gradcost/view.py by `jlpm types`. */

/**
 * A report: `about` where no control says it. `pending` names the sizes for which estimates are missing.
 */
export interface View {
  id: string;
  function: string;
  title: string;
  about: Span[];
  controls: (Table | Plot | Remark | Card | Slider | Choice | Action | Section)[];
  sections: Section[];
  heat: Heat[];
  pending?: string;
  version: number;
}
/**
 * Some words of a text, with a tooltip. A click on them shows the line `place`, or the row of the name `row`.
 *
 * `unseen` words are read out only; `line` and `dashed` show the line of a curve before them.
 */
export interface Span {
  text: string;
  look?: '' | 'strong' | 'quiet' | 'unseen' | 'line' | 'dashed';
  title?: string;
  code?: boolean;
  colour?: '' | 'value' | 'adjoint' | 'forward' | 'jax' | 'fifth' | 'sixth';
  place?: Source | null;
  row?: string;
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
 * A table; the first cell of a row names it, `empty` stands for rows that there are not.
 */
export interface Table {
  label: string;
  columns: Column[];
  rows: Row[];
  caption?: string;
  empty?: string;
  type: 'table';
}
/**
 * A column, by its name in style sheets, and its heading.
 */
export interface Column {
  name: string;
  title: string;
  help?: string;
}
/**
 * A row: to point at it marks all rows of its `group`. Rows that are `extra` are shown on demand.
 */
export interface Row {
  name: string;
  cells: Cell[];
  colour?: '' | 'value' | 'adjoint' | 'forward' | 'jax' | 'fifth' | 'sixth';
  group?: string;
  extra?: boolean;
}
/**
 * A cell of a table: a `note` below its text, `value` for programs that read the page, `share` the length of a bar behind.
 */
export interface Cell {
  text?: Span[];
  note?: Span[];
  title?: string;
  value?: number | null;
  share?: number | null;
}
/**
 * Curves over two axes. An upright line stands at `rule`.
 */
export interface Plot {
  label: string;
  x: Axis;
  y: Axis;
  series: Series[];
  rule?: number | null;
  heading?: string;
  caption?: string;
  type: 'plot';
}
/**
 * An axis from `low` to `high`; `ticks` are values and what stands beside them.
 */
export interface Axis {
  low: number;
  high: number;
  ticks: [number, string][];
  label?: string;
  is_logarithmic?: boolean;
}
/**
 * A curve, by its name, with a letter at its end.
 */
export interface Series {
  label: string;
  colour: '' | 'value' | 'adjoint' | 'forward' | 'jax' | 'fifth' | 'sixth';
  points: [number, number][];
  marks?: Mark[];
  letter?: string;
  look?: '' | 'dashed' | 'faint' | 'dots';
}
/**
 * A point of a curve that says something when it is pointed at.
 */
export interface Mark {
  /**
   * @minItems 2
   * @maxItems 2
   */
  at: [number, number];
  text: string;
}
/**
 * A paragraph; a `status` or an `error` is read out when it changes. The front end shows the kernel's state before that of
 * role `kernel`, and what went wrong last instead of an `alert`.
 */
export interface Remark {
  text: Span[];
  role?: '' | 'lead' | 'status' | 'kernel' | 'alert' | 'legend' | 'code' | 'error';
  type: 'remark';
}
/**
 * Advice, with what it costs before and after, and code; `change` is the number by which it is accepted.
 */
export interface Card {
  text: Span[];
  detail?: Span[];
  code?: string;
  change?: number | null;
  type: 'card';
}
/**
 * A size to choose, on a logarithmic scale; `note` says why it cannot be moved.
 */
export interface Slider {
  name: string;
  label: string;
  value: number;
  low: number;
  high: number;
  note?: string;
  type: 'slider';
}
/**
 * Some of several options, `least` of them; or one, where it is `single`. They are sent as `field`.
 */
export interface Choice {
  label: string;
  options: string[];
  chosen: string[];
  ask: {
    [k: string]: string;
  };
  field: string;
  least?: number;
  single?: boolean;
  type: 'choice';
}
/**
 * A button; one that `measures` waits for other measurements, one with `progress` shows and cancels them.
 */
export interface Action {
  text: string;
  ask: {
    [k: string]: string;
  };
  title?: string;
  measures?: boolean;
  progress?: boolean;
  type: 'action';
}
/**
 * Blocks below one another, with a `label` for screen readers. A `folded` one asks the kernel when it is opened; its label is
 * a tooltip. `more` offers the extra rows.
 */
export interface Section {
  name: string;
  blocks: (Table | Plot | Remark | Card | Slider | Choice | Action | Section)[];
  title?: string;
  label?: string;
  folded?: boolean;
  ask?: {
    [k: string]: string;
  } | null;
  more?: string;
  type: 'section';
}
/**
 * A line of the user's, its part of all operations, and what to say of it.
 */
export interface Heat {
  place: Source;
  share: number;
  title: string;
}
