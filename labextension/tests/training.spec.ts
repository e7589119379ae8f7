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
    const source = { batch: 16, rate: null, epochs: 2, rows_of: 'x' };
    expect(trainingOf(source, 100, { batch: 8 })).toEqual({
      batch: 8,
      rate: null,
      epochs: 2,
      examples: 100
    });
  });
});

describe('a row of the scaling table', () => {
  const step = {
    seconds: 0.1,
    cpu_seconds: 0.1,
    cores: 2,
    ranks: 2,
    ranks_seconds: 0.15
  };
  const known = {
    training,
    step: 0.1,
    isStepMeasured: true,
    bytes: null,
    measured: { step, mode: 'per-rank' as const },
    where: 'here' as const
  };

  it('is what was measured, where it was', () => {
    const row = scalingRow(known, 'per-rank', 2);
    expect(row.isMeasured).toBe(true);
    expect(row.seconds).toBe(0.15);
    expect(row.speedup).toBeCloseTo(4 / 3);
    expect(row.epoch).toBeCloseTo(19 * 0.15);
  });

  it('is estimated from that for other workers of this machine', () => {
    const row = scalingRow(known, 'per-rank', 4);
    // Four workers on two cores take twice as long, and messages three times those of two.
    expect(row.seconds).toBeCloseTo(0.2 + 3 * 0.05);
    expect(row.isMeasured).toBe(false);
  });

  it('is not guessed for the other mode', () => {
    expect(scalingRow(known, 'global', 2).seconds).toBeNull();
  });
});
