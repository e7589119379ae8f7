import { ICell } from './model';

/** Cell magics whose body is Python; as in `jupyter_hvd.convert.notebook`. */
const PYTHON_MAGIC = /^\s*%%(capture|distribute|prun|time|timeit|tensor)\b/;
const CELL_MAGIC = /^\s*%%/;
const LINE_MAGIC = /^(\s*)([%!?].*|.*\S\?{1,2})$/;

/**
 * A notebook as a script, in the percent format that editors know.
 *
 * Magics and shell lines, which Python does not know, become comments.
 */
export function toScript(cells: readonly ICell[], sources: readonly string[]): string {
  const parts = cells.map((cell, i) =>
    cell.type === 'code'
      ? `# %%\n${codeToScript(sources[i])}`
      : `# %% [${cell.type}]\n${commented(sources[i])}`
  );
  return parts.map(part => part.trimEnd() + '\n').join('\n');
}

function codeToScript(source: string): string {
  if (PYTHON_MAGIC.test(source)) {
    const [magic, ...rest] = source.split('\n');
    return `${commented(magic)}\n${codeToScript(rest.join('\n'))}`;
  }
  if (CELL_MAGIC.test(source)) {
    return commented(source);
  }
  return source
    .split('\n')
    .map(line => (/^\s*#/.test(line) ? line : line.replace(LINE_MAGIC, '$1pass  # $2')))
    .join('\n');
}

function commented(text: string): string {
  return text
    .split('\n')
    .map(line => `# ${line}`.trimEnd())
    .join('\n');
}
