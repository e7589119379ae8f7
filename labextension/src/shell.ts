/** Keys, as a terminal takes them: Enter, Ctrl+C, an escape sequence. Quotes do not keep it from that. */
const KEYS = /\p{Cc}/u;

/** A text as one word of a POSIX shell; null where it cannot be typed. */
export function quoteWord(text: string): string | null {
  if (KEYS.test(text)) {
    return null;
  }
  return /^[\w.+/-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
}

/** The command that runs a notebook on some ranks, as a POSIX shell reads it; null where its name cannot be typed. */
export function runCommand(name: string, ranks: number): string | null {
  const file = quoteWord(name.startsWith('-') ? `./${name}` : name);
  return file && `jupyter hvd run ${file} -n ${ranks || 1}`;
}
