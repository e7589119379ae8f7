import { YNotebook } from '@jupyter/ydoc';

import { distributed, putDistribute, removeDistribute } from '../src/distributed';

function notebookOf(...sources: string[]): YNotebook {
  const notebook = new YNotebook();
  notebook.insertCells(
    0,
    sources.map(source => ({ cell_type: 'code', source }))
  );
  return notebook;
}

describe('%%distribute on the cells that train', () => {
  const texts = (notebook: YNotebook): string[] =>
    notebook.cells.map(cell => cell.getSource());

  it('replaces such a line, and stands above other magics', () => {
    const once = distributed('%%time\nfit()', 2, 'global');
    expect(once).toBe('%%distribute -n 2 --batch global\n%%time\nfit()');
    expect(distributed(once, 4, 'per-rank')).toBe(
      '%%distribute -n 4 --batch per-rank\n%%time\nfit()'
    );
  });

  it('is one step, with the cell that loads it', () => {
    const notebook = notebookOf('a', 'fit()');
    notebook.undoManager.clear();
    expect(putDistribute(notebook, [1], 2, 'global')).toBe(2);
    const after = [
      'a',
      '%load_ext jupyter_hvd',
      '%%distribute -n 2 --batch global\nfit()'
    ];
    expect(texts(notebook)).toEqual(after);
    expect(putDistribute(notebook, [2], 2, 'global')).toBe(2);
    expect(texts(notebook)).toEqual(after);
    removeDistribute(notebook, [2]);
    expect(texts(notebook)[2]).toBe('fit()');
  });
});
