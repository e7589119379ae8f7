import { Options, TrainingNumbers } from './conversion';

/** Whether the workers share each batch, or a batch as many times as large. */
export type Mode = 'global' | 'per-rank';

export const MODES: readonly Mode[] = ['global', 'per-rank'];

/** The mode of a conversion with these options; the server's default where they name none. */
export function modeOf(batch: Options['batch']): Mode {
  return batch === 'global' ? 'global' : 'per-rank';
}

/** What one process trains with; null where nobody has said it. */
export interface ITraining {
  /** Examples a step. */
  batch: number | null;
  rate: number | null;
  epochs: number | null;
  examples: number | null;
}

/** What the source and the kernel say of a training, and what was entered in place of that. */
export function trainingOf(
  source: TrainingNumbers | undefined,
  kernelRows: number | null,
  entered: Partial<ITraining>
): ITraining {
  return {
    batch: entered.batch ?? source?.batch ?? null,
    rate: entered.rate ?? source?.rate ?? null,
    epochs: entered.epochs ?? source?.epochs ?? null,
    examples: entered.examples ?? kernelRows
  };
}

/** Batch, rate and steps per epoch on some workers. */
export interface IScaled {
  batch: number | null;
  rate: number | null;
  steps: number | null;
}

/** What a training becomes on some workers. */
export function onWorkers(training: ITraining, mode: Mode, workers: number): IScaled {
  const factor = mode === 'global' ? 1 : workers;
  const times = (value: number | null): number | null =>
    value === null ? null : value * factor;
  const batch = times(training.batch);
  const { examples } = training;
  const steps = examples === null || batch === null ? null : Math.ceil(examples / batch);
  return { batch, rate: times(training.rate), steps };
}

/** So many workers at most have an example each in every step; infinite where that is not known. */
export function mostWorkers(training: ITraining, mode: Mode): number {
  const { batch, examples } = training;
  if (batch === null) {
    return Infinity;
  }
  if (mode === 'global') {
    return Math.min(batch, examples ?? Infinity);
  }
  return examples === null ? Infinity : Math.max(1, Math.floor(examples / batch));
}
