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

/** A row, and where it stands: at the start of a line of each text. */
interface IPlacedRow {
  row: IHunkRow;
  before: number;
  after: number;
  /** Whether nothing stands there in one of the texts. */
  lacks: 'before' | 'after' | null;
}

/** Where rows stand: where the hunk begins that a change lies in; at the change's line where there is none, as it is rejected. */
export function placeRows(
  chunks: readonly Chunk[],
  before: Text,
  rows: readonly IHunkRow[]
): IPlacedRow[] {
  return rows.map(row => {
    const { start } = row;
    let moved = 0;
    for (const { fromA, toA, fromB, toB } of chunks) {
      if (start < fromA) {
        break;
      }
      if (start < toA || start === fromA) {
        const lacks = fromA === toA ? 'before' : fromB === toB ? 'after' : null;
        return { row, before: fromA, after: fromB, lacks };
      }
      moved = toB - toA;
    }
    const { from } = before.lineAt(start);
    return { row, before: from, after: from + moved, lacks: null };
  });
}

/** Put rows into an editor that has the text after, in place of those that are there. */
export function showRows(view: EditorView, placed: readonly IPlacedRow[]): void {
  show(
    view,
    placed.map(({ row, after }) => [new RowWidget(row.node), after])
  );
}

/**
 * Put rows into the left one of two editors that stand side by side, and as much room into the right one.
 *
 * `MergeView` lets the lines below a hunk begin at one height, by spacers. Above the first line it takes a row for a part of
 * that line, so that a row stands in the text alone that has something there: the spacer is its room in the other.
 */
export function showRowsBeside(
  a: EditorView,
  b: EditorView,
  placed: readonly IPlacedRow[]
): void {
  const isRight = ({ before, lacks }: IPlacedRow): boolean =>
    before === 0 && lacks === 'before';
  const hasSpacer = ({ after, lacks }: IPlacedRow): boolean =>
    after !== 0 || lacks !== 'after';
  show(
    a,
    placed
      .filter(each => !isRight(each))
      .map(({ row, before }) => [new RowWidget(row.node), before])
  );
  show(
    b,
    placed
      .filter(hasSpacer)
      .map(each => [
        isRight(each) ? new RowWidget(each.row.node) : new RowSpacer(each.row.node),
        each.after
      ])
  );
}

function show(view: EditorView, widgets: readonly [HeightWidget, number][]): void {
  const { length } = view.state.doc;
  const shown = widgets.map(([widget, place]) => {
    // Below the line before. The text's end shows as no line of its own.
    const at = place >= length ? length : Math.max(place - 1, 0);
    const side = place === 0 ? -2 : 1; // what is deleted stands below the row
    return Decoration.widget({ widget, block: true, side }).range(at);
  });
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
