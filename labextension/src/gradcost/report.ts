import { Source, View } from './view.schema';

export type { Heat as IHeat, Source as ISource, View as IReport } from './view.schema';

export const MIME = 'application/vnd.jupyter-hvd.gradcost+json';
export const TARGET = 'jupyter_hvd.gradcost';

/** The version of the reports that this panel shows. */
const VERSION = 3;

/** Lines of a cell in other words, which the kernel has found equal and cheaper: see `apply_advice.Change`. */
export interface IChange {
  place: Source;
  /** The lines that it is about, from 1 on. */
  first: number;
  last: number;
  before: string;
  after: string;
  /** What to say once it is made. */
  message: string;
}

/** Advice that was taken, by its number. */
export interface ITaken {
  way: number;
  change: IChange;
}

/** Whether saved data are a report that this version can show. */
export function isReport(data: unknown): data is View {
  const report = data as Partial<View> | null;
  return (
    typeof report === 'object' &&
    report !== null &&
    report.version === VERSION &&
    Array.isArray(report.controls) &&
    Array.isArray(report.sections)
  );
}
