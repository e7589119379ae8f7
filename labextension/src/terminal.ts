import { PathExt } from '@jupyterlab/coreutils';
import { Terminal } from '@jupyterlab/services';
import { CommandRegistry } from '@lumino/commands';

import { ConversionSession } from './session';
import { runCommand } from './shell';

/** JupyterLab's command that opens a terminal. */
export const OPEN_TERMINAL = 'terminal:create-new';

/** What that command opens; it waits until the terminal is connected. */
interface ITerminalTab {
  content: { session: Pick<Terminal.ITerminalConnection, 'send'> };
}

/** Save a notebook, and type the command that runs it into a terminal in its folder: Enter is left to the user. */
export async function runInTerminal(
  commands: CommandRegistry,
  session: ConversionSession
): Promise<void> {
  const { isReadOnly, notebook, path, workers } = session;
  const command = runCommand(PathExt.basename(path), workers);
  if (command === null) {
    return; // the panel says why
  }
  if (!isReadOnly) {
    await notebook.context.save();
  }
  // Relative to the server's folder; for nothing, it takes the one that it was started in.
  const cwd = PathExt.dirname(path) || '.';
  const opened: ITerminalTab = await commands.execute(OPEN_TERMINAL, { cwd });
  opened.content.session.send({ type: 'stdin', content: [command] });
}
