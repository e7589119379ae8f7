import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, showDialog } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator, TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { argumentsOf } from '../arguments';
import { CommandIDs } from '../ids';
import { serverText } from '../servertext';
import { WorkersItem } from './item';
import { askWhere } from './where';

/** Where the workers of a notebook are, also while a cell hangs. */
export const workers: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hvd:workers',
  description: 'Shows where the workers of a notebook are while a cell runs.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, IStatusBar, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    palette: ICommandPalette | null,
    statusBar: IStatusBar | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_hvd');
    app.commands.addCommand(CommandIDs.where, {
      label: trans.__('Show Where the Workers Are'),
      caption: trans.__('What each worker does now; answers while a cell runs'),
      describedBy: { args: argumentsOf({}) },
      isEnabled: () => !!notebooks.currentWidget?.sessionContext.session?.kernel,
      execute: async () => {
        const notebook = notebooks.currentWidget;
        if (notebook) {
          await showWhere(notebook, trans);
        }
      }
    });
    palette?.addItem({ command: CommandIDs.where, category: trans.__('Horovod') });
    if (statusBar) {
      const item = new WorkersItem(notebooks, app.commands, trans);
      statusBar.registerStatusItem('jupyter-hvd:workers', {
        align: 'left',
        item,
        isActive: () => item.isWanted,
        activeStateChanged: item.wantedChanged
      });
    }
  }
};

/** Show what each worker does, and what can be done about it, until the user has seen enough. */
async function showWhere(
  notebook: NotebookPanel,
  trans: TranslationBundle
): Promise<void> {
  const kernel = notebook.sessionContext.session?.kernel;
  if (!kernel) {
    return;
  }
  const answer = await askWhere(kernel);
  const text =
    answer === null
      ? trans.__('This kernel has no workers: a cell with %%distribute starts them.')
      : (answer.lines.length ? answer.lines : [answer.message])
          .map(serverText(trans))
          .join('\n');
  const again = Dialog.createButton({ label: trans.__('Ask Again') });
  const interrupt = Dialog.warnButton({ label: trans.__('Interrupt') });
  const restart = Dialog.warnButton({ label: trans.__('Restart Kernel') });
  const close = Dialog.okButton({ label: trans.__('Close') });
  const { button } = await showDialog({
    title: trans.__('Workers of %1', notebook.context.path),
    body: linesOf(text),
    buttons: [again, interrupt, restart, close],
    defaultButton: 3
  });
  if (button.label === again.label) {
    await showWhere(notebook, trans);
  } else if (button.label === interrupt.label) {
    await kernel.interrupt();
  } else if (button.label === restart.label) {
    await notebook.sessionContext.restartKernel();
  }
}

function linesOf(text: string): Widget {
  const node = document.createElement('pre');
  node.className = 'jp-hvd-where';
  node.textContent = text;
  return new Widget({ node });
}
