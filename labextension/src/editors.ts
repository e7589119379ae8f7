import { Chunk, MergeView, presentableDiff, unifiedMergeView } from '@codemirror/merge';
import { EditorState, Text } from '@codemirror/state';
import { EditorView } from '@codemirror/view';

import { Diagnostic } from './conversion';
import { margin } from './editormargin';
import { IRange, lineStart, markMatches, revealLine } from './editormarks';
import { IReadOnlyOptions, readOnly } from './editorsetup';

/** What a cell's editors need to know. */
export interface IEditorOptions extends IReadOnlyOptions {
  diagnostics: readonly Diagnostic[];
  /** The names of the editors for screen readers. */
  labels: { before: string; after: string; both: string };
}

/** A cell's text, alone or beside its new text. */
export interface ICellEditor {
  setAfter(text: string): void;
  /** Bring a line of the text before into view, and light it up. */
  reveal(line: number): void;
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
      unifiedMergeView({
        original,
        mergeControls: false,
        collapseUnchanged: COLLAPSED
      })
    ]
  });
  return {
    setAfter: text => replaceText(view, closed(text)),
    reveal: line => revealLine(view, placeOf(view.state, line)),
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
        ...margin(options.diagnostics, lineStart)
      ]
    },
    b: {
      doc: closed(after),
      extensions: readOnly(options, options.labels.after)
    },
    highlightChanges: true,
    gutter: true,
    collapseUnchanged: COLLAPSED
  });
  return {
    setAfter: text => replaceText(view.b, closed(text)),
    reveal: line => revealLine(view.a, lineStart(view.a.state, line)),
    mark: (matches, current) => markMatches(view.b, matches, current),
    destroy: () => view.destroy()
  };
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
