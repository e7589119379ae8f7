import { Edit } from './conversion';

/** An edit that is made whatever else is. */
export type Replacement = Omit<Edit, 'unless'>;

/** A part of a text, in the units of JavaScript's strings, and what takes its place. */
export interface ISplice {
  start: number;
  end: number;
  text: string;
}

/**
 * Edits as parts of a text, from the first to the last; they are counted in code points, as Python counts.
 *
 * Like `jupyter_hvd.source.edits.apply_edits`: ordered by start, end and priority;
 * edits that are equal in these, as they come; what is there twice is made once.
 */
export function splices(source: string, edits: readonly Replacement[]): ISplice[] {
  const points = Array.from(source);
  let point = 0;
  let unit = 0;
  const unitAt = (wanted: number): number => {
    for (; point < wanted; point++) {
      unit += points[point].length;
    }
    return unit;
  };
  return unique(edits)
    .sort(order)
    .map(({ start, end, text }) => {
      if (start < point) {
        throw new Error(`overlapping edits at offset ${start}`);
      }
      return { start: unitAt(start), end: unitAt(end), text };
    });
}

/** A place in a text, in the units of JavaScript's strings, that is given in code points. */
export function unitAt(source: string, point: number): number {
  return Array.from(source).slice(0, point).join('').length;
}

/** A text with edits made. */
export function applyEdits(source: string, edits: readonly Replacement[]): string {
  const pieces: string[] = [];
  let position = 0;
  for (const { start, end, text } of splices(source, edits)) {
    pieces.push(source.slice(position, start), text);
    position = end;
  }
  pieces.push(source.slice(position));
  return pieces.join('');
}

function order(a: Replacement, b: Replacement): number {
  return a.start - b.start || a.end - b.end || a.priority - b.priority;
}

function unique(edits: readonly Replacement[]): Replacement[] {
  const byText = new Map(
    edits.map(edit => [
      JSON.stringify([edit.start, edit.end, edit.priority, edit.text]),
      edit
    ])
  );
  return [...byText.values()];
}
