import { gain, ICostInput, INetwork, stepTime } from './cost';
import { IPrintedStep } from './printedstep';
import { IScaled, ITraining, Mode, mostWorkers, onWorkers } from './training';

/** What is known of a training's cost. Times in seconds, sizes in bytes. */
export interface IKnown {
  training: ITraining;
  /** A step of one process; null where nobody has said it. */
  step: number | null;
  /** Whether Keras has printed that, and nobody entered it. */
  isStepMeasured: boolean;
  /** Steps of several workers that Keras has printed. */
  printed: readonly IPrintedStep[];
  /** What is averaged at each step; null where nobody has said it. */
  bytes: number | null;
  /** What connects the workers. */
  network: INetwork;
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
  const { step, bytes, network } = known;
  if (workers === 1) {
    return [step, known.isStepMeasured];
  }
  const printed = known.printed.filter(
    each => each.workers === workers && each.mode === mode
  );
  if (printed.length > 0) {
    return [printed.at(-1)!.seconds, true];
  }
  if (step === null || bytes === null) {
    return [null, false];
  }
  const input: ICostInput = { bytes, step, network, mode };
  return [stepTime(workers, input), false];
}
