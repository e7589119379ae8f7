import { SemanticCommand } from '@jupyterlab/apputils';
import { IMainMenu } from '@jupyterlab/mainmenu';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import { argumentsOf } from './arguments';
import { CommandIDs } from './ids';
import { ConversionView } from './view';

/** JupyterLab's commands for a notebook that its conversion has, too: by the commands' names here. */
const NAMES = {
  [CommandIDs.runAll]: 'notebook:run-all-cells',
  [CommandIDs.restartKernel]: 'notebook:restart-kernel',
  [CommandIDs.interruptKernel]: 'notebook:interrupt-kernel'
};

/**
 * Let the menus Run and Kernel do to the notebook what they do where it is in front: with its conversion in front, they would be
 * disabled.
 *
 * @param viewOf the conversion that a widget shows, if any.
 */
export function addNotebookCommands(
  commands: CommandRegistry,
  menu: IMainMenu | null,
  current: () => Widget | null,
  viewOf: (widget: Widget | null) => ConversionView | null
): void {
  const isOurs = (widget: Widget | null): boolean => viewOf(widget) !== null;
  for (const [id, name] of Object.entries(NAMES)) {
    commands.addCommand(id, {
      label: () => (commands.hasCommand(name) ? commands.label(name) : ''),
      describedBy: { args: argumentsOf({}) },
      isEnabled: () => isOurs(current()),
      isVisible: () => isOurs(current()) && commands.hasCommand(name),
      execute: () => {
        const notebook = viewOf(current())?.session.notebook;
        return (
          notebook && commands.execute(name, { [SemanticCommand.WIDGET]: notebook.id })
        );
      }
    });
  }
  const { codeRunners } = menu?.runMenu ?? {};
  const { kernelUsers } = menu?.kernelMenu ?? {};
  codeRunners?.runAll.add({ id: CommandIDs.runAll, isEnabled: isOurs });
  codeRunners?.restart.add({ id: CommandIDs.restartKernel, isEnabled: isOurs });
  kernelUsers?.restartKernel.add({ id: CommandIDs.restartKernel, isEnabled: isOurs });
  kernelUsers?.interruptKernel.add({ id: CommandIDs.interruptKernel, isEnabled: isOurs });
}
