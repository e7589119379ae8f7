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

/** Where the server finds notebooks and the program that runs them: absolute paths. */
export interface IInstallation {
  /** The folder that the paths of notebooks are relative to. */
  root: string;
  /** The program `jupyter-hvd`; empty where it is not installed beside the server. */
  program: string;
}

/**
 * The command that runs a notebook on some ranks, as a POSIX shell reads it in any folder, whatever its `PATH`; null where a
 * name cannot be typed.
 */
export function runCommand(
  path: string,
  ranks: number,
  { root, program }: IInstallation
): string | null {
  const name = PathExt.basename(path);
  const below = PathExt.dirname(path);
  const folder = quoteWord(below ? `${root.replace(/\/$/, '')}/${below}` : root);
  const file = quoteWord(name.startsWith('-') ? `./${name}` : name);
  const command = program ? quoteWord(program) : 'jupyter hvd';
  return (
    folder && file && command && `cd ${folder} && ${command} run ${file} -n ${ranks || 1}`
  );
}
