import { Change } from '../src/conversion';
import { DecisionName, decisionsOf, matchesQuery, withBound } from '../src/decisions';

function change(decision: DecisionName, cell = 0): Change {
  return {
    rule: 'HVD601',
    decision,
    cell,
    line: 1,
    before: 'print(x)',
    after: 'if hvd.rank() == 0: print(x)',
    why: 'Print once.',
    needs: [],
    provides: null,
    edits: []
  };
}

const [start, rate, batch, output] = (['start', 'rate', 'batch', 'output'] as const).map(
  name => change(name)
);
const all = [start, rate, batch, output];

describe('decisions', () => {
  it('are grouped, those that are right together only in one list', () => {
    expect(decisionsOf(all).map(group => group.map(({ name }) => name))).toEqual([
      ['start'],
      ['batch', 'rate'],
      ['output']
    ]);
  });

  it('take and leave what belongs to them', () => {
    expect(withBound([rate], all, false)).toEqual([rate, batch]);
    expect(withBound([rate], all, true)).toEqual([start, rate, batch]);
    expect(withBound([output], all, false)).toEqual([output]);
    expect(withBound([start], all, false)).toEqual(all);
  });

  it('are found by text, cell and rule', () => {
    const found = change('output', 4);
    expect(matchesQuery(found, 'hvd6 cell 5')).toBe(true);
    expect(matchesQuery(found, 'PRINT once')).toBe(true);
    expect(matchesQuery(found, 'cell 50')).toBe(false);
    expect(matchesQuery(found, '')).toBe(true);
  });
});
