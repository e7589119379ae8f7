import { EditorState, Extension, StateEffect, StateField } from '@codemirror/state';
import { Decoration, DecorationSet, EditorView } from '@codemirror/view';

/** From one place in a text to another. */
export interface IRange {
  from: number;
  to: number;
}

/** Where a line of a text starts; past the end, the last one. */
export function lineStart({ doc }: EditorState, number: number): number {
  return doc.line(Math.min(number, doc.lines - 1)).from;
}

/** Bring a place into view, and light up its line. */
export function revealLine(view: EditorView, place: number): void {
  view.dispatch({
    selection: { anchor: place },
    effects: [lightUp.of(place), EditorView.scrollIntoView(place, { y: 'center' })]
  });
}

const lightUp = StateEffect.define<number>();
const lit = Decoration.line({ class: 'jp-hvd-lit' });

/** The line that was revealed last. */
const litLine = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update: (lines, transaction) => {
    const effect = transaction.effects.find(e => e.is(lightUp));
    return effect ? Decoration.set(lit.range(effect.value)) : lines;
  },
  provide: field => EditorView.decorations.from(field)
});

const found = Decoration.mark({ class: 'jp-hvd-match' });
const current = Decoration.mark({ class: 'jp-hvd-match jp-mod-current' });
const markFound = StateEffect.define<DecorationSet>();

/** What is searched. */
const foundRanges = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update: (ranges, transaction) => {
    const effect = transaction.effects.find(e => e.is(markFound));
    return effect ? effect.value : ranges.map(transaction.changes);
  },
  provide: field => EditorView.decorations.from(field)
});

/** Mark the matches of a search, and bring the chosen one into view. */
export function markMatches(
  view: EditorView,
  matches: readonly IRange[],
  chosen: number
): void {
  const inside = matches.filter(({ to }) => to <= view.state.doc.length);
  const ranges = inside.map(({ from, to }, i) =>
    (i === chosen ? current : found).range(from, to)
  );
  const effects: StateEffect<unknown>[] = [markFound.of(Decoration.set(ranges))];
  if (inside[chosen]) {
    effects.push(EditorView.scrollIntoView(inside[chosen].from, { y: 'center' }));
  }
  view.dispatch({ effects });
}

/** The line that was revealed, and the matches of a search. */
export const marks: Extension = [litLine, foundRanges];
