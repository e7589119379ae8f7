import { scalingRow } from '../src/scaling';
import { mostWorkers, onWorkers, trainingOf } from '../src/training';

const training = { batch: 32, rate: 0.001, epochs: 4, examples: 1200 };

describe('a training on several workers', () => {
  it('stays as it is in mode global', () => {
    expect(onWorkers(training, 'global', 4)).toEqual({
      batch: 32,
      rate: 0.001,
      steps: 38
    });
  });

  it('has a larger batch and rate, and fewer steps, in mode per-rank', () => {
    expect(onWorkers(training, 'per-rank', 4)).toEqual({
      batch: 128,
      rate: 0.004,
      steps: 10
    });
  });

  it('has no more workers than examples', () => {
    expect(mostWorkers(training, 'per-rank')).toBe(37);
    expect(mostWorkers(training, 'global')).toBe(32);
    expect(mostWorkers({ ...training, examples: null }, 'per-rank')).toBe(Infinity);
  });

  it('takes what is entered before what the kernel and the source say', () => {
    const source = { batch: 16, rate: null, epochs: 2, rows_of: 'x', cells: [] };
    expect(trainingOf(source, 100, { batch: 8 })).toEqual({
      batch: 8,
      rate: null,
      epochs: 2,
      examples: 100
    });
  });
});

describe('a row of the scaling table', () => {
  const network = { bandwidth: 1e9, latency: 1e-3 };
  const known = {
    training,
    step: 0.1,
    isStepMeasured: true,
    printed: [],
    bytes: 1e7,
    network
  };

  it('of one worker is what Keras printed', () => {
    const row = scalingRow(known, 'per-rank', 1);
    expect(row.isMeasured).toBe(true);
    expect(row.seconds).toBe(0.1);
    expect(row.epoch).toBeCloseTo(38 * 0.1);
  });

  it('of several is estimated from that, in either mode', () => {
    // Three messages, and the bytes once.
    const messages = 3e-3 + 0.01;
    const larger = scalingRow(known, 'per-rank', 2);
    expect(larger.isMeasured).toBe(false);
    expect(larger.seconds).toBeCloseTo(0.1 + messages);
    expect(larger.speedup).toBeCloseTo((2 * 0.1) / (0.1 + messages));
    expect(larger.epoch).toBeCloseTo(19 * (0.1 + messages));
    expect(scalingRow(known, 'global', 2).seconds).toBeCloseTo(0.05 + messages);
  });

  it('of several is what Keras printed there, which wins over the estimate', () => {
    const printed = [{ seconds: 0.4, cell: 3, workers: 2, mode: 'global' as const }];
    const row = scalingRow({ ...known, printed }, 'global', 2);
    expect(row).toMatchObject({ seconds: 0.4, isMeasured: true, speedup: 0.25 });
    expect(scalingRow({ ...known, printed }, 'per-rank', 2).isMeasured).toBe(false);
  });

  it('is not guessed without the size of the model', () => {
    expect(scalingRow({ ...known, bytes: null }, 'global', 2).seconds).toBeNull();
  });
});
