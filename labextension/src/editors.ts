import {
  Chunk,
  getChunks,
  MergeView,
  presentableDiff,
  unifiedMergeView
} from '@codemirror/merge';
import { EditorState, Text } from '@codemirror/state';
import { EditorView } from '@codemirror/view';

import { Diagnostic } from './conversion';
import { margin } from './editormargin';
import { IRange, lineStart, markMatches, revealLine } from './editormarks';
import { IReadOnlyOptions, readOnly } from './editorsetup';
import { hunkRows, IHunkRow, placeRows, showRows, showRowsBeside } from './hunkrows';

/** What a cell's editors need to know. */
export interface IEditorOptions extends IReadOnlyOptions {
  diagnostics: readonly Diagnostic[];
  /** The rows of the cell's changes. */
  rows: readonly IHunkRow[];
  /** The names of the editors for screen readers. */
  labels: { before: string; after: string; both: string };
}

/** A cell's text, alone or beside its new text. */
export interface ICellEditor {
  setAfter(text: string): void;
  /** Bring a line of the text before into view, and light it up. */
  reveal(line: number): void;
  /** Bring a row into view: far from the screen, it is not in the page. */
  revealRow(row: IHunkRow): void;
  /** Mark matches in the text after; the current one, of which this is the place among them, is brought into view. */
  mark(matches: readonly IRange[], current: number): void;
  destroy(): void;
}

const COLLAPSED = { margin: 3, minSize: 6 };

/** One editor with both texts: what goes stands above what comes. */
export function createUnified(
  parent: HTMLElement,
  before: string,
  after: string,
  options: IEditorOptions
): ICellEditor {
  const original = Text.of(closed(before).split('\n'));
  const placeOf = (state: EditorState, line: number): number =>
    placeAfter(original, state.doc, line);
  const view = new EditorView({
    parent,
    doc: closed(after),
    extensions: [
      ...readOnly(options, options.labels.both),
      ...margin(options.diagnostics, placeOf),
      hunkRows,
      unifiedMergeView({
        original,
        mergeControls: false,
        collapseUnchanged: COLLAPSED
      })
    ]
  });
  const { rows } = options;
  const placed = (which: readonly IHunkRow[]): ReturnType<typeof placeRows> =>
    placeRows(getChunks(view.state)!.chunks, original, which);
  showRows(view, placed(rows));
  return {
    setAfter: text =>
      keepingFocus(() => {
        replaceText(view, closed(text));
        showRows(view, placed(rows));
      }),
    reveal: line => revealLine(view, placeOf(view.state, line)),
    revealRow: row => scrollTo(view, placed([row])[0].after),
    mark: (matches, current) => markMatches(view, matches, current),
    destroy: () => view.destroy()
  };
}

/** The place in a text, at a line's start, where a line of the text before is, or was. */
function placeAfter(before: Text, after: Text, line: number): number {
  const place = before.line(Math.min(line, before.lines)).from;
  let moved = 0;
  for (const { fromA, toA, fromB, toB } of Chunk.build(before, after)) {
    if (place < fromA) {
      break;
    }
    if (place < toA) {
      return after.lineAt(Math.min(fromB, after.length)).from;
    }
    moved = toB - toA;
  }
  return after.lineAt(Math.min(place + moved, after.length)).from;
}

/** Two editors side by side. */
export function createDiff(
  parent: HTMLElement,
  before: string,
  after: string,
  options: IEditorOptions
): ICellEditor {
  const view = new MergeView({
    parent,
    a: {
      doc: closed(before),
      extensions: [
        ...readOnly(options, options.labels.before),
        ...margin(options.diagnostics, lineStart),
        hunkRows
      ]
    },
    b: {
      doc: closed(after),
      extensions: [...readOnly(options, options.labels.after), hunkRows]
    },
    highlightChanges: true,
    gutter: true,
    collapseUnchanged: COLLAPSED
  });
  const { rows } = options;
  const show = (): void =>
    showRowsBeside(view.a, view.b, placeRows(view.chunks, view.a.state.doc, rows));
  show();
  return {
    setAfter: text =>
      keepingFocus(() => {
        replaceText(view.b, closed(text));
        show();
      }),
    reveal: line => revealLine(view.a, lineStart(view.a.state, line)),
    revealRow: ({ start }) => scrollTo(view.a, start),
    mark: (matches, current) => markMatches(view.b, matches, current),
    destroy: () => view.destroy()
  };
}

/** Do something that may take the focused row out of the page and put it back. */
function keepingFocus(work: () => void): void {
  const focused = document.activeElement;
  work();
  if (focused instanceof HTMLElement && focused !== document.activeElement) {
    focused.focus({ preventScroll: true });
  }
}

function scrollTo(view: EditorView, place: number): void {
  view.dispatch({ effects: EditorView.scrollIntoView(place, { y: 'center' }) });
}

/** Give an editor another text by changes of the parts that differ: folds, selection and place stay. */
function replaceText(view: EditorView, text: string): void {
  const parts = presentableDiff(view.state.doc.toString(), text);
  if (parts.length === 0) {
    return;
  }
  view.dispatch({
    changes: parts.map(({ fromA, toA, fromB, toB }) => ({
      from: fromA,
      to: toA,
      insert: text.slice(fromB, toB)
    }))
  });
}

/** One editor, for a cell that stays as it is. */
export function createText(
  parent: HTMLElement,
  text: string,
  options: IEditorOptions
): ICellEditor {
  const view = new EditorView({
    parent,
    doc: closed(text),
    extensions: [
      ...readOnly(options, options.labels.before),
      ...margin(options.diagnostics, lineStart)
    ]
  });
  return {
    setAfter: () => undefined,
    revealRow: () => undefined,
    reveal: line => revealLine(view, lineStart(view.state, line)),
    mark: (matches, current) => markMatches(view, matches, current),
    destroy: () => view.destroy()
  };
}

/**
 * A text whose last line ends like all others.
 *
 * What is added after the last line then counts as added, not as a change of that line.
 */
function closed(text: string): string {
  return `${text}\n`;
}
