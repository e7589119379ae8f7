import { PageConfig } from '@jupyterlab/coreutils';
import { Terminal } from '@jupyterlab/services';
import { CommandRegistry } from '@lumino/commands';

import { ConversionSession } from './session';
import { runCommand } from './shell';

/** JupyterLab's command that opens a terminal. */
export const OPEN_TERMINAL = 'terminal:create-new';

type Connection = Pick<Terminal.ITerminalConnection, 'messageReceived' | 'send'>;

/** What that command opens. */
interface ITerminalTab {
  content: { session: Connection };
}

/** Milliseconds after which a shell that has shown no prompt is typed into all the same. */
const PATIENCE = 5000;

/** The command that runs a notebook on the chosen number of workers; null where its name cannot be typed. */
export function commandOf({ localPath, workers }: ConversionSession): string | null {
  return runCommand(localPath, workers, {
    root: PageConfig.getOption('jupyterHvdRoot'),
    program: PageConfig.getOption('jupyterHvdCommand')
  });
}

/**
 * Save a notebook, and type the command that runs it into a terminal: Enter is left to the user.
 *
 * The terminal may begin in any folder, and its shell may find other programs than the server does, so that the command names both.
 */
export async function runInTerminal(
  commands: CommandRegistry,
  session: ConversionSession
): Promise<void> {
  const { isReadOnly, notebook } = session;
  const command = commandOf(session);
  if (command === null) {
    return; // the panel says why
  }
  if (!isReadOnly) {
    await notebook.context.save();
  }
  const { content }: ITerminalTab = await commands.execute(OPEN_TERMINAL);
  await prompted(content.session);
  content.session.send({ type: 'stdin', content: [command] });
}

/** Wait until a new terminal's shell reads: what is typed before stands there twice. */
function prompted(terminal: Connection): Promise<void> {
  return new Promise(resolve => {
    const end = (): void => {
      clearTimeout(timer);
      terminal.messageReceived.disconnect(listen);
      resolve();
    };
    const listen = (_: unknown, { type }: Terminal.IMessage): void => {
      if (type === 'stdout') {
        end();
      }
    };
    const timer = setTimeout(end, PATIENCE);
    terminal.messageReceived.connect(listen);
  });
}
