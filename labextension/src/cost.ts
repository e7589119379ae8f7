import { Mode } from './training';

/** What a step of data-parallel training costs on N workers. Times in seconds, sizes in bytes. */
export interface ICostInput {
  bytes: number;
  /** The time of a step on one worker. */
  step: number;
  network: INetwork;
  mode: Mode;
}

export interface INetwork {
  /** Bytes a second, in one direction, from a worker to the next. */
  bandwidth: number;
  /** Of one message. */
  latency: number;
}

export interface IPoint {
  workers: number;
  speedup: number;
  efficiency: number;
}

export const MAX_WORKERS = 64;

/** Networks by name; bandwidth as the hardware states it, latency as commonly measured. */
export const NETWORKS: readonly (INetwork & { name: string })[] = [
  { name: '10 GbE', bandwidth: 1.25e9, latency: 50e-6 },
  { name: '25 GbE', bandwidth: 3.125e9, latency: 30e-6 },
  { name: '100 GbE', bandwidth: 12.5e9, latency: 10e-6 },
  { name: 'InfiniBand HDR', bandwidth: 25e9, latency: 2e-6 },
  { name: 'PCIe 4 ×16', bandwidth: 32e9, latency: 5e-6 },
  { name: 'InfiniBand NDR', bandwidth: 50e9, latency: 2e-6 },
  { name: 'NVLink 3', bandwidth: 300e9, latency: 2e-6 },
  { name: 'NVLink 4', bandwidth: 450e9, latency: 2e-6 }
];

/** Horovod puts gradients together into buffers of so many bytes, see `notebook/network.py`. */
const FUSED = 128 * 2 ** 20;

/**
 * The time of a ring allreduce.
 *
 * Each worker sends 2(N−1) messages of bytes/N: 2(N−1)/N·bytes/bandwidth + 2(N−1)·latency, the latter for each buffer.
 */
export function allreduceTime(workers: number, bytes: number, network: INetwork): number {
  const messages = 2 * (workers - 1);
  const waits = messages * Math.ceil(bytes / FUSED);
  return ((messages / workers) * bytes) / network.bandwidth + waits * network.latency;
}

/**
 * The time that the messages of a step take, see `notebook/network.py`.
 *
 * The outputs of the model are gathered before the gradients are averaged, in N−1 messages. Their bytes are
 * left out: they are few beside the gradients unless a row is large, and then losses are shared, and they are not gathered.
 */
export function messageTime(workers: number, input: ICostInput): number {
  const gathering = (workers - 1) * input.network.latency;
  return gathering + allreduceTime(workers, input.bytes, input.network);
}

/** How many batches of one worker the workers compute on in a step. */
function batches(workers: number, mode: Mode): number {
  return mode === 'global' ? 1 : workers;
}

/** The time of a step on N workers, each with cores of its own; what is not shared of a batch is left out. */
export function stepTime(workers: number, input: ICostInput): number {
  const computing = (input.step * batches(workers, input.mode)) / workers;
  return computing + messageTime(workers, input);
}

/** How many times as many examples N workers train on in the same time as one, by the times of their steps. */
export function gain(workers: number, alone: number, step: number, mode: Mode): number {
  return (batches(workers, mode) * alone) / step;
}

/** The share of a step that is not spent on messages, which are taken not to overlap it. */
export function efficiency(workers: number, input: ICostInput): number {
  return 1 - messageTime(workers, input) / stepTime(workers, input);
}

/** How many times as many examples are trained on in the same time. */
export function speedup(workers: number, input: ICostInput): number {
  return workers * efficiency(workers, input);
}

export function curve(input: ICostInput): IPoint[] {
  return Array.from({ length: MAX_WORKERS }, (_, i) => ({
    workers: i + 1,
    speedup: speedup(i + 1, input),
    efficiency: efficiency(i + 1, input)
  }));
}

/** Beyond how many workers more do not pay, and why: they have no examples, or more than half of each step is messages. */
export interface ILimit {
  workers: number;
  by: 'examples' | 'messages';
}

/** Up to how many workers more may pay; null where that is beyond the curve. */
export function limitOf(input: ICostInput, most: number): ILimit | null {
  for (let workers = 1; workers <= MAX_WORKERS; workers++) {
    if (workers > most) {
      return { workers: workers - 1, by: 'examples' };
    }
    if (efficiency(workers, input) < 0.5) {
      return { workers: workers - 1, by: 'messages' };
    }
  }
  return null;
}

/** A number with a unit's prefix: 1.3 M, 25 G. */
export function quantity(value: number, unit: string): string {
  const power = value > 0 ? Math.floor(Math.log10(value) / 3) : 0;
  const clamped = Math.min(Math.max(power, -3), 4);
  const scaled = value / 1000 ** clamped;
  const prefix = ['n', 'µ', 'm', '', 'k', 'M', 'G', 'T'][clamped + 3];
  return `${Number(scaled.toPrecision(3))} ${prefix}${unit}`.trim();
}
