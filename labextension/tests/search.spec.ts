import { DiffSearch, findMatches } from '../src/search';

const places = (found: { cell: number; from: number }[]): [number, number][] =>
  found.map(({ cell, from }) => [cell, from]);

describe('findMatches', () => {
  it('finds all, cell by cell', () => {
    const found = findMatches(['x = 1', '', 'y = x + x'], /x/);
    expect(places(found)).toEqual([
      [0, 0],
      [2, 4],
      [2, 8]
    ]);
  });

  it('keeps the flags of a query, and leaves empty matches out', () => {
    expect(findMatches(['Model model'], /model/i)).toHaveLength(2);
    expect(findMatches(['abc'], /x*/)).toEqual([]);
    expect(places(findMatches(['a\nb'], /^b/))).toEqual([[0, 2]]);
  });
});

describe('DiffSearch', () => {
  let texts: string[];
  let search: DiffSearch;

  beforeEach(() => {
    texts = ['x', 'x = x'];
    search = new DiffSearch(() => texts);
    search.start(/x/g);
  });

  it('begins at the first match and goes round', () => {
    expect(search.index).toBe(0);
    search.move(-1);
    expect(search.current).toEqual({ cell: 1, from: 4, to: 5 });
    search.move(1);
    expect(search.index).toBe(0);
  });

  it('says what is in a cell', () => {
    search.move(1);
    expect(search.within(1).matches).toHaveLength(2);
    expect(search.within(1).current).toBe(0);
    expect(search.within(0).current).toBe(-1);
  });

  it('stays at its match when texts change', () => {
    search.move(1);
    texts = ['x = x', 'x = x'];
    search.refresh();
    expect(search.matches).toHaveLength(4);
    expect(search.current).toEqual({ cell: 1, from: 0, to: 1 });
    texts = ['y', 'y'];
    search.refresh();
    expect(search.index).toBeNull();
  });

  it('finds nothing once it has ended', () => {
    search.end();
    search.refresh();
    expect(search.matches).toEqual([]);
  });
});
