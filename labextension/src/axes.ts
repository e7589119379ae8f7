export type Point = [number, number];

/** An axis: what it says, from where to where it goes, and the values that are marked. */
export interface IAxis {
  label: string;
  domain: [number, number];
  ticks: readonly number[];
  text: (value: number) => string;
  isLogarithmic?: boolean;
}

/** A logarithmic axis over whole decades, so that it rests while the figures move. */
export function logarithmic(
  label: string,
  values: readonly number[],
  most: number
): IAxis {
  const domain = decades(values);
  return { label, domain, ticks: powers(domain, most), text: power, isLogarithmic: true };
}

function decades(values: readonly number[]): [number, number] {
  const positive = values.filter(value => value > 0);
  if (positive.length === 0) {
    return [1, 10];
  }
  const low = Math.floor(Math.log10(Math.min(...positive)) + 1e-9);
  const high = Math.ceil(Math.log10(Math.max(...positive)) - 1e-9);
  return [10 ** low, 10 ** Math.max(high, low + 1)];
}

function powers([low, high]: [number, number], most: number): number[] {
  const from = Math.round(Math.log10(low));
  const to = Math.round(Math.log10(high));
  const step = Math.ceil((to - from + 1) / most);
  return Array.from(
    { length: Math.floor((to - from) / step) + 1 },
    (_, i) => 10 ** (from + i * step)
  );
}

/** A power of ten: 1, 10, 100, 10³. */
function power(n: number): string {
  const exponent = Math.round(Math.log10(n));
  if (exponent >= 0 && exponent <= 2) {
    return String(n);
  }
  const digits = String(exponent).replace('-', '⁻');
  return `10${digits.replace(/\d/g, d => '⁰¹²³⁴⁵⁶⁷⁸⁹'[Number(d)])}`;
}

/** Places on a line as near to where they were as they can be with a gap between any two; null stays. */
export function apart(
  places: readonly (number | null)[],
  gap: number
): (number | null)[] {
  const order = places.flatMap((place, i) => (place === null ? [] : [i]));
  order.sort((a, b) => places[b]! - places[a]!);
  const found = [...places];
  let last = Infinity;
  for (const i of order) {
    last = found[i] = Math.min(found[i]!, last - gap);
  }
  return found;
}
