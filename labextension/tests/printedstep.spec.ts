import { printedSteps } from '../src/printedstep';

const cell = (text: string | string[], source = 'model.fit(x)') => ({
  source,
  outputs: [{ output_type: 'stream', name: 'stdout', text }]
});

describe('printedSteps', () => {
  it('reads the last step time that Keras printed in each cell', () => {
    const text = ['1/16 ━━━━ 9s 640ms/step\r', '16/16 ━━━━ 1s 12ms/step - loss: 0.3\n'];
    const alone = { workers: 1, mode: 'global' };
    expect(printedSteps([cell(''), cell(text), cell('3/3 1s 250us/step')])).toEqual([
      { seconds: 0.012, cell: 1, ...alone },
      { seconds: expect.closeTo(250e-6), cell: 2, ...alone }
    ]);
  });

  it('knows on how many workers, and in which mode', () => {
    const [shared, own] = printedSteps([
      cell('3/3 1s 25ms/step', '%%distribute -n 2 --batch global\nmodel.fit(x)'),
      cell('3/3 1s 25ms/step', '%%distribute -n 4 --batch per-rank\nmodel.fit(x)')
    ]);
    expect(shared).toMatchObject({ workers: 2, mode: 'global' });
    expect(own).toMatchObject({ workers: 4, mode: 'per-rank' });
    expect(printedSteps([cell('1s 25ms/step', '%%distribute\nmodel.fit(x)')])).toEqual(
      []
    );
  });

  it('reads nothing else', () => {
    expect(printedSteps([cell('12ms per step'), cell('0s 0ms/step')])).toEqual([]);
    expect(printedSteps([])).toEqual([]);
  });
});
