import {
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, WidgetTracker } from '@jupyterlab/apputils';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { ISearchProviderRegistry } from '@jupyterlab/documentsearch';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { IMainMenu } from '@jupyterlab/mainmenu';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStateDB } from '@jupyterlab/statedb';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { addCommands } from './commands';
import { gradcost } from './gradcost/plugin';
import { CommandIDs } from './ids';
import { addNotebookCommands } from './notebookcommands';
import { Places } from './place';
import { HvdApi } from './request';
import { Reviews } from './review';
import { DiffSearch } from './search';
import { addSearch } from './searchprovider';
import { serverText } from './servertext';
import { ConversionSession } from './session';
import { Settings } from './settings';
import { ConversionTab, createTab } from './tab';
import { workers } from './workers/plugin';

const PLUGIN_ID = 'jupyter-hvd:plugin';

const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN_ID,
  description: 'Converts a notebook to Horovod, side by side.',
  autoStart: true,
  requires: [
    IDocumentManager,
    IEditorLanguageRegistry,
    INotebookTracker,
    IRenderMimeRegistry
  ],
  optional: [
    ICommandPalette,
    IFileBrowserFactory,
    ILabShell,
    ILayoutRestorer,
    IMainMenu,
    ISearchProviderRegistry,
    ISettingRegistry,
    IStateDB,
    ITranslator
  ],
  activate: async (
    app: JupyterFrontEnd,
    documents: IDocumentManager,
    languages: IEditorLanguageRegistry,
    notebooks: INotebookTracker,
    rendermime: IRenderMimeRegistry,
    palette: ICommandPalette | null,
    files: IFileBrowserFactory | null,
    lab: ILabShell | null,
    restorer: ILayoutRestorer | null,
    menu: IMainMenu | null,
    searches: ISearchProviderRegistry | null,
    registry: ISettingRegistry | null,
    state: IStateDB | null,
    translator: ITranslator | null
  ): Promise<void> => {
    const trans = (translator ?? nullTranslator).load('jupyter_hvd');
    const { commands, serviceManager, shell } = app;
    const places = new Places(shell, lab, trans);
    const reviews = new Reviews(state);
    const api = new HvdApi(serviceManager.serverSettings);
    const tracker = new WidgetTracker<ConversionTab>({ namespace: 'jupyter-hvd' });
    const python = await languages.getLanguage('ipython');
    const settings = new Settings((await registry?.load(PLUGIN_ID)) ?? null);

    const open = (notebook: NotebookPanel): ConversionTab | null => {
      // Two views of a notebook are one notebook.
      const opened = tracker.find(
        tab => tab.content.session.notebook.context === notebook.context
      );
      if (opened) {
        return opened;
      }
      const session = new ConversionSession(
        notebook,
        api,
        serviceManager.contents,
        () => settings.options,
        reviews,
        settings.ranks
      );
      const tab = createTab(
        {
          session,
          commands,
          rendermime,
          language: python?.support ?? [],
          settings,
          trans,
          said: serverText(trans),
          search: new DiffSearch(() => session.model?.texts ?? []),
          api,
          buttons: new Map()
        },
        tracker
      );
      if (!places.put(tab, notebook, 'tab-after')) {
        return null;
      }
      void tracker.add(tab);
      notebook.context.pathChanged.connect(() => void tracker.save(tab), tab);
      return tab;
    };

    addCommands({
      app,
      api,
      documents,
      files,
      notebooks,
      rendermime,
      settings,
      tracker,
      trans,
      open
    });
    addNotebookCommands(
      commands,
      menu,
      () => shell.currentWidget,
      widget => tracker.find(tab => tab === widget)?.content ?? null
    );
    if (searches) {
      addSearch(searches);
    }
    const category = trans.__('Horovod');
    for (const command of PALETTE) {
      palette?.addItem({ command, category });
    }
    if (restorer) {
      void restorer.restore(tracker, {
        command: CommandIDs.convert,
        args: tab => ({ path: tab.content.session.path }),
        name: tab => tab.content.session.path,
        when: app.serviceManager.ready
      });
    }
  }
};

const PALETTE = [
  CommandIDs.convert,
  CommandIDs.apply,
  CommandIDs.saveCopy,
  CommandIDs.exportScript,
  CommandIDs.verify,
  CommandIDs.cancelVerification,
  CommandIDs.distribute,
  CommandIDs.undistribute,
  CommandIDs.acceptAll,
  CommandIDs.leaveAll,
  CommandIDs.nextChange,
  CommandIDs.previousChange,
  CommandIDs.nextRegion,
  CommandIDs.previousRegion,
  CommandIDs.toggleWrap,
  CommandIDs.refresh,
  CommandIDs.runAll,
  CommandIDs.restartKernel,
  CommandIDs.interruptKernel
];

export default [plugin, gradcost, workers];
