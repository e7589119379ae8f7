import { ICompared, ICurve, IFigure, IReport, ITimes } from './report';

/** So many functions have a colour of their own; letters tell all apart. */
const COLOURS = 6;

/** A function in the comparison: the panel's own, or one beside it. */
export interface ISide {
  letter: string;
  className: string;
  name: string;
  wrt: readonly string[];
  value: IFigure | null;
  adjoint: IFigure | null;
  curve: (size: string) => ICurve | undefined;
  times: (size: string) => ITimes | undefined;
  error: string;
}

/** The panel's own function, and those beside it. */
export function sidesOf(report: IReport, compared: readonly ICompared[]): ISide[] {
  const own = {
    name: report.function,
    wrt: report.wrt,
    value: report.value,
    adjoint: report.adjoint,
    curve: (size: string) => report.curves.find(curve => curve.size === size),
    times: (size: string) => report.times?.find(times => times.size === size),
    error: ''
  };
  const others = compared.map(c => ({
    name: c.function,
    wrt: c.wrt,
    value: c.value,
    adjoint: c.adjoint,
    curve: (size: string): ICurve | undefined => c.curves[size],
    times: (size: string): ITimes | undefined => c.times[size],
    error: c.error
  }));
  return [own, ...others].map((side, k) => ({
    ...side,
    letter: String.fromCharCode(97 + (k % 26)),
    className: `jp-hvd-gc-side jp-hvd-gc-side${k % COLOURS}`
  }));
}
