/** What `jupyter_hvd.gradcost.report` sends: the same names, in the same order. */

export const MIME = 'application/vnd.jupyter-hvd.gradcost+json';
export const TARGET = 'jupyter_hvd.gradcost';

/** What a program costs; a figure is null where data decide that nobody has given. */
export interface IFigure {
  formula: string;
  here: string;
  additions: number | null;
  multiplications: number | null;
  calls: number | null;
  total: number | null;
  io: number | null;
  entries: number | null;
}

export interface IRatio {
  ratio: number | null;
  bound: number;
  theorem: string;
}

/** A line of the user's; `cell` is the notebook's id of it. */
export interface ISource {
  cell: string | null;
  label: string;
  line: number;
  text: string;
}

/** A statement of Tensor SSA. */
export interface IRow {
  name: string;
  statement: string;
  predicate: string;
  support: string;
  points: number | null;
  formula: string;
  operations: number | null;
  share: number;
  rule: string;
  why: string;
  source: string;
  place: ISource | null;
  seconds: number | null;
}

/** Operations over one size. */
export interface ICurve {
  size: string;
  at: number;
  sizes: number[];
  value: (number | null)[];
  forward: (number | null)[];
  adjoint: (number | null)[];
}

export interface ISlider {
  name: string;
  names: string[];
  value: number;
  low: number;
  high: number;
  fixed: string;
}

export interface IHeat {
  place: ISource;
  value: number;
  adjoint: number;
  share: number;
}

export interface IAdvice {
  kind: string;
  message: string;
  code: string;
  before: string;
  after: string;
  saves: number;
  place: ISource | null;
}

/** XLA's estimates of plain `jax.grad`, by size. */
export interface IPlain {
  state: 'pending' | 'done' | 'failed';
  what: string;
  message: string;
  adjoint: Record<string, [number, number][]>;
  memory: Record<string, [number, number][]>;
}

export interface IMeasured {
  sizes: Record<string, number>;
  at: string;
  repeats: number;
  device: string;
  value: number;
  adjoint: number;
  value_bytes: number;
  adjoint_bytes: number;
  /** This gradient and plain JAX's, run in turn. */
  paired_adjoint: number | null;
  jax_adjoint: number | null;
  apart: boolean;
  jax_bytes: number | null;
  note: string;
}

export interface IReport {
  id: string;
  function: string;
  wrt: string[];
  differentiable: string[];
  parameters: [string, string][];
  result: string;
  linked: boolean;
  sliders: ISlider[];
  value: IFigure;
  forward: IFigure;
  adjoint: IFigure;
  forward_ratio: IRatio;
  adjoint_ratio: IRatio;
  curves: ICurve[];
  value_rows: IRow[];
  adjoint_rows: IRow[];
  heat: IHeat[];
  advice: IAdvice[];
  plain: IPlain | null;
  measured: IMeasured | null;
  functions: string[];
  note: string;
  error: string;
  version: number;
}

/** Whether saved data are a report that this version can show. */
export function isReport(data: unknown): data is IReport {
  const report = data as Partial<IReport> | null;
  return (
    typeof report === 'object' &&
    report !== null &&
    report.version === 1 &&
    Array.isArray(report.sliders) &&
    Array.isArray(report.value_rows)
  );
}

/** Whether measured times are for the sizes on display. */
export function isCurrent(report: IReport): boolean {
  const { measured } = report;
  return (
    measured !== null &&
    report.sliders.every(slider =>
      slider.names.every(name => measured.sizes[name] === slider.value)
    )
  );
}

/** XLA's estimate at the sizes on display, over any of them. */
export function plainHere(
  report: IReport,
  kind: 'adjoint' | 'memory' = 'adjoint'
): number | null {
  for (const { name, value } of report.sliders) {
    const found = report.plain?.[kind][name]?.find(([n]) => n === value);
    if (found) {
      return found[1];
    }
  }
  return null;
}
