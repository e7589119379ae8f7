import { Cell } from '@jupyterlab/cells';
import { CodeMirrorEditor } from '@jupyterlab/codemirror';
import { Notebook } from '@jupyterlab/notebook';
import { Extension, RangeSet, StateEffect, StateField } from '@codemirror/state';
import { EditorView, gutter, GutterMarker } from '@codemirror/view';

import { ServerText } from '../servertext';
import { IHeat, IReport } from './report';

/** Less of all operations is not worth a mark. */
const WORTH = 0.01;

/** A bar in the margin, as high and as strong as the line's part of all operations. */
class HeatMarker extends GutterMarker {
  constructor(
    readonly share: number,
    readonly title: string
  ) {
    super();
  }

  eq(other: HeatMarker): boolean {
    return this.share === other.share && this.title === other.title;
  }

  toDOM(): Node {
    const node = document.createElement('div');
    node.className = 'jp-hvd-gc-heat';
    node.style.setProperty('--jp-hvd-share', String(this.share));
    node.title = this.title;
    node.setAttribute('role', 'img');
    node.setAttribute('aria-label', this.title);
    return node;
  }
}

interface ILine {
  line: number;
  text: string;
  marker: HeatMarker;
}

const setHeat = StateEffect.define<ILine[]>();

/** The marks of an editor; a line that is edited loses its mark, the others move along. */
const field = StateField.define<RangeSet<HeatMarker>>({
  create: () => RangeSet.empty,
  update: (marks, transaction) => {
    let now = marks.map(transaction.changes);
    if (transaction.docChanged) {
      const touched = new Set<number>();
      transaction.changes.iterChangedRanges((_a, _b, from, to) => {
        const { doc } = transaction.state;
        for (let n = doc.lineAt(from).number; n <= doc.lineAt(to).number; n++) {
          touched.add(doc.line(n).from);
        }
      });
      now = now.update({ filter: from => !touched.has(from) });
    }
    for (const effect of transaction.effects) {
      if (effect.is(setHeat)) {
        const { doc } = transaction.state;
        const marked = effect.value
          .filter(({ line, text }) => line <= doc.lines && doc.line(line).text === text)
          .map(({ line, marker }) => marker.range(doc.line(line).from));
        now = RangeSet.of(marked, true);
      }
    }
    return now;
  }
});

const extension: Extension = [
  field,
  gutter({
    class: 'jp-hvd-gc-margin',
    markers: (view: EditorView) => view.state.field(field)
  })
];

/** Marks the heavy lines of a notebook's cells, as the panels that are open see them. */
export class HeatMap {
  constructor(
    private _notebook: Notebook,
    private _said: ServerText
  ) {}

  /** What a panel has to say now; null where it has gone. The newest panel about a cell wins. */
  update(panel: object, report: IReport | null): void {
    const before = this._reports.get(panel);
    if (before === report || (!before && !report)) {
      return;
    }
    this._reports.delete(panel);
    if (report) {
      this._reports.set(panel, report);
    }
    this._schedule();
  }

  dispose(): void {
    this._isDisposed = true;
  }

  private _schedule(): void {
    if (!this._scheduled) {
      this._scheduled = true;
      requestAnimationFrame(() => {
        this._scheduled = false;
        if (!this._isDisposed && !this._notebook.isDisposed) {
          this._mark();
        }
      });
    }
  }

  private _mark(): void {
    const cells = new Map<string, IHeat[]>();
    for (const report of this._reports.values()) {
      for (const id of new Set(report.heat.map(heat => heat.place.cell))) {
        if (id !== null) {
          cells.set(
            id,
            report.heat.filter(heat => heat.place.cell === id)
          );
        }
      }
    }
    for (const cell of this._notebook.widgets) {
      const editor = cell.editor as CodeMirrorEditor | null;
      const lines = cells.get(cell.model.id);
      if (!editor && lines && !this._awaited.has(cell)) {
        // A notebook makes the editors of cells that are out of sight later.
        this._awaited.add(cell);
        void cell.ready.then(() => this._schedule());
      }
      if (editor?.editor && (lines || this._marked.has(editor))) {
        if (!this._marked.has(editor)) {
          this._marked.add(editor);
          editor.injectExtension(extension);
        }
        const heavy = (lines ?? []).filter(heat => heat.share >= WORTH);
        editor.editor.dispatch({ effects: setHeat.of(heavy.map(this._lineOf)) });
      }
    }
  }

  private _lineOf = ({ place, share, title }: IHeat): ILine => {
    const marker = new HeatMarker(share, this._said(title));
    return { line: place.line, text: place.text, marker };
  };

  private _reports = new Map<object, IReport>();
  private _awaited = new WeakSet<Cell>();
  private _marked = new WeakSet<CodeMirrorEditor>();
  private _scheduled = false;
  private _isDisposed = false;
}
