import { Point } from '../axes';

/** Operations in proportion, through the last measured time, at the sizes that were measured. */
export function through(
  operations: readonly Point[],
  measured: readonly Point[]
): Point[] {
  const [last, seconds] = measured[measured.length - 1];
  const most = operations.find(([n]) => n === last)?.[1];
  const least = Math.min(...measured.map(([, t]) => t));
  return most === undefined
    ? []
    : operations
        .filter(([n]) => measured.some(([m]) => m === n))
        .map(([n, count]): Point => [n, (count / most) * seconds])
        .filter(([, t]) => t >= least / 2);
}
