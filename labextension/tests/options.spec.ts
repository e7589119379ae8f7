import { choosing, optionsOf, withOptions } from '../src/options';

describe('the options that a notebook keeps', () => {
  it('are those in its metadata, none where there are none', () => {
    expect(optionsOf(undefined)).toEqual({});
    expect(optionsOf({ options: 3 })).toEqual({});
    expect(optionsOf({ options: { warmup_epochs: 3 } })).toEqual({
      warmup_epochs: 3
    });
  });

  it('are chosen one by one, and left to the settings again', () => {
    const chosen = choosing({ guard: false }, 'warmup_epochs', 3);
    expect(chosen).toEqual({ guard: false, warmup_epochs: 3 });
    expect(choosing(chosen, 'guard', undefined)).toEqual({ warmup_epochs: 3 });
  });

  it('leave what else the metadata hold, and nothing where nothing is left', () => {
    const metadata = { other: 1, options: { guard: true } };
    expect(withOptions(metadata, {})).toEqual({ other: 1 });
    expect(withOptions(metadata, { guard: false })).toEqual({
      other: 1,
      options: { guard: false }
    });
    expect(withOptions({ options: { guard: true } }, {})).toBeUndefined();
  });
});
