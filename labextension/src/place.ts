import { ILabShell, JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { DocumentRegistry } from '@jupyterlab/docregistry';
import { NotebookPanel } from '@jupyterlab/notebook';
import { TranslationBundle } from '@jupyterlab/translation';
import { SplitPanel, Widget } from '@lumino/widgets';

/** Puts tabs beside their notebooks, or below where a front end shows one document alone. */
export class Places {
  /**
   * @param lab JupyterLab's shell; null in other front ends, such as Notebook 7.
   */
  constructor(
    private _shell: JupyterFrontEnd.IShell,
    private _lab: ILabShell | null,
    private _trans: TranslationBundle
  ) {}

  /** False where there is no room for the tab: the user is told why, and the tab is gone. */
  put(
    tab: Widget,
    notebook: NotebookPanel,
    mode: DocumentRegistry.IOpenOptions['mode']
  ): boolean {
    if (this._lab) {
      this._lab.add(tab, 'main', { ref: notebook.id, mode });
      return true;
    }
    if (notebook.isAttached) {
      this._shell.add(tab, 'down');
    }
    if (tab.parent) {
      tab.addClass('jp-hvd-below');
      this._shell.activateById(tab.id);
      makeRoom(tab);
      return true;
    }
    tab.dispose();
    this._refuse(notebook);
    return false;
  }

  private _refuse(notebook: NotebookPanel): void {
    const { path } = notebook.context;
    const trans = this._trans;
    const [title, body] = notebook.isAttached
      ? [
          trans.__('No room for it here'),
          trans.__(
            'This front end shows nothing beside a notebook: open %1 in JupyterLab.',
            path
          )
        ]
      : [
          trans.__('%1 opens in a page of its own', path),
          trans.__('Choose “Convert Notebook to Horovod” there.')
        ];
    void showDialog({ title, body, buttons: [Dialog.okButton()] });
  }
}

/** Half of the page for what stands below the notebook: without a word it would get a line. */
function makeRoom(tab: Widget): void {
  let child: Widget = tab;
  while (child.parent) {
    const { parent } = child;
    if (parent instanceof SplitPanel && parent.orientation === 'vertical') {
      const below = parent.widgets.indexOf(child);
      parent.setRelativeSizes(
        parent.widgets.map((_, i) => (i === below ? parent.widgets.length - 1 : 1))
      );
      return;
    }
    child = parent;
  }
}
