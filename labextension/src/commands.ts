import { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification, WidgetTracker } from '@jupyterlab/apputils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { TranslationBundle } from '@jupyterlab/translation';
import { LabIcon } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyJSONObject } from '@lumino/coreutils';

import { argumentsOf } from './arguments';
import { MAGIC } from './distributed';
import { convertIcon } from './icons';
import { CommandIDs } from './ids';
import { openNotebook } from './notebooks';
import { moveToRegion } from './regions';
import { HvdApi } from './request';
import { showRule } from './ruledialog';
import { ConversionSession, StaleError } from './session';
import { Settings } from './settings';
import { ConversionTab } from './tab';
import { OPEN_TERMINAL, runInTerminal } from './terminal';

export interface ICommandParts {
  app: JupyterFrontEnd;
  api: HvdApi;
  documents: IDocumentManager;
  files: IFileBrowserFactory | null;
  notebooks: INotebookTracker;
  rendermime: IRenderMimeRegistry;
  settings: Settings;
  tracker: WidgetTracker<ConversionTab>;
  trans: TranslationBundle;
  /** Open the diff of a notebook, or show the one that is open; null where there is no room for it. */
  open: (notebook: NotebookPanel) => ConversionTab | null;
}

interface ICommand {
  label: string;
  /** The JSON schema of its arguments; none where it is left out. */
  args?: ReadonlyJSONObject;
  caption?: string;
  icon?: LabIcon;
  isEnabled?: () => boolean;
  isVisible?: () => boolean;
  isToggled?: () => boolean;
  execute: CommandRegistry.CommandFunc<unknown>;
}

/** All commands, in one table. */
export function addCommands(parts: ICommandParts): void {
  const { app, notebooks, settings, tracker, trans } = parts;
  const { commands } = app;

  const current = (): ConversionSession | undefined =>
    tracker.currentWidget?.content.session;
  const isReady = (): boolean => current()?.state === 'ready';
  const hasAccepted = (): boolean =>
    isReady() && (current()?.model?.accepted.length ?? 0) > 0;
  const canApply = (): boolean => hasAccepted() && !current()?.isReadOnly;
  const canDistribute = (): boolean =>
    isReady() && !current()!.isReadOnly && current()!.trainingCells.length > 0;
  const hasChanges = (): boolean =>
    isReady() && (current()?.model?.changes.length ?? 0) > 0;
  const move = (step: 1 | -1): void => {
    const tab = tracker.currentWidget;
    if (tab) {
      moveToRegion(tab.node, step);
    }
  };
  const acceptAll = (accepted: boolean): void => {
    const model = current()?.model;
    model?.accept(model.changes, accepted);
  };
  const saved = async (path: string | undefined): Promise<void> => {
    if (path) {
      parts.documents.openOrReveal(path);
      Notification.success(trans.__('Saved %1.', path), { autoClose: 4000 });
    }
  };
  const actions = {
    notebook: CommandIDs.apply,
    copy: CommandIDs.saveCopy,
    script: CommandIDs.exportScript
  };

  const table: Record<string, ICommand> = {
    [CommandIDs.convert]: {
      label: trans.__('Convert Notebook to Horovod'),
      caption: trans.__(
        'Preview the changes that make this notebook train on several workers'
      ),
      icon: convertIcon,
      args: argumentsOf({ path: { type: 'string' } }),
      isEnabled: () => notebooks.currentWidget !== null,
      execute: async args => {
        const path = args.path as string | undefined;
        const notebook = path
          ? openNotebook(parts.documents, path)
          : notebooks.currentWidget;
        const tab = notebook && parts.open(notebook);
        if (tab) {
          app.shell.activateById(tab.id);
        }
      }
    },
    [CommandIDs.convertFile]: {
      label: trans.__('Convert Notebook to Horovod'),
      icon: convertIcon,
      isVisible: () => selectedPath(parts) !== undefined,
      execute: () => commands.execute(CommandIDs.convert, { path: selectedPath(parts) })
    },
    [CommandIDs.apply]: {
      label: trans.__('Apply to Notebook'),
      caption: trans.__('Apply the accepted changes to the notebook (one undo step)'),
      isEnabled: canApply,
      execute: () => current()?.apply()
    },
    [CommandIDs.accept]: {
      label: trans.__('Apply Changes (Default Action)'),
      caption: trans.__('Apply, save a copy or export a script, as chosen in Settings'),
      isEnabled: hasAccepted,
      execute: () =>
        commands.execute(
          current()?.isReadOnly ? CommandIDs.saveCopy : actions[settings.action]
        )
    },
    [CommandIDs.undo]: {
      label: trans.__('Undo the Applied Changes'),
      isEnabled: () => !!current()?.canUndo,
      execute: () => current()?.undo()
    },
    [CommandIDs.saveCopy]: {
      label: trans.__('Save as Copy'),
      caption: trans.__('Save the converted notebook beside this one'),
      isEnabled: hasAccepted,
      execute: async () => saved(await current()?.saveCopy())
    },
    [CommandIDs.exportScript]: {
      label: trans.__('Export Script'),
      caption: trans.__('Save the converted notebook as a Python script beside this one'),
      isEnabled: hasAccepted,
      execute: async () => saved(await current()?.exportScript())
    },
    [CommandIDs.verify]: {
      label: trans.__('Verify'),
      caption: trans.__(
        'Run the notebook and its conversion on several workers and compare the results'
      ),
      args: argumentsOf({
        ranks: { type: 'integer', minimum: 1 },
        confirmed: { type: 'boolean' }
      }),
      isEnabled: () => hasChanges() && !current()?.verification.isBusy,
      execute: args =>
        current()?.verify((args.ranks as number) ?? settings.ranks, !!args.confirmed)
    },
    [CommandIDs.cancelVerification]: {
      label: trans.__('Cancel Verification'),
      isEnabled: () => !!current()?.verification.isBusy,
      execute: () => current()?.verification.cancel()
    },
    [CommandIDs.acceptAll]: {
      label: trans.__('Accept All'),
      caption: trans.__('Accept all changes'),
      isEnabled: hasChanges,
      execute: () => acceptAll(true)
    },
    [CommandIDs.leaveAll]: {
      label: trans.__('Reject All'),
      caption: trans.__('Reject all changes'),
      isEnabled: hasAccepted,
      execute: () => acceptAll(false)
    },
    [CommandIDs.nextChange]: {
      label: trans.__('Next Change'),
      isEnabled: hasChanges,
      execute: () => tracker.currentWidget?.content.focusChange(1)
    },
    [CommandIDs.previousChange]: {
      label: trans.__('Previous Change'),
      isEnabled: hasChanges,
      execute: () => tracker.currentWidget?.content.focusChange(-1)
    },
    [CommandIDs.nextRegion]: {
      label: trans.__('Next Part of the Conversion'),
      isEnabled: () => tracker.currentWidget !== null,
      execute: () => move(1)
    },
    [CommandIDs.previousRegion]: {
      label: trans.__('Previous Part of the Conversion'),
      isEnabled: () => tracker.currentWidget !== null,
      execute: () => move(-1)
    },
    [CommandIDs.distribute]: {
      label: trans.__('Use %1', MAGIC),
      caption: trans.__(
        'Let the cells that train run on workers that the notebook starts'
      ),
      isEnabled: canDistribute,
      execute: () => current()?.distribute()
    },
    [CommandIDs.undistribute]: {
      label: trans.__('Remove %1', MAGIC),
      isEnabled: canDistribute,
      execute: () => current()?.undistribute()
    },
    [CommandIDs.runInTerminal]: {
      label: trans.__('Run in a Terminal'),
      caption: trans.__('Save the notebook and type the command into a terminal'),
      isEnabled: () =>
        tracker.currentWidget !== null && commands.hasCommand(OPEN_TERMINAL),
      execute: () => runInTerminal(commands, current()!)
    },
    [CommandIDs.saveNotebook]: {
      label: trans.__('Save Notebook'),
      caption: trans.__('Save the notebook whose conversion this is'),
      isEnabled: () => tracker.currentWidget !== null,
      execute: () => current()?.notebook.context.save()
    },
    [CommandIDs.toggleWrap]: {
      label: trans.__('Wrap Lines'),
      caption: trans.__('Wrap long lines of the diff'),
      isToggled: () => settings.wrap,
      execute: () => settings.setWrap(!settings.wrap)
    },
    [CommandIDs.refresh]: {
      label: trans.__('Convert Again'),
      caption: trans.__('Convert the notebook again'),
      isEnabled: () => tracker.currentWidget !== null,
      execute: () => current()?.convert()
    },
    [CommandIDs.showRule]: {
      label: trans.__('Show Rule Documentation'),
      args: argumentsOf({ code: { type: 'string' } }, ['code']),
      execute: args => showRule(parts, args.code as string)
    }
  };
  for (const [id, command] of Object.entries(table)) {
    commands.addCommand(id, {
      ...command,
      describedBy: { args: command.args ?? argumentsOf({}) },
      execute: args =>
        Promise.resolve()
          .then(() => command.execute(args))
          .catch(error => explain(error, trans))
    });
  }
}

function explain(error: unknown, trans: TranslationBundle): void {
  if (error instanceof StaleError) {
    Notification.warning(
      trans.__(
        'The notebook changed; nothing was applied. Review the updated changes first.'
      )
    );
  } else {
    Notification.error(error instanceof Error ? error.message : String(error));
  }
}

/** The notebook that is selected in the file browser. */
function selectedPath(parts: ICommandParts): string | undefined {
  const items = [...(parts.files?.tracker.currentWidget?.selectedItems() ?? [])];
  return items.length === 1 && items[0].type === 'notebook' ? items[0].path : undefined;
}
