import type { ISharedNotebook } from '@jupyter/ydoc';
import type {
  ICell as ICellContent,
  INotebookContent,
  IOutput
} from '@jupyterlab/nbformat';

import { ICell } from './model';

/** The cells of an open notebook as they are now. */
export function cellsOf(notebook: ISharedNotebook): ICell[] {
  return notebook.cells.map(cell => ({
    id: cell.getId(),
    type: cell.cell_type,
    source: cell.getSource()
  }));
}

/** The outputs of a cell; a text cell has none. */
export function outputsOf(cell: ICellContent): IOutput[] {
  return (cell.outputs as IOutput[] | undefined) ?? [];
}

/** A notebook without its outputs, which the server does not need. */
export function withoutOutputs(notebook: INotebookContent): INotebookContent {
  const cells = notebook.cells.map(cell =>
    cell.cell_type === 'code' ? { ...cell, outputs: [] } : cell
  );
  return { ...notebook, cells };
}

/** A notebook with other texts in some of its cells, whose outputs are those of the old texts and are dropped. */
export function withSources(
  notebook: INotebookContent,
  sources: ReadonlyMap<number, string>
): INotebookContent {
  const cells = notebook.cells.map((cell, index) => {
    const source = sources.get(index);
    return source === undefined
      ? cell
      : { ...cell, source, outputs: [], execution_count: null };
  });
  return { ...notebook, cells };
}
