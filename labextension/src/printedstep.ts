import type { IOutput } from '@jupyterlab/nbformat';

/** How long a step took that Keras has printed, and in which cell. */
export interface IPrintedStep {
  seconds: number;
  /** The cell's index. */
  cell: number;
}

const UNITS: Record<string, number> = { s: 1, ms: 1e-3, us: 1e-6, µs: 1e-6 };

/** The step time that Keras printed last: `16/16 ━━━━ 1s 12ms/step`. */
export function printedStep(
  outputs: readonly (readonly IOutput[])[]
): IPrintedStep | null {
  for (let cell = outputs.length - 1; cell >= 0; cell--) {
    const text = outputs[cell]
      .map(output =>
        output.output_type === 'stream' ? [output.text].flat().join('') : ''
      )
      .join('');
    const [number, unit] =
      [...text.matchAll(/\b(\d+)(s|ms|us|µs)\/step/g)].at(-1)?.slice(1) ?? [];
    if (number && Number(number) > 0) {
      return { seconds: Number(number) * UNITS[unit], cell };
    }
  }
  return null;
}
