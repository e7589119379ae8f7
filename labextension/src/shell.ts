import { PathExt } from '@jupyterlab/coreutils';

/** Keys, as a terminal takes them: Enter, Ctrl+C, an escape sequence. Quotes do not keep it from that. */
const KEYS = /\p{Cc}/u;

/** A text as one word of a POSIX shell; null where it cannot be typed. */
export function quoteWord(text: string): string | null {
  if (KEYS.test(text)) {
    return null;
  }
  return /^[\w.+/-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
}

/** The command that runs a notebook on some ranks, as a POSIX shell reads it in the notebook's folder; null where its name cannot be typed. */
export function runCommand(
  name: string,
  ranks: number,
  program = 'jupyter hvd'
): string | null {
  const file = quoteWord(name.startsWith('-') ? `./${name}` : name);
  return file && `${program} run ${file} -n ${ranks || 1}`;
}

/**
 * That command as it is right in any folder, by the path of the program; null where a name cannot be typed.
 *
 * The notebook's path is relative to the server's folder, which the server names to its terminals.
 */
export function runCommandIn(
  path: string,
  ranks: number,
  program: string
): string | null {
  const folder = PathExt.dirname(path);
  const below = folder && quoteWord(`/${folder}`);
  const run = runCommand(
    PathExt.basename(path),
    ranks,
    (program && quoteWord(program)) || undefined
  );
  return run === null || below === null
    ? null
    : `cd "$JUPYTER_SERVER_ROOT"${below} && ${run}`;
}
