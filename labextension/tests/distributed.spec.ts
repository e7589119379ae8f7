import { distributed, isDistributed, undistributed } from '../src/distributed';

describe('%%distribute on a cell', () => {
  it('replaces such a line, and stands above other magics', () => {
    const once = distributed('%%time\nfit()', 2, 'global');
    expect(once).toBe('%%distribute -n 2 --batch global\n%%time\nfit()');
    expect(distributed(once, 4, 'per-rank')).toBe(
      '%%distribute -n 4 --batch per-rank\n%%time\nfit()'
    );
  });

  it('is taken off again', () => {
    const source = '%%distributed_by_hand\nfit()';
    expect([isDistributed(source), undistributed(source)]).toEqual([false, source]);
    expect(undistributed(distributed('fit()', 2, 'global'))).toBe('fit()');
  });
});
