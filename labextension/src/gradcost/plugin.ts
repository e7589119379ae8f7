import {
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  ICommandPalette,
  MainAreaWidget,
  Notification,
  WidgetTracker
} from '@jupyterlab/apputils';
import { CodeCell } from '@jupyterlab/cells';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { IRenderMime } from '@jupyterlab/rendermime';
import { ITranslator, nullTranslator, TranslationBundle } from '@jupyterlab/translation';
import { JSONObject, UUID } from '@lumino/coreutils';

import { argumentsOf } from '../arguments';
import { costIcon } from '../icons';
import { CommandIDs } from '../ids';
import { openNotebook } from '../notebooks';
import { Places } from '../place';
import { serverText } from '../servertext';
import { put } from './change';
import { HeatMap } from './heat';
import {
  focusedPanel,
  IPlace,
  ISurroundings,
  PanelRenderer,
  PanelView
} from './renderer';
import { ISource, MIME } from './report';

type PanelTab = MainAreaWidget<PanelView>;

/** Panels of gradient cost: in the outputs of notebooks, and in tabs beside them. */
export const gradcost: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hvd:gradcost',
  description: 'Shows what the derivatives of tensor functions cost.',
  autoStart: true,
  requires: [IDocumentManager, INotebookTracker],
  optional: [ICommandPalette, ILabShell, ILayoutRestorer, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    documents: IDocumentManager,
    notebooks: INotebookTracker,
    palette: ICommandPalette | null,
    lab: ILabShell | null,
    restorer: ILayoutRestorer | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_hvd');
    const tracker = new WidgetTracker<PanelTab>({ namespace: 'jupyter-hvd-gradcost' });
    const places = new Places(app.shell, lab, trans);
    const known = new WeakMap<NotebookPanel, ISurroundings>();
    const adopt = (notebook: NotebookPanel): ISurroundings => {
      let found = known.get(notebook);
      if (!found) {
        found = surroundings(notebook, trans);
        known.set(notebook, found);
        notebook.content.rendermime.addFactory(factory(found));
      }
      return found;
    };
    notebooks.forEach(adopt);
    notebooks.widgetAdded.connect((_, notebook) => void adopt(notebook));

    const open = (
      notebook: NotebookPanel,
      about: IPlace,
      request: JSONObject
    ): PanelTab | null => {
      const content = new PanelView(adopt(notebook), about, request);
      const tab = new MainAreaWidget({ content });
      tab.id = `jupyter-hvd-gradcost:${about.tab}`;
      tab.title.label = trans.__('Gradient cost');
      tab.title.icon = costIcon;
      tab.title.className = 'jp-hvd-title';
      tab.title.closable = true;
      notebook.disposed.connect(() => tab.dispose());
      if (!places.put(tab, notebook, 'split-right')) {
        return null;
      }
      void tracker.add(tab);
      // The kernel's name of the panel, which a reload asks for, is known with its first report.
      content.named.connect(() => void tracker.save(tab));
      return tab;
    };

    /** Open a tab as it was before a reload; it connects when its kernel is there. */
    const reopen = (about: IPlace): void => {
      const notebook = openNotebook(documents, about.path);
      const tab = notebook && open(notebook, about, { id: about.id });
      if (tab) {
        void connectLater(notebook, tab.content);
      }
    };

    app.commands.addCommand(CommandIDs.inspect, {
      label: trans.__('Inspect Gradient Cost'),
      caption: trans.__('What the derivatives of this cell’s tensor functions cost'),
      icon: costIcon,
      describedBy: {
        args: argumentsOf({
          clicked: { type: 'boolean' },
          path: { type: 'string' },
          cell: { type: 'string' },
          id: { type: 'string' },
          tab: { type: 'string' }
        })
      },
      isEnabled: args => !!args.path || notebooks.activeCell instanceof CodeCell,
      execute: async args => {
        if (args.path) {
          return reopen(args as unknown as IPlace);
        }
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
        if (await load(notebook)) {
          const { path } = notebook.context;
          const about = { path, cell: cell.model.id, id: '', tab: UUID.uuid4() };
          open(notebook, about, { source: sourceOf(cell) });
        } else {
          Notification.warning(trans.__('Gradient cost needs a running Python kernel.'));
        }
      }
    });
    app.commands.addCommand(CommandIDs.undoAccepted, {
      label: trans.__('Undo the Accepted Advice'),
      describedBy: { args: argumentsOf({}) },
      execute: () => focusedPanel()?.model?.takeBack()
    });
    palette?.addItem({ command: CommandIDs.inspect, category: trans.__('Horovod') });
    if (restorer) {
      void restorer.restore(tracker, {
        command: CommandIDs.inspect,
        args: ({ content }) => ({ ...content.place }),
        name: tab => tab.content.place.tab,
        when: app.serviceManager.ready
      });
    }
  }
};

function sourceOf(cell: CodeCell): string {
  return cell.model.sharedModel.getSource();
}

/** Connect a restored panel: to the kernel's panel of that name, or to a new one about its cell. */
async function connectLater(notebook: NotebookPanel, panel: PanelView): Promise<void> {
  await notebook.context.ready;
  await notebook.sessionContext.ready;
  const { cell, id } = panel.place;
  const found = notebook.content.widgets.find(({ model }) => model.id === cell);
  if (found instanceof CodeCell && (await load(notebook)) && !panel.isDisposed) {
    panel.connect({ id, source: sourceOf(found) });
  }
}

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

function factory(around: ISurroundings): IRenderMime.IRendererFactory {
  return {
    safe: true,
    mimeTypes: [MIME],
    defaultRank: 0,
    createRenderer: () => new PanelRenderer(around)
  };
}

function surroundings(notebook: NotebookPanel, trans: TranslationBundle): ISurroundings {
  const heat = new HeatMap(notebook.content, serverText(trans));
  notebook.disposed.connect(() => heat.dispose());
  return {
    session: notebook.sessionContext,
    trans,
    reveal: place => void reveal(notebook, place),
    put: change => {
      const done = put(notebook, change, trans);
      if (typeof done !== 'string') {
        void reveal(notebook, { ...change.place, line: change.first });
      }
      return done;
    },
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
