import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { Chunk, MergeView, presentableDiff, unifiedMergeView } from '@codemirror/merge';
import {
  EditorState,
  Extension,
  RangeSet,
  StateEffect,
  StateField,
  Text
} from '@codemirror/state';
import {
  Decoration,
  DecorationSet,
  drawSelection,
  EditorView,
  gutter,
  GutterMarker,
  keymap,
  lineNumbers
} from '@codemirror/view';
import { jupyterEditorTheme, jupyterHighlightStyle } from '@jupyterlab/codemirror';

import { Diagnostic } from './conversion';

/** What a cell's editors need to know. */
export interface IEditorOptions {
  language: Extension;
  diagnostics: readonly Diagnostic[];
  /** The names of the editors for screen readers. */
  labels: { before: string; after: string; both: string };
  /** What stands for lines that are folded away; `$` is their number. */
  folded: string;
  /** Whether long lines go on in the next line. */
  wrap: boolean;
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

/** From one place in a text to another. */
export interface IRange {
  from: number;
  to: number;
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

/** The end of the last line does not show as one more, empty line. */
const hiddenEnd = StateField.define<DecorationSet>({
  create: ({ doc }) => hideEnd(doc.length),
  update: (hidden, { docChanged, newDoc }) =>
    docChanged ? hideEnd(newDoc.length) : hidden,
  provide: field => EditorView.decorations.from(field)
});

function hideEnd(length: number): DecorationSet {
  return Decoration.set(Decoration.replace({}).range(length - 1, length));
}

/** The theme's colours of code, nearer to its ink: on the tints of changes some are too faint to read. */
const LEGIBLE = HighlightStyle.define(
  jupyterHighlightStyle.specs.map(spec =>
    spec.color
      ? {
          ...spec,
          color: `color-mix(in srgb, ${spec.color} 58%, var(--jp-content-font-color0))`
        }
      : spec
  )
);

function readOnly(options: IEditorOptions, label: string): Extension[] {
  const { language, folded, wrap } = options;
  return [
    lineNumbers(),
    language,
    wrap ? EditorView.lineWrapping : [],
    EditorState.phrases.of({ '$ unchanged lines': folded }),
    jupyterEditorTheme,
    syntaxHighlighting(LEGIBLE),
    litLine,
    foundRanges,
    hiddenEnd,
    keymap.of([{ key: 'Mod-a', run: selectAll }]),
    drawSelection(),
    EditorState.readOnly.of(true),
    EditorView.editable.of(false),
    // Not editable, but still to be reached and scrolled with the keyboard.
    EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' })
  ];
}

function selectAll(view: EditorView): boolean {
  view.dispatch({ selection: { anchor: 0, head: view.state.doc.length } });
  return true;
}

/** Where a line of a text starts; past the end, the last one. */
function lineStart({ doc }: EditorState, number: number): number {
  return doc.line(Math.min(number, doc.lines - 1)).from;
}

function revealLine(view: EditorView, place: number): void {
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

function markMatches(view: EditorView, matches: readonly IRange[], chosen: number): void {
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

/** Marks in the margin, and tinted lines, where something was found. */
function margin(
  diagnostics: readonly Diagnostic[],
  placeOf: (state: EditorState, line: number) => number
): Extension[] {
  if (!diagnostics.length) {
    return [];
  }
  const lines = (state: EditorState): [number, Diagnostic][] =>
    diagnostics.map(diagnostic => [placeOf(state, diagnostic.line), diagnostic]);
  return [
    gutter({
      class: 'jp-hvd-margin',
      markers: view =>
        RangeSet.of(
          lines(view.state).map(([from, found]) => new FoundMarker(found).range(from)),
          true
        )
    }),
    EditorView.decorations.of(view =>
      Decoration.set(
        lines(view.state).map(([from, { severity }]) =>
          Decoration.line({ class: `jp-hvd-found jp-hvd-mod-${severity}` }).range(from)
        ),
        true
      )
    )
  ];
}

class FoundMarker extends GutterMarker {
  constructor(private _diagnostic: Diagnostic) {
    super();
  }

  toDOM(): HTMLElement {
    const { code, severity, message } = this._diagnostic;
    const node = document.createElement('span');
    node.className = `jp-hvd-mark jp-hvd-mod-${severity}`;
    node.title = `${code}: ${message}`;
    node.setAttribute('role', 'img');
    node.setAttribute('aria-label', node.title);
    return node;
  }
}
