import {
  ILabShell,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  ICommandPalette,
  IToolbarWidgetRegistry,
  MainAreaWidget,
  WidgetTracker
} from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { argumentsOf } from '../arguments';
import { convertIcon } from '../icons';
import { CommandIDs } from '../ids';
import { Places } from '../place';
import { WorkersItem } from './item';
import { WorkersPanel } from './panel';

/** What the workers of a notebook do and have, also while a cell hangs. */
export const workers: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hvd:workers',
  description:
    'Shows what the workers of a notebook do and have, while a cell runs, too.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ILabShell, IStatusBar, IToolbarWidgetRegistry, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    palette: ICommandPalette | null,
    lab: ILabShell | null,
    statusBar: IStatusBar | null,
    toolbars: IToolbarWidgetRegistry | null,
    optionalTranslator: ITranslator | null
  ): void => {
    const translator = optionalTranslator ?? nullTranslator;
    const trans = translator.load('jupyter_hvd');
    const places = new Places(app.shell, lab, trans);
    const tracker = new WidgetTracker<MainAreaWidget<WorkersPanel>>({
      namespace: 'jupyter-hvd-workers'
    });

    const open = (notebook: NotebookPanel): void => {
      const opened = tracker.find(({ content }) => content.notebook === notebook);
      if (opened) {
        app.shell.activateById(opened.id);
        opened.content.refresh();
        return;
      }
      const tab = new MainAreaWidget({ content: new WorkersPanel(notebook, translator) });
      tab.id = `jupyter-hvd-workers:${notebook.id}`;
      tab.title.icon = convertIcon;
      tab.title.className = 'jp-hvd-title';
      tab.title.closable = true;
      const name = (): void => {
        tab.title.label = trans.__(
          'Workers of %1',
          PathExt.basename(notebook.context.path)
        );
      };
      name();
      notebook.context.pathChanged.connect(name);
      notebook.disposed.connect(() => tab.dispose());
      if (places.put(tab, notebook, 'split-right')) {
        void tracker.add(tab);
      }
    };

    app.commands.addCommand(CommandIDs.where, {
      label: trans.__('Show the Workers'),
      caption: trans.__('What each worker does and has now; answers while a cell runs'),
      icon: convertIcon,
      describedBy: { args: argumentsOf({}) },
      isEnabled: () => !!notebooks.currentWidget?.sessionContext.session?.kernel,
      execute: () => {
        if (notebooks.currentWidget) {
          open(notebooks.currentWidget);
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
    toolbars?.addFactory('Notebook', 'jupyter-hvd-workers', () => {
      const item = new WorkersItem(notebooks, app.commands, trans);
      // Notebook 7 has no status bar.
      const show = (): void => item.setHidden(!!statusBar || !item.isWanted);
      show();
      item.wantedChanged.connect(show);
      return item;
    });
  }
};
