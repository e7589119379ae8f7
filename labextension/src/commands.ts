import { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, Notification, showDialog, WidgetTracker } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { IRenderMimeRegistry, MimeModel } from '@jupyterlab/rendermime';
import { Terminal } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';
import { LabIcon } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyJSONObject } from '@lumino/coreutils';

import { argumentsOf } from './arguments';
import { MAGIC } from './distributed';
import { convertIcon } from './icons';
import { CommandIDs } from './ids';
import { openNotebook } from './notebooks';
import { HvdApi } from './request';
import { runCommand } from './shell';
import { ConversionSession, StaleError } from './session';
import { Settings } from './settings';
import { ConversionTab } from './tab';

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

/** What JupyterLab's command opens; it waits until the terminal is connected. */
interface ITerminalTab {
  content: { session: Pick<Terminal.ITerminalConnection, 'send'> };
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
      caption: trans.__('Show, side by side, how this notebook trains with Horovod'),
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
      caption: trans.__(
        'Write the accepted changes into the notebook, as one step to undo'
      ),
      isEnabled: canApply,
      execute: () => current()?.apply()
    },
    [CommandIDs.accept]: {
      label: trans.__('Apply or Save, as Set'),
      caption: trans.__('What the setting “action” says with the accepted changes'),
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
      caption: trans.__('Run the notebook and its conversion on some ranks, and compare'),
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
        tracker.currentWidget !== null && commands.hasCommand('terminal:create-new'),
      execute: async () => {
        const { isReadOnly, notebook, path, workers } = current()!;
        const command = runCommand(PathExt.basename(path), workers);
        if (command === null) {
          return; // the panel says why
        }
        if (!isReadOnly) {
          await notebook.context.save();
        }
        // Relative to the server's folder; for nothing, it takes the one that it was started in.
        const cwd = PathExt.dirname(path) || '.';
        const opened: ITerminalTab = await commands.execute('terminal:create-new', {
          cwd
        });
        opened.content.session.send({ type: 'stdin', content: [command] });
      }
    },
    [CommandIDs.saveNotebook]: {
      label: trans.__('Save Notebook'),
      caption: trans.__('Save the notebook whose conversion this is'),
      isEnabled: () => tracker.currentWidget !== null,
      execute: () => current()?.notebook.context.save()
    },
    [CommandIDs.toggleWrap]: {
      label: trans.__('Wrap Lines'),
      caption: trans.__('Let long lines of the diff go on in the next line'),
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
      trans.__('The notebook had changed. Please look at its new conversion first.')
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

async function showRule(parts: ICommandParts, code: string): Promise<void> {
  const { api, rendermime, trans } = parts;
  const rule = (await api.rules()).find(candidate => candidate.code === code);
  const text = rule?.page ?? trans.__('There is no page about %1.', code);
  const body = rendermime.createRenderer('text/markdown');
  await body.renderModel(new MimeModel({ data: { 'text/markdown': text } }));
  body.addClass('jp-hvd-rule');
  await showDialog({
    title: rule ? `${rule.code}: ${rule.name}` : code,
    body,
    buttons: [Dialog.okButton({ label: trans.__('Close') })]
  });
}
