import { IDocumentManager } from '@jupyterlab/docmanager';
import { NotebookPanel } from '@jupyterlab/notebook';

/**
 * The notebook of a path, opened where it is not open yet; its content comes later.
 *
 * A command that restores a tab must not wait for that: JupyterLab reads documents when
 * all tabs are restored.
 */
export function openNotebook(
  documents: IDocumentManager,
  path: string
): NotebookPanel | null {
  const widget: unknown = documents.openOrReveal(path);
  return widget instanceof NotebookPanel ? widget : null;
}
