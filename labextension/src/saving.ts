import { PathExt } from '@jupyterlab/coreutils';
import { Contents } from '@jupyterlab/services';

/**
 * Save a file beside a notebook, under the notebook's name with `_hvd`, and a number where that is taken.
 *
 * Returns the path of the new file.
 */
export async function saveBeside(
  contents: Contents.IManager,
  notebook: string,
  extension: string,
  file: Partial<Contents.IModel>
): Promise<string> {
  const folder = PathExt.dirname(notebook);
  const stem = PathExt.basename(notebook, '.ipynb');
  const listing = (await contents.get(folder)).content as Contents.IModel[];
  const name = freeName(`${stem}_hvd`, extension, new Set(listing.map(f => f.name)));
  const path = PathExt.join(folder, name);
  await contents.save(path, { ...file, name, path });
  return path;
}

/** A file's name, with a number where it is taken. */
export function freeName(
  stem: string,
  extension: string,
  taken: ReadonlySet<string>
): string {
  let name = `${stem}${extension}`;
  for (let i = 1; taken.has(name); i++) {
    name = `${stem}-${i}${extension}`;
  }
  return name;
}
