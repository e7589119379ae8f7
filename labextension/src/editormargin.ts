import { EditorState, Extension, RangeSet } from '@codemirror/state';
import { Decoration, EditorView, gutter, GutterMarker } from '@codemirror/view';

import { Diagnostic } from './conversion';

/** Marks in the margin, and tinted lines, where something was found. */
export function margin(
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
