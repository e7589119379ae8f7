import { Step } from './conversion';
import { gain, ICostInput, INetwork, stepHere, stepTime } from './cost';
import { IScaled, ITraining, Mode, mostWorkers, onWorkers } from './training';

/** Where workers train: all on this machine, or each with a GPU of its own and a network between them. */
export type Where = 'here' | INetwork;

/** What is known of a training's cost. Times in seconds, sizes in bytes. */
export interface IKnown {
  training: ITraining;
  /** A step of one process; null where nobody has said it. */
  step: number | null;
  /** Whether that was measured, not entered. */
  isStepMeasured: boolean;
  /** What is averaged at each step; null where nobody has said it. */
  bytes: number | null;
  /** A step on some workers of this machine, and the mode in which it was measured. */
  measured: { step: Step; mode: Mode } | null;
  where: Where;
}

/** A row of the scaling table: what a training is on some workers. */
export interface IScalingRow extends IScaled {
  workers: number;
  /** The time of a step. */
  seconds: number | null;
  /** The time of an epoch. */
  epoch: number | null;
  /** How many times as fast as one worker trains on as many examples. */
  speedup: number | null;
  isMeasured: boolean;
  /** Whether each worker has an example in every step. */
  isPossible: boolean;
}

/** A training on some workers, measured where it was, else estimated. */
export function scalingRow(known: IKnown, mode: Mode, workers: number): IScalingRow {
  const scaled = onWorkers(known.training, mode, workers);
  const [seconds, isMeasured] = secondsOf(known, mode, workers);
  const { step } = known;
  return {
    ...scaled,
    workers,
    seconds,
    epoch: seconds === null || scaled.steps === null ? null : seconds * scaled.steps,
    speedup:
      seconds === null || step === null ? null : gain(workers, step, seconds, mode),
    isMeasured,
    isPossible: workers <= mostWorkers(known.training, mode)
  };
}

/** The time of a step, and whether it was measured. */
function secondsOf(
  known: IKnown,
  mode: Mode,
  workers: number
): [seconds: number | null, isMeasured: boolean] {
  const { step, bytes, measured, where } = known;
  if (workers === 1) {
    return [step, known.isStepMeasured];
  }
  if (where === 'here') {
    if (measured === null || measured.mode !== mode) {
      return [null, false];
    }
    return measured.step.ranks === workers
      ? [measured.step.ranks_seconds, true]
      : [stepHere(workers, measured.step, mode), false];
  }
  if (step === null || bytes === null) {
    return [null, false];
  }
  const input: ICostInput = { bytes, step, network: where, mode };
  return [stepTime(workers, input), false];
}
