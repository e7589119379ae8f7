import { Conversion } from '../src/conversion';
import { ConversionModel, ICell } from '../src/model';
import { freeName } from '../src/saving';
import { ViewedCells } from '../src/viewed';
import fixture from './conversion.json';

const conversion = fixture.conversion as Conversion;
const cells: ICell[] = fixture.notebook.cells.map(cell => ({
  id: cell.id,
  type: cell.cell_type,
  source: cell.source
}));

describe('ViewedCells', () => {
  it('keeps a mark as long as the cell and its changes are the same', () => {
    const model = new ConversionModel(cells, conversion);
    const change = model.choices[0];
    const cell = change.cell!;
    const viewed = new ViewedCells();
    viewed.mark(model, cell, true);
    expect(viewed.has(model, cell)).toBe(true);
    expect(model.cells.map((_, i) => viewed.has(model, i)).filter(Boolean)).toHaveLength(
      1
    );
    model.accept([change], false);
    expect(viewed.has(model, cell)).toBe(false);
    model.accept([change], true);

    const kept = new ViewedCells();
    kept.restore(viewed.digests);
    expect(kept.has(new ConversionModel(cells, conversion), cell)).toBe(true);
    kept.mark(model, cell, false);
    expect(kept.digests).toEqual([]);
  });
});

describe('choicesFrom', () => {
  it('begins beside the change that is looked at, and goes on from the other end', () => {
    const model = new ConversionModel(cells, conversion);
    const { choices } = model;
    expect(model.choicesFrom(1)).toEqual(choices);
    expect(model.choicesFrom(-1)).toEqual([...choices].reverse());
    model.visit(choices[0]);
    expect(model.choicesFrom(1)).toEqual([...choices.slice(1), choices[0]]);
    expect(model.choicesFrom(-1)[0]).toBe(choices.at(-1));
  });
});

describe('freeName', () => {
  it('takes a number where the name is taken', () => {
    const taken = new Set(['a_hvd.py', 'a_hvd-1.py']);
    expect(freeName('a_hvd', '.py', taken)).toBe('a_hvd-2.py');
    expect(freeName('b_hvd', '.py', taken)).toBe('b_hvd.py');
  });
});
