import { printedStep } from '../src/printedstep';

const stream = (text: string | string[]) => [
  { output_type: 'stream', name: 'stdout', text }
];

describe('printedStep', () => {
  it('reads the last step time that Keras printed', () => {
    const text = ['1/16 ━━━━ 9s 640ms/step\r', '16/16 ━━━━ 1s 12ms/step - loss: 0.3\n'];
    expect(printedStep([[], stream(text), stream('done')])).toEqual({
      seconds: 0.012,
      cell: 1
    });
    expect(printedStep([stream('3/3 1s 250us/step')])?.seconds).toBeCloseTo(250e-6);
  });

  it('reads nothing else', () => {
    expect(printedStep([stream('12ms per step'), stream('0s 0ms/step')])).toBeNull();
    expect(printedStep([])).toBeNull();
  });
});
