import { IRenderMime, MimeModel } from '@jupyterlab/rendermime';
import { HTMLSelect } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';
import React, { useEffect, useRef, useState } from 'react';

import { chart, CHART_MIME, IChartStyle } from './chart';
import { useSignal, useView } from './context';
import { ModelSize } from './conversion';
import {
  allreduceTime,
  efficiency,
  ICostInput,
  INetwork,
  MAX_WORKERS,
  NETWORKS,
  quantity,
  speedup,
  stopsPaying
} from './cost';

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

  const offers: IOffer[] = [
    ...session.kernelModels.map(model => ({ ...model, from: 'kernel' as const })),
    ...(session.model?.models ?? []).map(model => ({ ...model, from: 'source' as const }))
  ];
  const offer = offers.find(o => keyOf(o) === chosen) ?? largest(offers);
  const parameters = entered ?? offer?.parameters ?? null;
  const bytes = entered !== null ? entered * FLOAT_BYTES : (offer?.bytes ?? null);
  const step = enteredStep ?? session.verification.stepTime;
  const origin: Record<Source, string> = {
    kernel: trans.__('read from %1 in the running kernel', offer?.name),
    source: trans.__('counted from the source of %1', offer?.name),
    asked: trans.__('as you entered')
  };
  return (
    <div className="jp-hvd-cost">
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
            ? trans.__('Of one worker: enter it, or verify, which measures it.')
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
      {bytes !== null && (
        <Estimate input={{ bytes, step: step ?? 0, network }} workers={workers} />
      )}
    </div>
  );
}

/** Numbers, the curves and the hint; without a step time only the numbers that need none. */
function Estimate(props: { input: ICostInput; workers: number }): JSX.Element {
  const { trans } = useView();
  const { input, workers } = props;
  const time = allreduceTime(workers, input.bytes, input.network);
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
            <dt>{trans.__('Speed-up on %1', workers)}</dt>
            <dd>
              {speedup(workers, input).toFixed(2)} × (
              {Math.round(100 * efficiency(workers, input))} %)
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
          <Chart input={input} workers={workers} limit={limit} />
        </>
      )}
      <p className="jp-hvd-help">
        {trans.__(
          '2(N−1)/N · bytes / bandwidth + 2(N−1) · latency a step, each worker with a batch as now; averaging that overlaps the backward pass costs less.'
        )}
      </p>
    </div>
  );
}

function Chart(props: {
  input: ICostInput;
  workers: number;
  limit: number | null;
}): JSX.Element {
  const { rendermime, themes, trans } = useView();
  const { input, workers, limit } = props;
  const node = useRef<HTMLDivElement>(null);
  const chartRenderer = useRef<IRenderMime.IRenderer | null>(null);
  useSignal(themes?.themeChanged);
  const theme = themes?.theme;
  useEffect(() => {
    const renderer = rendermime.createRenderer(CHART_MIME);
    Widget.attach(renderer, node.current!);
    chartRenderer.current = renderer;
    return () => renderer.dispose();
  }, []);
  useEffect(() => {
    const labels = {
      workers: trans.__('workers'),
      speedup: trans.__('speed-up'),
      efficiency: trans.__('efficiency')
    };
    const spec = chart(input, workers, limit, 205, { ...themeStyle(), labels });
    const timer = setTimeout(() => {
      const model = new MimeModel({
        data: { [CHART_MIME]: spec },
        metadata: { [CHART_MIME]: { embed_options: { actions: false } } }
      });
      void chartRenderer.current?.renderModel(model);
    }, 60);
    return () => clearTimeout(timer);
  }, [JSON.stringify(input), workers, limit, theme]);
  return (
    <div
      ref={node}
      className="jp-hvd-chart"
      role="img"
      aria-label={trans.__(
        'Speed-up and efficiency over 1 to %1 workers; %2 × on %3',
        MAX_WORKERS,
        speedup(workers, input).toFixed(1),
        workers
      )}
    />
  );
}

/** The colours and the font of JupyterLab's theme. */
function themeStyle(): Omit<IChartStyle, 'labels'> {
  const style = getComputedStyle(document.body);
  const read = (name: string): string => style.getPropertyValue(name).trim();
  return {
    text: read('--jp-ui-font-color1'),
    grid: read('--jp-border-color1'),
    line: read('--jp-brand-color1'),
    accent: read('--jp-warn-color1'),
    font: read('--jp-ui-font-family')
  };
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
  return (
    <input
      className="jp-mod-styled"
      type="number"
      min={0}
      step={props.step ?? 'any'}
      value={props.value ?? ''}
      onChange={event => {
        const value = event.target.valueAsNumber;
        props.onChange(value > 0 ? value : null);
      }}
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
