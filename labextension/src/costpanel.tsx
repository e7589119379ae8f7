import { HTMLSelect } from '@jupyterlab/ui-components';
import React, { useState } from 'react';

import { Assumptions } from './assumptions';
import { useSignal, useView } from './context';
import { ICostInput, INetwork, limitOf, MAX_WORKERS, NETWORKS } from './cost';
import { Field, NumberInput } from './fields';
import { keyOf, largest, offersOf } from './offers';
import { IKnown } from './scaling';
import { ScalingTable } from './scalingtable';
import { ITraining, mostWorkers, trainingOf } from './training';
import { Worth } from './worth';

const FLOAT_BYTES = 4;
/** Stands for a network of the user's own among those with a name. */
const CUSTOM = -1;

/** How long a training takes on some workers, estimated from a step of one. */
export function CostPanel(): JSX.Element {
  const { session, trans } = useView();
  useSignal(session.changed);
  const [parameters, setParameters] = useState<number | null>(null);
  const [chosen, setChosen] = useState('');
  const [seconds, setSeconds] = useState<number | null>(null);
  const [entered, setEntered] = useState<Partial<ITraining>>({});
  const [network, setNetwork] = useState<INetwork>(NETWORKS[0]);
  const { mode, workers } = session;

  const offers = offersOf(session.facts.models, session.model?.models ?? []);
  const offer = offers.find(each => keyOf(each) === chosen) ?? largest(offers);
  const bytes = parameters !== null ? parameters * FLOAT_BYTES : (offer?.bytes ?? null);
  const steps = session.facts.printedSteps;
  const printed = steps.filter(each => each.workers === 1).at(-1);
  const known: IKnown = {
    training: trainingOf(session.model?.conversion.training, session.facts.rows, entered),
    step: seconds ?? printed?.seconds ?? null,
    isStepMeasured: seconds === null,
    printed: steps.filter(each => each.workers > 1),
    bytes,
    network
  };
  const enter = (numbers: Partial<ITraining>): void =>
    setEntered({ ...entered, ...numbers });
  return (
    <div className="jp-hvd-cost">
      <Worth known={known} mode={mode} workers={workers} />
      <ScalingTable known={known} workers={workers} />
      <LimitHint known={known} />
      <Field label={trans.__('Workers')} output={String(workers)}>
        <input
          type="range"
          min={1}
          max={MAX_WORKERS}
          value={workers}
          onChange={event => session.setWorkers(event.target.valueAsNumber)}
        />
      </Field>
      <Field label={trans.__('Where')}>
        <HTMLSelect
          value={NETWORKS.findIndex(preset => preset === network)}
          onChange={event => setNetwork(NETWORKS[Number(event.target.value)])}
        >
          <optgroup label={trans.__('A GPU for each worker, connected by')}>
            {NETWORKS.map((preset, i) => (
              <option key={preset.name} value={i}>
                {preset.name}
              </option>
            ))}
            <option value={CUSTOM} hidden>
              {trans.__('Custom')}
            </option>
          </optgroup>
        </HTMLSelect>
      </Field>
      <Field
        label={trans.__('Step time, ms')}
        help={
          known.step === null
            ? trans.__('On one worker. Keras prints it when a cell trains.')
            : seconds !== null
              ? trans.__('as you entered')
              : trans.__('printed by Keras in cell %1', printed!.cell + 1)
        }
      >
        <NumberInput
          value={known.step === null ? null : Number((known.step * 1000).toPrecision(4))}
          onChange={value => setSeconds(value === null ? null : value / 1000)}
        />
      </Field>
      <Field label={trans.__('Examples')}>
        <NumberInput
          value={known.training.examples}
          step={1}
          onChange={examples => enter({ examples: examples ?? undefined })}
        />
      </Field>
      <Field label={trans.__('Batch size')}>
        <NumberInput
          value={known.training.batch}
          step={1}
          onChange={batch => enter({ batch: batch ?? undefined })}
        />
      </Field>
      <Field label={trans.__('Epochs')}>
        <NumberInput
          value={known.training.epochs}
          step={1}
          onChange={epochs => enter({ epochs: epochs ?? undefined })}
        />
      </Field>
      <Assumptions
        known={known}
        mode={mode}
        workers={workers}
        offers={offers}
        offer={offer}
        parameters={parameters ?? offer?.parameters ?? null}
        origin={
          parameters !== null
            ? trans.__('as you entered')
            : offer === undefined
              ? trans.__(
                  'Parameter count not found. Enter it, or run the cell that builds the model.'
                )
              : offer.from === 'kernel'
                ? trans.__('read from %1 in the running kernel', offer.name)
                : trans.__('counted from the source of %1', offer.name)
        }
        network={network}
        onOffer={key => {
          setChosen(key);
          setParameters(null);
        }}
        onParameters={setParameters}
        onNetwork={setNetwork}
      />
    </div>
  );
}

/** Beyond how many workers more do not pay, and why. */
function LimitHint({ known }: { known: IKnown }): JSX.Element | null {
  const { session, trans } = useView();
  const { bytes, step, training, network } = known;
  const most = mostWorkers(training, session.mode);
  const input: ICostInput | null =
    bytes === null || step === null ? null : { bytes, step, network, mode: session.mode };
  const limit = input
    ? limitOf(input, most)
    : most < MAX_WORKERS
      ? { workers: most, by: 'examples' as const }
      : null;
  if (limit === null) {
    return input === null ? null : (
      <p className="jp-hvd-help" role="status">
        {trans.__(
          'Up to %1 workers, communication takes less than half of each step.',
          MAX_WORKERS
        )}
      </p>
    );
  }
  return (
    <p className="jp-hvd-help" role="status">
      {limit.by === 'messages'
        ? trans.__(
            'Beyond %1 workers, communication takes over half of each step.',
            limit.workers
          )
        : session.mode === 'global'
          ? trans.__(
              'A batch of %1 examples is enough for %2 workers.',
              training.batch,
              limit.workers
            )
          : trans.__(
              '%1 examples at batch %2 are enough for %3 workers.',
              training.examples,
              training.batch,
              limit.workers
            )}
    </p>
  );
}
