import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { EditorState, Extension, StateField } from '@codemirror/state';
import {
  Decoration,
  DecorationSet,
  drawSelection,
  EditorView,
  keymap,
  lineNumbers
} from '@codemirror/view';
import { jupyterEditorTheme, jupyterHighlightStyle } from '@jupyterlab/codemirror';

import { marks } from './editormarks';

/** How texts are shown. */
export interface IReadOnlyOptions {
  language: Extension;
  /** What stands for lines that are folded away; `$` is their number. */
  folded: string;
  /** Whether long lines go on in the next line. */
  wrap: boolean;
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

/** An editor to read, with its name for screen readers. */
export function readOnly(options: IReadOnlyOptions, label: string): Extension[] {
  const { language, folded, wrap } = options;
  return [
    lineNumbers(),
    language,
    wrap ? EditorView.lineWrapping : [],
    EditorState.phrases.of({ '$ unchanged lines': folded }),
    jupyterEditorTheme,
    syntaxHighlighting(LEGIBLE),
    marks,
    hiddenEnd,
    keymap.of([{ key: 'Mod-a', run: selectAll }]),
    drawSelection(),
    EditorState.readOnly.of(true),
    EditorView.editable.of(false),
    // Not editable, but still to be scrolled with the keyboard: arrow keys lead there from its cell's buttons.
    EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '-1' })
  ];
}

function selectAll(view: EditorView): boolean {
  view.dispatch({ selection: { anchor: 0, head: view.state.doc.length } });
  return true;
}
