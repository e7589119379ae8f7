import type { YCodeCell } from '@jupyter/ydoc';
import { NotebookPanel } from '@jupyterlab/notebook';
import { TranslationBundle } from '@jupyterlab/translation';

import { IChange } from './report';

/** Where some lines stand in a text, from 1 on; null where the text has others there. */
export function spanOf(
  text: string,
  change: Pick<IChange, 'first' | 'last' | 'before'>
): [start: number, end: number] | null {
  const lines = text.split('\n');
  const found = lines.slice(change.first - 1, change.last).join('\n');
  if (found !== change.before || change.last > lines.length) {
    return null;
  }
  const above = lines.slice(0, change.first - 1);
  const start = above.reduce((sum, line) => sum + line.length + 1, 0);
  return [start, start + found.length];
}

/** Takes a step back while it is the last one in its cell; returns why not, where it is not. */
export type Undo = () => string;

/** Put a change into its cell, as one step to undo; returns why not, where that cannot be. */
export function put(
  notebook: NotebookPanel,
  change: IChange,
  trans: TranslationBundle
): Undo | string {
  const cell = notebook.content.widgets.find(
    ({ model }) => model.id === change.place.cell
  );
  if (!cell) {
    return trans.__(
      'The cell of this function is not in the notebook: nothing is changed.'
    );
  }
  if (cell.model.getMetadata('editable') === false) {
    return trans.__('The cell may not be edited: nothing is changed.');
  }
  const shared = cell.model.sharedModel;
  const span = spanOf(shared.getSource(), change);
  if (!span) {
    return trans.__(
      'The cell has changed since it ran: nothing is changed. Run it, and look again.'
    );
  }
  // What is typed just before or after does not become part of this step.
  const undo = (shared as unknown as YCodeCell).undoManager;
  undo?.stopCapturing();
  shared.updateSource(...span, change.after);
  undo?.stopCapturing();
  const step = undo?.undoStack.at(-1);
  return () => {
    if (!step || undo?.undoStack.at(-1) !== step) {
      return trans.__(
        'The cell has changed since: take back what came after it in the cell first.'
      );
    }
    undo.undo();
    return '';
  };
}
