import { HTMLSelect } from '@jupyterlab/ui-components';
import React, { useState } from 'react';

import { Point } from './axes';
import { useSignal, useView } from './context';
import { ModelSize, Step } from './conversion';
import {
  allreduceTime,
  Batch,
  curve,
  efficiency,
  epochTime,
  ICostInput,
  INetwork,
  IPoint,
  MAX_WORKERS,
  measuredSpeedup,
  mostOnOneMachine,
  NETWORKS,
  predictedStep,
  quantity,
  speedup,
  stopsPaying
} from './cost';
import { Plot } from './plot';

/** Where the number of parameters comes from, the best first. */
type Source = 'asked' | 'kernel' | 'source';

interface IOffer extends ModelSize {
  from: Source;
}

/** What averaging costs at each step, against the time of a step. */
export function CostPanel(props: { ranks: number }): JSX.Element {
  const { session, trans } = useView();
  useSignal(session.changed);
  useSignal(session.verification.changed);
  const [entered, setEntered] = useState<number | null>(null);
  const [chosen, setChosen] = useState('');
  const [enteredStep, setEnteredStep] = useState<number | null>(null);
  const [workers, setWorkers] = useState(props.ranks);
  const [network, setNetwork] = useState<INetwork>(NETWORKS[0]);
  const [steps, setSteps] = useState<number | null>(null);
  const batch = session.chosenOptions.batch ?? 'per-rank';

  const offers: IOffer[] = [
    ...session.kernelModels.map(model => ({ ...model, from: 'kernel' as const })),
    ...(session.model?.models ?? []).map(model => ({ ...model, from: 'source' as const }))
  ];
  const offer = offers.find(o => keyOf(o) === chosen) ?? largest(offers);
  const parameters = entered ?? offer?.parameters ?? null;
  const bytes = entered !== null ? entered * FLOAT_BYTES : (offer?.bytes ?? null);
  const step = enteredStep ?? session.verification.step?.seconds ?? null;
  const origin: Record<Source, string> = {
    kernel: trans.__('read from %1 in the running kernel', offer?.name),
    source: trans.__('counted from the source of %1', offer?.name),
    asked: trans.__('as you entered')
  };
  return (
    <div className="jp-hvd-cost">
      {session.verification.step && <Measured step={session.verification.step} />}
      {offers.length > 1 && (
        <Field label={trans.__('Model')}>
          <HTMLSelect
            value={offer && keyOf(offer)}
            onChange={event => {
              setChosen(event.target.value);
              setEntered(null);
            }}
          >
            {offers.map(o => (
              <option key={keyOf(o)} value={keyOf(o)}>
                {o.from === 'kernel'
                  ? trans.__('%1 (kernel)', o.name)
                  : trans.__('%1 (source)', o.name)}
              </option>
            ))}
          </HTMLSelect>
        </Field>
      )}
      <Field
        label={trans.__('Parameters')}
        help={
          parameters === null
            ? trans.__(
                'Neither the kernel nor the source tells how many there are: please enter them.'
              )
            : origin[entered !== null ? 'asked' : offer!.from]
        }
      >
        <NumberInput value={parameters} step={1} onChange={setEntered} />
      </Field>
      <Field
        label={trans.__('Step time, ms')}
        help={
          step === null
            ? session.model?.changes.length
              ? trans.__('Of one worker: enter it, or verify, which measures it.')
              : trans.__('Of one worker: enter it.')
            : enteredStep !== null
              ? trans.__('as you entered')
              : trans.__('measured on one rank by the verification')
        }
      >
        <NumberInput
          value={step === null ? null : Number((step * 1000).toPrecision(4))}
          onChange={value => setEnteredStep(value === null ? null : value / 1000)}
        />
      </Field>
      <Field
        label={trans.__('Steps of an epoch')}
        help={trans.__('Of one worker: enter them for the time of an epoch.')}
      >
        <NumberInput value={steps} step={1} onChange={setSteps} />
      </Field>
      <Field label={trans.__('Workers')} output={String(workers)}>
        <input
          type="range"
          min={1}
          max={MAX_WORKERS}
          value={workers}
          onChange={event => setWorkers(event.target.valueAsNumber)}
        />
      </Field>
      <Field label={trans.__('Network')}>
        <HTMLSelect
          value={NETWORKS.findIndex(preset => preset === network)}
          onChange={event => setNetwork(NETWORKS[Number(event.target.value)])}
        >
          {NETWORKS.map((preset, i) => (
            <option key={preset.name} value={i}>
              {preset.name}
            </option>
          ))}
          <option value={-1} hidden>
            {trans.__('Custom')}
          </option>
        </HTMLSelect>
      </Field>
      <Field
        label={trans.__('Bandwidth')}
        output={`${quantity(network.bandwidth, 'B/s')}`}
      >
        <LogRange
          from={1e8}
          to={1e12}
          value={network.bandwidth}
          text={quantity(network.bandwidth, 'B/s')}
          onChange={bandwidth => setNetwork({ ...network, bandwidth })}
        />
      </Field>
      <Field label={trans.__('Latency')} output={quantity(network.latency, 's')}>
        <LogRange
          from={1e-6}
          to={1e-3}
          value={network.latency}
          text={quantity(network.latency, 's')}
          onChange={latency => setNetwork({ ...network, latency })}
        />
      </Field>
      <Measure onMeasured={setNetwork} />
      {bytes !== null && (
        <Estimate
          input={{ bytes, step: step ?? 0, network, batch }}
          workers={workers}
          steps={steps}
          measured={session.verification.step}
        />
      )}
      {bytes !== null && session.verification.step && (
        <Checked
          step={session.verification.step}
          bytes={bytes}
          network={network}
          batch={batch}
        />
      )}
    </div>
  );
}

/** What the verification measured, in one sentence: it goes before any estimate. */
function Measured({ step }: { step: Step }): JSX.Element {
  const { session, trans } = useView();
  const batch = session.chosenOptions.batch ?? 'per-rank';
  const gain = measuredSpeedup(step, batch);
  const times = [quantity(step.seconds, 's'), quantity(step.ranks_seconds, 's')];
  return (
    <p className="jp-hvd-hint">
      {gain < 1
        ? trans.__(
            'Measured on this machine: a step takes %1 on one rank and %2 on %3, which together train %4 × slower.',
            ...times,
            step.ranks,
            (1 / gain).toFixed(1)
          )
        : trans.__(
            'Measured on this machine: a step takes %1 on one rank and %2 on %3, which together train %4 × faster.',
            ...times,
            step.ranks,
            gain.toFixed(1)
          )}
    </p>
  );
}

/** Measure the network between the notebook's own ranks. */
function Measure(props: { onMeasured: (network: INetwork) => void }): JSX.Element {
  const { session, trans } = useView();
  const [isMeasuring, setMeasuring] = useState(false);
  const [said, setSaid] = useState('');
  const measure = async (): Promise<void> => {
    setMeasuring(true);
    const found = await session.measureNetwork().catch(() => null);
    setMeasuring(false);
    if (found === null) {
      setSaid(trans.__('The kernel does not answer: it is busy, or there is none.'));
    } else if ('message' in found) {
      setSaid(found.message);
    } else {
      const { ranks, bandwidth, latency, error } = found;
      setSaid(
        trans.__('Measured between %1 ranks, to within %2.', ranks, percent(error))
      );
      props.onMeasured({ bandwidth, latency });
    }
  };
  return (
    <div className="jp-hvd-field">
      <button
        type="button"
        className="jp-mod-styled"
        disabled={isMeasuring}
        onClick={() => void measure()}
      >
        {isMeasuring ? trans.__('Measuring…') : trans.__('Measure')}
      </button>
      <p className="jp-hvd-help" role="status">
        {said || trans.__('Bandwidth and latency between the ranks of this notebook.')}
      </p>
    </div>
  );
}

/** The estimate for the ranks of the verification, beside what it measured there. */
function Checked(props: {
  step: Step;
  bytes: number;
  network: INetwork;
  batch: Batch;
}): JSX.Element {
  const { trans } = useView();
  const { step, bytes, network, batch } = props;
  const predicted = predictedStep(step, bytes, network, batch);
  const difference = Math.round(100 * (predicted / step.ranks_seconds - 1));
  // A network by name lies between machines.
  const isKnown = !NETWORKS.some(preset => preset === network);
  return (
    <div className="jp-hvd-checked">
      <dl>
        <dt>{trans.__('Step on %1 ranks, measured', step.ranks)}</dt>
        <dd>{quantity(step.ranks_seconds, 's')}</dd>
        {isKnown && (
          <>
            <dt>{trans.__('predicted')}</dt>
            <dd>
              {trans.__(
                '%1 (%2 %)',
                quantity(predicted, 's'),
                difference > 0 ? `+${difference}` : String(difference).replace('-', '−')
              )}
            </dd>
          </>
        )}
      </dl>
      <p className="jp-hvd-help">
        {isKnown
          ? trans.__(
              'By this bandwidth and latency, for ranks that share the cores of one machine.'
            )
          : trans.__(
              'On ranks that shared one machine. “Measure” finds what lies between such, and then this is predicted, too.'
            )}
      </p>
    </div>
  );
}

/** Numbers, the curves and the hint; without a step time only the numbers that need none. */
function Estimate(props: {
  input: ICostInput;
  workers: number;
  steps: number | null;
  measured?: Step | null;
}): JSX.Element {
  const { trans } = useView();
  const { input, workers, steps, measured } = props;
  const time = allreduceTime(workers, input.bytes, input.network);
  const preset = NETWORKS.find(one => one === input.network);
  const limit = input.step ? stopsPaying(input) : null;
  return (
    <div className="jp-hvd-estimate">
      <dl>
        <dt>{trans.__('Averaged at each step')}</dt>
        <dd>{quantity(input.bytes, 'B')}</dd>
        <dt>{trans.__('Ring allreduce')}</dt>
        <dd>{quantity(time, 's')}</dd>
        {input.step > 0 && (
          <>
            <dt>{trans.__('Speed-up on %1, estimated', workers)}</dt>
            <dd>
              {trans.__(
                '%1 × (%2)',
                speedup(workers, input).toFixed(2),
                percent(efficiency(workers, input))
              )}
            </dd>
          </>
        )}
        {input.step > 0 && steps !== null && (
          <>
            <dt>{trans.__('An epoch on %1, estimated', workers)}</dt>
            <dd>
              {trans.__(
                '%1 (%2 on one)',
                quantity(epochTime(workers, steps, input), 's'),
                quantity(steps * input.step, 's')
              )}
            </dd>
          </>
        )}
      </dl>
      {input.step > 0 && (
        <>
          <p className="jp-hvd-hint" role="status">
            {limit === null
              ? trans.__(
                  'Up to %1 workers, less than half of each step is averaging.',
                  MAX_WORKERS
                )
              : trans.__(
                  'Scaling stops paying beyond %1: averaging would take more than half of each step.',
                  limit
                )}
          </p>
          <Charts input={input} workers={workers} limit={limit} />
        </>
      )}
      <p className="jp-hvd-help">
        {preset &&
          trans.__(
            'For %1 between the workers, each with cores or a GPU of its own.',
            preset.name
          )}{' '}
        {!preset &&
          measured &&
          trans.__(
            'Ranks on this machine share its %1 cores: together they train at most %2 × as fast as one.',
            measured.cores,
            mostOnOneMachine(measured).toFixed(1)
          )}{' '}
        {input.batch === 'global'
          ? trans.__(
              '2(N−1)/N · bytes / bandwidth + 3(N−1) · latency a step, whose batch the workers share: outputs are gathered, then all gradients averaged. Losses, the optimizer and batch normalisation are not counted.'
            )
          : trans.__(
              '2(N−1)/N · bytes / bandwidth + 2(N−1) · latency a step, each worker with a batch as now. All gradients are sent together, after the backward pass.'
            )}
      </p>
    </div>
  );
}

/** Speed-up and efficiency over the number of workers, beside what would be ideal. */
function Charts(props: {
  input: ICostInput;
  workers: number;
  limit: number | null;
}): JSX.Element {
  const { trans } = useView();
  const { input, workers, limit } = props;
  const points = curve(input);
  const x = {
    label: trans.__('workers'),
    domain: [1, MAX_WORKERS] as Point,
    ticks: [1, 16, 32, 48, MAX_WORKERS],
    text: String
  };
  const plot = (
    value: (point: IPoint) => number,
    ideal: Point,
    ticks: number[],
    text: (value: number) => string,
    label: string
  ): JSX.Element => (
    <figure>
      <figcaption>{label}</figcaption>
      <Plot
        x={x}
        y={{ label, domain: [0, ideal[1]], ticks, text }}
        series={[
          {
            className: 'jp-hvd-ideal',
            points: [
              [1, ideal[0]],
              [MAX_WORKERS, ideal[1]]
            ]
          },
          {
            className: 'jp-hvd-estimated',
            points: points.map(point => [point.workers, value(point)]),
            marks: points.map(point => ({
              at: [point.workers, value(point)],
              radius: 4,
              title: trans.__(
                '%1 workers: speed-up %2, efficiency %3',
                point.workers,
                point.speedup.toFixed(2),
                percent(point.efficiency)
              ),
              className: point.workers === workers ? 'jp-hvd-mod-here' : ''
            }))
          }
        ]}
        rule={limit}
        height={140}
        label={trans.__(
          '%1 over 1 to %2 workers; %3 on %4',
          label,
          MAX_WORKERS,
          text(value(points[workers - 1])),
          workers
        )}
      />
    </figure>
  );
  return (
    <div className="jp-hvd-charts">
      {plot(
        point => point.speedup,
        [1, MAX_WORKERS],
        [0, 16, 32, 48, MAX_WORKERS],
        value => String(Number(value.toFixed(1))),
        trans.__('Speed-up')
      )}
      {plot(
        point => point.efficiency,
        [1, 1],
        [0, 0.25, 0.5, 0.75, 1],
        percent,
        trans.__('Efficiency')
      )}
    </div>
  );
}

function percent(share: number): string {
  return `${Math.round(100 * share)} %`;
}

function Field(props: {
  label: string;
  help?: string;
  output?: string;
  children: React.ReactNode;
}): JSX.Element {
  return (
    <div className="jp-hvd-field">
      <label>
        <span>{props.label}</span>
        {props.children}
        {props.output && <output>{props.output}</output>}
      </label>
      {props.help && <p className="jp-hvd-help">{props.help}</p>}
    </div>
  );
}

/** A positive number, null where there is none. */
function NumberInput(props: {
  value: number | null;
  step?: number;
  onChange: (value: number | null) => void;
}): JSX.Element {
  // A field that is cleared stays so while it is written in.
  const [typed, setTyped] = useState<string | null>(null);
  return (
    <input
      className="jp-mod-styled"
      type="number"
      min={0}
      step={props.step ?? 'any'}
      value={typed ?? props.value ?? ''}
      onChange={event => {
        const value = event.target.valueAsNumber;
        setTyped(event.target.value);
        props.onChange(value > 0 ? value : null);
      }}
      onBlur={() => setTyped(null)}
    />
  );
}

/** A slider on which equal ways are equal ratios. */
function LogRange(props: {
  from: number;
  to: number;
  value: number;
  text: string;
  onChange: (value: number) => void;
}): JSX.Element {
  return (
    <input
      type="range"
      min={Math.log10(props.from)}
      max={Math.log10(props.to)}
      step="any"
      value={Math.log10(props.value)}
      aria-valuetext={props.text}
      onChange={event =>
        props.onChange(Number((10 ** event.target.valueAsNumber).toPrecision(2)))
      }
    />
  );
}

const FLOAT_BYTES = 4;

function keyOf(offer: IOffer): string {
  return `${offer.from} ${offer.name}`;
}

/** The largest model of the best source. */
function largest(offers: readonly IOffer[]): IOffer | undefined {
  const best = offers.filter(offer => offer.from === offers[0].from);
  return best.sort((a, b) => b.parameters - a.parameters)[0];
}
