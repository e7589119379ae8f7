import { readModels } from '../src/kernel';

describe('readModels', () => {
  it('counts the weights that the kernel tells of', () => {
    const weights = [
      ['model', [[[3, 8], 'float32'] as const, [[8], 'float16'] as const]],
      ["it's", []]
    ];
    const text = JSON.stringify(weights).replace(/\\/g, '\\\\').replace(/'/g, "\\'");
    expect(readModels({ status: 'ok', data: { 'text/plain': `'${text}'` } })).toEqual([
      { name: 'model', parameters: 32, bytes: 112 },
      { name: "it's", parameters: 0, bytes: 0 }
    ]);
  });

  it('knows nothing where there was an error', () => {
    expect(readModels({ status: 'error', ename: 'NameError' })).toEqual([]);
    expect(readModels(undefined)).toEqual([]);
  });
});
