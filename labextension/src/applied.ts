import type { ISharedNotebook, YNotebook } from '@jupyter/ydoc';

import { ConversionModel, ICell, sameProgram } from './model';

/** Write the accepted changes into a notebook, as one step for undo. */
export function applyChanges(
  model: ConversionModel,
  notebook: ISharedNotebook
): AppliedChanges {
  const results = model.results();
  // What is typed just before or after does not become part of this step.
  const { undoManager } = notebook as unknown as YNotebook;
  undoManager.stopCapturing();
  notebook.transact(() => {
    // Part by part: what another person writes beside them meanwhile stays where it is.
    for (const index of results.keys()) {
      for (const { start, end, text } of model.splicesOf(index).reverse()) {
        notebook.cells[index].updateSource(start, end, text);
      }
    }
  });
  undoManager.stopCapturing();
  return new AppliedChanges(model.cells, results);
}

/** Changes that were written into a notebook, and can be taken back until one of their cells is edited. */
export class AppliedChanges {
  /**
   * @param cells the notebook before the changes.
   * @param results the new texts of the changed cells, by the cells' indices.
   */
  constructor(cells: readonly ICell[], results: ReadonlyMap<number, string>) {
    this._after = cells.map((cell, index) => ({
      ...cell,
      source: results.get(index) ?? cell.source
    }));
    const changed = [...results.keys()];
    this._before = new Map(changed.map(index => [cells[index].id, cells[index].source]));
    this._written = new Map(changed.map(index => [cells[index].id, results.get(index)!]));
  }

  /** Whether no cell that they changed was edited since. */
  canUndo(now: readonly ICell[]): boolean {
    const texts = new Map(now.map(cell => [cell.id, cell.source]));
    return [...this._written].every(([id, text]) => texts.get(id) === text);
  }

  /** Take them back; what was written elsewhere in the notebook since stays. */
  undo(notebook: ISharedNotebook, now: readonly ICell[]): void {
    if (sameProgram(this._after, now)) {
      notebook.undo();
      return;
    }
    notebook.transact(() => {
      for (const cell of notebook.cells) {
        const source = this._before.get(cell.getId());
        if (source !== undefined) {
          cell.setSource(source);
        }
      }
    });
  }

  /** The whole notebook right after the changes. */
  private _after: readonly ICell[];
  /** The texts of the changed cells before and after, by the cells' ids. */
  private _before: ReadonlyMap<string, string>;
  private _written: ReadonlyMap<string, string>;
}
