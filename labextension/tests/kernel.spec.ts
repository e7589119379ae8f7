import { readHeld, readText } from '../src/kernel';

describe('readHeld', () => {
  it('counts the weights that the kernel tells of', () => {
    const weights = [
      ['model', [[[3, 8], 'float32'] as const, [[8], 'float16'] as const]],
      ["it's", []]
    ];
    const text = JSON.stringify([weights, 1200])
      .replace(/\\/g, '\\\\')
      .replace(/'/g, "\\'");
    const told = readText({ status: 'ok', data: { 'text/plain': `'${text}'` } });
    expect(readHeld(told!)).toEqual({
      models: [
        { name: 'model', parameters: 32, bytes: 112 },
        { name: "it's", parameters: 0, bytes: 0 }
      ],
      rows: 1200
    });
  });

  it('knows nothing where there was an error', () => {
    expect(readText({ status: 'error', ename: 'NameError' })).toBeNull();
    expect(readText(undefined)).toBeNull();
  });
});
