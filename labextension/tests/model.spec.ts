import { Conversion } from '../src/conversion';
import { withBound } from '../src/decisions';
import { applyEdits, splices } from '../src/edits';
import { ConversionModel, ICell, sameProgram } from '../src/model';
import fixture from './conversion.json';

const conversion = fixture.conversion as Conversion;
const cells: ICell[] = fixture.notebook.cells.map(cell => ({
  id: cell.id,
  type: cell.cell_type,
  source: cell.source
}));
const converted = fixture.conversion.notebook.cells.map(cell => cell.source);

function changed(sources: Record<number, string>): ICell[] {
  return cells.map((cell, i) => ({ ...cell, source: sources[i] ?? cell.source }));
}

describe('applyEdits', () => {
  const insert = (at: number, text: string, priority = 0) => ({
    start: at,
    end: at,
    priority,
    text
  });

  it('counts code points, as Python does', () => {
    expect(applyEdits('🍎🍐x', [{ start: 1, end: 2, priority: 0, text: '🍌' }])).toBe(
      '🍎🍌x'
    );
  });

  it('orders insertions at one place by priority, then as they come', () => {
    const edits = [insert(1, 'c', 1), insert(1, 'a', -1), insert(1, 'b'), insert(1, 'B')];
    expect(applyEdits('<>', edits)).toBe('<abBc>');
  });

  it('makes an edit once that two changes share', () => {
    expect(applyEdits('', [insert(0, 'a'), insert(0, 'a')])).toBe('a');
  });

  it('tells the parts of a text as JavaScript counts', () => {
    const edits = [{ start: 1, end: 2, priority: 0, text: '🍌' }, insert(2, 'y')];
    expect(splices('🍎🍐x', edits)).toEqual([
      { start: 2, end: 4, text: '🍌' },
      { start: 4, end: 4, text: 'y' }
    ]);
  });

  it('refuses edits that overlap', () => {
    const edit = { start: 0, end: 2, priority: 0, text: '' };
    expect(() => applyEdits('abc', [edit, { ...edit, start: 1, end: 3 }])).toThrow(
      'overlapping'
    );
  });
});

describe('ConversionModel', () => {
  it('makes of all changes what Python made', () => {
    const model = new ConversionModel(cells, conversion);
    expect(cells.map((_, i) => model.resultOf(i))).toEqual(converted);
  });

  it('says where a change begins as JavaScript counts, below a line that it adds to', () => {
    const [first] = conversion.changes;
    const edit = { start: 2, end: 2, priority: 0, text: ' # x', unless: null };
    const change = { ...first, cell: 0, edits: [edit] };
    const below = { ...change, edits: [{ ...edit, text: '\nx' }] };
    const texts: ICell[] = [{ id: 'a', type: 'code', source: '🍎x\ny' }];
    const model = new ConversionModel(texts, { ...conversion, changes: [change, below] });
    expect(model.startOf(change)).toBe(3);
    expect(model.startOf(below)).toBe(4);
  });

  it('makes every decision without losing a change that is accepted', () => {
    for (const change of conversion.changes) {
      const model = new ConversionModel(cells, conversion);
      const bound = withBound([change], model.choices, false);
      model.accept([change], false);
      expect(model.accepted).toHaveLength(conversion.changes.length - bound.length);
      model.accept(model.changes, false);
      model.accept([change], true);
      const result = model.resultOf(change.cell!);
      if (change.provides !== null) {
        expect(result).toBe(cells[change.cell!].source);
      } else if (bound.length === 1) {
        expect(result).toContain(change.after);
      } else {
        expect(result).not.toContain(change.before);
      }
    }
  });

  it('leaves all', () => {
    const model = new ConversionModel(cells, conversion);
    model.accept(model.changes, false);
    expect(model.results().size).toBe(0);
    expect(model.resultOf(5)).toBe(cells[5].source);
  });

  it('tells that something was taken or left', () => {
    const model = new ConversionModel(cells, conversion);
    const listener = jest.fn();
    model.changed.connect(listener);
    model.accept(model.changesOf(5), false);
    expect(listener).toHaveBeenCalledTimes(1);
  });

  it('names only the cells that change', () => {
    const model = new ConversionModel(cells, conversion);
    const different = cells.flatMap((cell, i) =>
      cell.source !== converted[i] ? [i] : []
    );
    expect([...model.results().keys()].sort()).toEqual(different);
  });

  it('starts Horovod where a change is made that needs it, and only there', () => {
    const model = new ConversionModel(cells, conversion);
    const [shared, asked] = ['runtime', 'horovod'].map(start =>
      model.changes.find(change => change.provides === start)!
    );
    const [tape, print] = ['averaging', 'output'].map(decision =>
      model.changes.find(change => change.decision === decision)!
    );
    model.accept([shared], false);
    expect(model.isAccepted(shared)).toBe(true);
    model.accept(model.changes, false);
    expect(model.isAccepted(shared)).toBe(false);
    model.accept([tape], true);
    expect(model.accepted).toEqual([shared, tape]);
    model.accept([print], true);
    expect(model.accepted).toEqual([shared, asked, tape, print]);
    model.accept([tape, print], false);
    expect(model.accepted).toEqual([]);
  });

  it('keeps the header that neighbouring lines share above the first that is made', () => {
    const model = new ConversionModel(cells, conversion);
    const second = model.changes.find(change =>
      change.edits.some(edit => edit.unless !== null)
    )!;
    const first = model.changes[second.edits.find(edit => edit.unless !== null)!.unless!];
    const end = (): string => model.resultOf(5).split("print('🍐')\n").at(-1)!;
    const header = 'if hvd.rank() == 0:\n';
    expect(end()).toBe(`${header}    print('first')\n    print('second')`);
    model.accept([first], false);
    expect(end()).toBe(`print('first')\n${header}    print('second')`);
    model.accept([second], false);
    expect(end()).toBe(`print('first')\nprint('second')`);
  });

  it('folds neighbours without changes', () => {
    const quiet = {
      ...conversion,
      changes: conversion.changes.filter(change => change.cell === 2)
    };
    expect(new ConversionModel(cells, quiet).sections()).toEqual([
      { kind: 'fold', from: 0, to: 1 },
      { kind: 'cell', index: 2 },
      { kind: 'fold', from: 3, to: 5 }
    ]);
  });

  it('shows cells in which something was found', () => {
    const found = {
      ...conversion,
      changes: [],
      diagnostics: [
        {
          code: 'HVD902',
          severity: 'error' as const,
          cell: 1,
          line: 1,
          column: 1,
          message: '',
          help: ''
        }
      ]
    };
    const sections = new ConversionModel(cells, found).sections();
    expect(sections).toContainEqual({ kind: 'cell', index: 1 });
  });

  it('keeps what is left out when the notebook is converted again', () => {
    const model = new ConversionModel(cells, conversion);
    const prints = model.changes.filter(change => change.rule === 'HVD601');
    model.accept([prints[1]], false);
    const again = new ConversionModel(
      changed({ 0: '# Other' }),
      structuredClone(conversion),
      model.left
    );
    const left = again.changes.filter(change => !again.isAccepted(change));
    expect(left.map(change => [change.rule, change.line])).toEqual([
      ['HVD601', prints[1].line]
    ]);
  });

  it('forgets what was left out of a change that is gone', () => {
    const model = new ConversionModel(cells, { ...conversion, changes: [] }, ['gone']);
    expect(model.left.size).toBe(0);
  });
});

describe('sameProgram', () => {
  it('sees every change of a text, and no other', () => {
    expect(sameProgram(cells, changed({}))).toBe(true);
    expect(sameProgram(cells, changed({ 2: '' }))).toBe(false);
    expect(sameProgram(cells, cells.slice(1))).toBe(false);
  });
});
