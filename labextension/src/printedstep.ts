import type { IOutput } from '@jupyterlab/nbformat';

import { IWhere, whereOf } from './distributed';

/** How long a step took that Keras has printed, in which cell, and on what. */
export interface IPrintedStep extends IWhere {
  seconds: number;
  /** The cell's index. */
  cell: number;
}

const UNITS: Record<string, number> = { s: 1, ms: 1e-3, us: 1e-6, µs: 1e-6 };

/** The step times that the cells' Keras printed last: `16/16 ━━━━ 1s 12ms/step`. Where a `%%distribute` leaves the workers or the mode to the kernel, the time is left out. */
export function printedSteps(
  cells: readonly { source: string; outputs: readonly IOutput[] }[]
): IPrintedStep[] {
  return cells.flatMap(({ source, outputs }, cell) => {
    const text = outputs
      .map(output =>
        output.output_type === 'stream' ? [output.text].flat().join('') : ''
      )
      .join('');
    const [number, unit] =
      [...text.matchAll(/\b(\d+)(s|ms|us|µs)\/step/g)].at(-1)?.slice(1) ?? [];
    const where = whereOf(source);
    return where && number && Number(number) > 0
      ? [{ seconds: Number(number) * UNITS[unit], cell, ...where }]
      : [];
  });
}
