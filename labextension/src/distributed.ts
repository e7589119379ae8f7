import type { ISharedNotebook } from '@jupyter/ydoc';

import { Mode, MODES } from './training';

/** As a translated text cannot have it: there `%%` is a percent sign. */
export const MAGIC = '%%distribute';

const DISTRIBUTE = /^%%distribute\b[^\n]*\n?/;
const LOAD = '%load_ext jupyter_hvd';
const LOADS = /^[ \t]*%(?:re)?load_ext[ \t]+jupyter_hvd\b/m;

/** Whether a cell trains on workers that the notebook starts. */
export function isDistributed(source: string): boolean {
  return DISTRIBUTE.test(source);
}

/** On what a cell trains. */
export interface IWhere {
  workers: number;
  mode: Mode;
}

/** On what a cell trains: one worker, or what its `%%distribute` says; null where that does not say it. */
export function whereOf(source: string): IWhere | null {
  const [line] = DISTRIBUTE.exec(source) ?? [];
  if (line === undefined) {
    return { workers: 1, mode: 'global' };
  }
  const workers = Number(/\s-n[ =]?(\d+)/.exec(line)?.[1]);
  const mode = MODES.find(each => line.includes(`--batch ${each}`));
  return workers > 0 && mode ? { workers, mode } : null;
}

/** A cell under `%%distribute`, in place of such a line that it has. */
export function distributed(source: string, workers: number, mode: Mode): string {
  return `${MAGIC} -n ${workers} --batch ${mode}\n${undistributed(source)}`;
}

/** A cell without `%%distribute`. */
export function undistributed(source: string): string {
  return source.replace(DISTRIBUTE, '');
}

/**
 * Put `%%distribute` on some cells, and a cell that loads it above them where none does, as one step for undo.
 *
 * Returns the index of the first of these cells then.
 */
export function putDistribute(
  notebook: ISharedNotebook,
  cells: readonly number[],
  workers: number,
  mode: Mode
): number {
  const loads = notebook.cells.some(cell => LOADS.test(cell.getSource()));
  notebook.transact(() => {
    for (const index of cells) {
      const cell = notebook.cells[index];
      cell.setSource(distributed(cell.getSource(), workers, mode));
    }
    if (!loads) {
      notebook.insertCell(cells[0], { cell_type: 'code', source: LOAD });
    }
  });
  return cells[0] + (loads ? 0 : 1);
}

/** Take `%%distribute` off some cells, as one step for undo. */
export function removeDistribute(
  notebook: ISharedNotebook,
  cells: readonly number[]
): void {
  notebook.transact(() => {
    for (const index of cells) {
      const cell = notebook.cells[index];
      cell.setSource(undistributed(cell.getSource()));
    }
  });
}
