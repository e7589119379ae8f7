import {
  allreduceTime,
  curve,
  efficiency,
  gain,
  limitOf,
  MAX_WORKERS,
  messageTime,
  NETWORKS,
  quantity,
  speedup,
  stepTime
} from '../src/cost';

const network = { bandwidth: 1e9, latency: 1e-3 };

describe('the cost of averaging', () => {
  it('is nothing on one worker', () => {
    expect(allreduceTime(1, 1e9, network)).toBe(0);
    expect(speedup(1, { bytes: 1e9, step: 0.1, network, mode: 'per-rank' })).toBe(1);
  });

  it('is that of a ring', () => {
    // 2·3/4 of a tenth of a second for the bytes, six messages.
    expect(allreduceTime(4, 1e8, network)).toBeCloseTo(0.15 + 6e-3);
  });

  it('has its latency for each buffer that the gradients fill', () => {
    expect(allreduceTime(2, 300e6, network)).toBeCloseTo(0.3 + 3 * 2e-3);
  });

  it('makes efficiency the share of a step that is not averaging', () => {
    const input = { bytes: 1e8, step: 0.159, network, mode: 'per-rank' as const };
    expect(efficiency(4, input)).toBeCloseTo(0.5);
    expect(speedup(4, input)).toBeCloseTo(2);
  });

  it('is of one batch that the workers share', () => {
    const input = { bytes: 1e8, step: 0.318, network, mode: 'global' as const };
    // Nine messages, and 2·3/4 of a tenth of a second for the bytes.
    expect(messageTime(4, input)).toBeCloseTo(0.15 + 9e-3);
    expect(stepTime(4, input)).toBeCloseTo(0.0795 + 0.159);
    expect(speedup(4, input)).toBeCloseTo(0.318 / 0.2385);
    expect(speedup(1, input)).toBe(1);
  });

  it('is drawn from 1 to 64', () => {
    const points = curve({ bytes: 1e6, step: 0.1, network, mode: 'per-rank' });
    expect(points[0]).toEqual({ workers: 1, speedup: 1, efficiency: 1 });
    expect(points.at(-1)?.workers).toBe(MAX_WORKERS);
  });

  it('falls with every faster network, for much data', () => {
    const times = NETWORKS.map(preset => allreduceTime(8, 1e9, preset));
    expect(times).toEqual([...times].sort((a, b) => b - a));
  });
});

describe('where scaling stops paying', () => {
  it('is at one worker where averaging takes longer than the step', () => {
    expect(
      limitOf({ bytes: 1e9, step: 0.01, network, mode: 'per-rank' }, Infinity)
    ).toEqual({ workers: 1, by: 'messages' });
  });

  it('is nowhere where averaging is free', () => {
    const free = { bandwidth: 1e15, latency: 0 };
    expect(
      limitOf({ bytes: 1, step: 1, network: free, mode: 'per-rank' }, Infinity)
    ).toBeNull();
  });

  it('is where averaging begins to take more than half of a step', () => {
    const input = { bytes: 1e6, step: 0.05, network, mode: 'per-rank' as const };
    const limit = limitOf(input, Infinity)!.workers;
    expect(efficiency(limit, input)).toBeGreaterThanOrEqual(0.5);
    expect(efficiency(limit + 1, input)).toBeLessThan(0.5);
  });

  it('is where some workers would have no examples', () => {
    const input = { bytes: 1, step: 1, network, mode: 'per-rank' as const };
    expect(limitOf(input, 37)).toEqual({ workers: 37, by: 'examples' });
  });
});

describe('quantity', () => {
  it.each([
    [1.25e9, 'B/s', '1.25 GB/s'],
    [50e-6, 's', '50 µs'],
    [2775848, 'B', '2.78 MB'],
    [450e9, 'B/s', '450 GB/s'],
    [12.34, 's', '12.3 s'],
    [0, 'B', '0 B']
  ])('writes %d %s as %s', (value, unit, text) => {
    expect(quantity(value, unit)).toBe(text);
  });
});

describe('gain', () => {
  it('says how much faster the ranks of a verification trained', () => {
    const step = {
      seconds: 0.0058,
      cpu_seconds: 0.006,
      cores: 2,
      ranks: 2,
      ranks_seconds: 0.0253
    };
    expect(gain(2, step.seconds, step.ranks_seconds, 'per-rank')).toBeCloseTo(0.458, 3);
    expect(gain(2, step.seconds, step.ranks_seconds, 'global')).toBeCloseTo(0.229, 3);
  });
});
