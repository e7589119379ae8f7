import { Report as IReport, Source } from './report.schema';

export type {
  Advice as IAdvice,
  Compared as ICompared,
  Curve as ICurve,
  Figure as IFigure,
  Growth as IGrowth,
  Heat as IHeat,
  History as IHistory,
  Measured as IMeasured,
  Ratio as IRatio,
  Report as IReport,
  Row as IRow,
  Slider as ISlider,
  Source as ISource,
  Times as ITimes
} from './report.schema';

export const MIME = 'application/vnd.jupyter-hvd.gradcost+json';
export const TARGET = 'jupyter_hvd.gradcost';

/** The version of the reports that this panel shows. */
const VERSION = 2;

/** Lines of a cell in other words, which the kernel has found equal and cheaper: see `accept.Change`. */
export interface IChange {
  place: Source;
  /** The lines that it is about, from 1 on. */
  first: number;
  last: number;
  before: string;
  after: string;
  /** Operations before and after. */
  value: [number, number];
  gradient: [number, number];
  /** How many random inputs both programs were run on, and the largest difference. */
  draws: number;
  difference: number;
}

/** Advice that was taken, by its number. */
export interface ITaken {
  way: number;
  change: IChange;
}

/** What a panel shows on demand: how the kernels compute it, what is certified of them. */
export const VIEWS = ['plan', 'certificate'] as const;
export type ViewName = (typeof VIEWS)[number];

/** A view as the kernel has answered it, for some sizes. */
export interface IShown {
  view: ViewName;
  at: string;
  sizes: Record<string, number>;
  text: string;
  error: string;
}

/** Whether saved data are a report that this version can show. */
export function isReport(data: unknown): data is IReport {
  const report = data as Partial<IReport> | null;
  return (
    typeof report === 'object' &&
    report !== null &&
    report.version === VERSION &&
    Array.isArray(report.sliders) &&
    Array.isArray(report.value_rows)
  );
}

/** Whether measured times are for the sizes on display. */
export function isCurrent(report: IReport): boolean {
  return report.measured !== null && isAt(report, report.measured.sizes);
}

/** Whether sizes are those on display. */
export function isAt(report: IReport, sizes: Record<string, number>): boolean {
  return report.sliders.every(slider =>
    slider.names.every(name => sizes[name] === slider.value)
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
