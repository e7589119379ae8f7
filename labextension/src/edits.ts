import { Edit } from './conversion';

/** An edit that is made whatever else is. */
export type Replacement = Omit<Edit, 'unless'>;

/**
 * A text with edits made, which are counted in code points, as Python counts.
 *
 * Like `jupyter_hvd.source.edits.apply_edits`: ordered by start, end and priority;
 * edits that are equal in these, as they come; what is there twice is made once.
 */
export function applyEdits(source: string, edits: readonly Replacement[]): string {
  const points = Array.from(source);
  const pieces: string[] = [];
  let position = 0;
  for (const edit of unique(edits).sort(order)) {
    if (edit.start < position) {
      throw new Error(`overlapping edits at offset ${edit.start}`);
    }
    pieces.push(...points.slice(position, edit.start), edit.text);
    position = edit.end;
  }
  pieces.push(...points.slice(position));
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
