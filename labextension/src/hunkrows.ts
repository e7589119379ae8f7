import { Chunk } from '@codemirror/merge';
import { Extension, StateEffect, StateField, Text } from '@codemirror/state';
import { Decoration, DecorationSet, EditorView, WidgetType } from '@codemirror/view';

/** A row above a hunk: what is changed there, and why. */
export interface IHunkRow {
  /** Where the change begins in the text before, in the units of JavaScript's strings. */
  start: number;
  /** The row; it goes with the editor, and is filled by others. */
  node: HTMLElement;
}

/** A place in both texts. */
interface IPair {
  before: number;
  after: number;
}

/** Where the rows stand: where the hunk begins that a change lies in; at the change's line where there is none, as it is rejected. */
export function rowPlaces(
  chunks: readonly Chunk[],
  before: Text,
  rows: readonly IHunkRow[]
): IPair[] {
  return rows.map(({ start }) => {
    let moved = 0;
    for (const { fromA, toA, fromB, toB } of chunks) {
      if (start < fromA) {
        break;
      }
      if (start < toA || start === fromA) {
        return { before: fromA, after: fromB };
      }
      moved = toB - toA;
    }
    const { from } = before.lineAt(start);
    return { before: from, after: from + moved };
  });
}

/** Put rows into an editor, in place of those that are there. */
export function showRows(
  view: EditorView,
  rows: readonly IHunkRow[],
  places: readonly number[]
): void {
  show(
    view,
    rows.map(({ node }) => new RowWidget(node)),
    places
  );
}

/** Put as much room into an editor as the rows take in the one beside it. */
export function showSpacers(
  view: EditorView,
  rows: readonly IHunkRow[],
  places: readonly number[]
): void {
  show(
    view,
    rows.map(({ node }) => new RowSpacer(node)),
    places
  );
}

function show(
  view: EditorView,
  widgets: readonly WidgetType[],
  places: readonly number[]
): void {
  const { length } = view.state.doc;
  const shown = widgets.map((widget, i) =>
    // The text's end shows as no line, which a row could stand above. Elsewhere, what is deleted stands below the row.
    Decoration.widget({ widget, block: true, side: places[i] >= length ? 1 : -2 }).range(
      Math.min(places[i], length)
    )
  );
  view.dispatch({ effects: setRows.of(Decoration.set(shown, true)) });
}

const setRows = StateEffect.define<DecorationSet>();

/** The rows of an editor. */
export const hunkRows: Extension = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update: (rows, transaction) => {
    const effect = transaction.effects.find(each => each.is(setRows));
    return effect ? effect.value : rows.map(transaction.changes);
  },
  provide: field => EditorView.decorations.from(field)
});

/** Pixels, of a row of one line. */
const ROW_HEIGHT = 28;

abstract class HeightWidget extends WidgetType {
  constructor(readonly node: HTMLElement) {
    super();
  }

  eq(other: HeightWidget): boolean {
    return this.node === other.node;
  }

  get estimatedHeight(): number {
    return this.node.offsetHeight || ROW_HEIGHT;
  }

  destroy(shown: HTMLElement): void {
    observers.get(shown)?.disconnect();
    observers.delete(shown);
  }

  /** Do something whenever the row's height changes, as long as something is shown in its stead. */
  protected follow(shown: HTMLElement, act: () => void): void {
    this.destroy(shown);
    const observer = new ResizeObserver(act);
    observer.observe(this.node);
    observers.set(shown, observer);
  }
}

/** By what is shown, what follows the heights of its row. */
const observers = new WeakMap<HTMLElement, ResizeObserver>();

class RowWidget extends HeightWidget {
  toDOM(view: EditorView): HTMLElement {
    this.follow(this.node, () => view.requestMeasure());
    return this.node;
  }
}

class RowSpacer extends HeightWidget {
  toDOM(view: EditorView): HTMLElement {
    const spacer = document.createElement('div');
    spacer.className = 'cm-mergeSpacer';
    spacer.style.height = `${this.estimatedHeight}px`;
    this.follow(spacer, () => {
      // A row far from the screen has no height.
      if (this.node.isConnected) {
        spacer.style.height = `${this.node.offsetHeight}px`;
        view.requestMeasure();
      }
    });
    return spacer;
  }
}
