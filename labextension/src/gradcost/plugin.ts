import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget, Notification } from '@jupyterlab/apputils';
import { CodeCell } from '@jupyterlab/cells';
import { IOutput } from '@jupyterlab/nbformat';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { IRenderMime } from '@jupyterlab/rendermime';
import { ITranslator, nullTranslator, TranslationBundle } from '@jupyterlab/translation';
import { JSONObject } from '@lumino/coreutils';

import { costIcon } from '../icons';
import { CommandIDs } from '../ids';
import { HeatMap } from './heat';
import { ISurroundings, PanelRenderer, PanelView } from './renderer';
import { isReport, ISource, MIME } from './report';

/** Panels of gradient cost: in the outputs of notebooks, and in tabs beside them. */
export const gradcost: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hvd:gradcost',
  description: 'Shows what the derivatives of tensor functions cost.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_hvd');
    const known = new WeakMap<NotebookPanel, ISurroundings>();
    const adopt = (notebook: NotebookPanel): ISurroundings => {
      let found = known.get(notebook);
      if (!found) {
        found = surroundings(notebook, trans);
        known.set(notebook, found);
        notebook.content.rendermime.addFactory(factory(notebook, found));
      }
      return found;
    };
    notebooks.forEach(adopt);
    notebooks.widgetAdded.connect((_, notebook) => void adopt(notebook));

    app.commands.addCommand(CommandIDs.inspect, {
      label: trans.__('Inspect Gradient Cost'),
      caption: trans.__('What the derivatives of this cell’s tensor functions cost'),
      icon: costIcon,
      isEnabled: () => notebooks.activeCell instanceof CodeCell,
      execute: async args => {
        const notebook = notebooks.currentWidget;
        const clicked = args.clicked
          ? app.contextMenuHitTest(node => node.classList.contains('jp-CodeCell'))
          : undefined;
        const cell =
          notebook?.content.widgets.find(widget => widget.node === clicked) ??
          notebooks.activeCell;
        if (!notebook || !(cell instanceof CodeCell)) {
          return;
        }
        if (!(await load(notebook))) {
          Notification.warning(
            trans.__('Gradient costs are figured by a Python kernel: please start one.')
          );
          return;
        }
        const source = cell.model.sharedModel.getSource();
        const content = new PanelView(adopt(notebook), { source });
        const tab = new MainAreaWidget({ content });
        tab.id = `jupyter-hvd-gradcost:${notebook.id}:${++opened}`;
        tab.title.label = trans.__('Gradient cost');
        tab.title.icon = costIcon;
        tab.title.closable = true;
        notebook.disposed.connect(() => tab.dispose());
        app.shell.add(tab, 'main', { ref: notebook.id, mode: 'split-right' });
      }
    });
    palette?.addItem({ command: CommandIDs.inspect, category: trans.__('Horovod') });
  }
};

let opened = 0;

/** Load the extension's magics and comm target into the kernel; false where there is no Python. */
async function load(notebook: NotebookPanel): Promise<boolean> {
  const kernel = notebook.sessionContext.session?.kernel;
  if (!kernel || (await kernel.info).language_info.name !== 'python') {
    return false;
  }
  const code = '%load_ext jupyter_hvd';
  const reply = await kernel.requestExecute({ code, silent: true, store_history: false })
    .done;
  return reply.content.status === 'ok';
}

function factory(
  notebook: NotebookPanel,
  around: ISurroundings
): IRenderMime.IRendererFactory {
  return {
    safe: true,
    mimeTypes: [MIME],
    defaultRank: 0,
    createRenderer: () =>
      new PanelRenderer(around, (panel, id, bundle) => keep(notebook, panel, id, bundle))
  };
}

/** Put the last figures into the output, for the notebook to save. */
function keep(
  notebook: NotebookPanel,
  panel: PanelRenderer,
  id: string,
  bundle: JSONObject
): void {
  for (const cell of notebook.content.widgets) {
    if (cell instanceof CodeCell && cell.node.contains(panel.node)) {
      const { outputs } = cell.model;
      for (let i = 0; i < outputs.length; i++) {
        const output = outputs.get(i);
        const report: unknown = output.data[MIME];
        if (isReport(report) && report.id === id) {
          const data = { ...output.data, ...bundle };
          outputs.set(i, { ...output.toJSON(), data } as IOutput);
        }
      }
    }
  }
}

function surroundings(notebook: NotebookPanel, trans: TranslationBundle): ISurroundings {
  const heat = new HeatMap(notebook.content, trans);
  notebook.disposed.connect(() => heat.dispose());
  return {
    session: notebook.sessionContext,
    trans,
    reveal: place => void reveal(notebook, place),
    heat: (panel, report) => heat.update(panel, report)
  };
}

/** Show a line in its cell, selected. */
async function reveal(notebook: NotebookPanel, place: ISource): Promise<void> {
  const { content } = notebook;
  const index = content.widgets.findIndex(cell => cell.model.id === place.cell);
  const cell = content.widgets[index];
  if (!cell) {
    return;
  }
  content.activeCellIndex = index;
  await content.scrollToItem(index, 'smart');
  await cell.ready;
  const line = place.line - 1;
  const text = cell.editor?.getLine(line);
  if (text !== undefined) {
    cell.editor?.setSelection({
      start: { line, column: 0 },
      end: { line, column: text.length }
    });
    cell.editor?.focus();
  }
}
