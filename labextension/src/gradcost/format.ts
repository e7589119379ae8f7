/** A count as people read it; exact below a million. */
export function count(value: number | null): string {
  if (value === null) {
    return '—';
  }
  if (value < 1e6) {
    return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, '\u202f');
  }
  const power = Math.min(Math.floor(Math.log10(value) / 3), 5);
  const scaled = value / 1000 ** power;
  return `${Number(scaled.toPrecision(4))}\u202f${['', 'k', 'M', 'G', 'T', 'P'][power]}`;
}

/** A time with a unit's prefix: 3.2 ms. */
export function time(seconds: number): string {
  for (const [unit, scale] of [
    ['s', 1],
    ['ms', 1e-3],
    ['µs', 1e-6]
  ] as const) {
    if (seconds >= scale) {
      return `${Number((seconds / scale).toPrecision(3))}\u202f${unit}`;
    }
  }
  return `${Number((seconds / 1e-9).toPrecision(3))}\u202fns`;
}

/** A number of bytes: 3.2 MB. */
export function bytes(value: number): string {
  const power = value < 1000 ? 0 : Math.min(Math.floor(Math.log10(value) / 3), 4);
  return `${Number((value / 1000 ** power).toPrecision(3))}\u202f${['B', 'kB', 'MB', 'GB', 'TB'][power]}`;
}

/** A part of a whole: 37 %, <1 %. */
export function percent(share: number): string {
  if (share > 0 && share < 0.005) {
    return '<1\u202f%';
  }
  return `${Math.round(100 * share)}\u202f%`;
}
