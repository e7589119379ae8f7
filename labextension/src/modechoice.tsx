import React, { useId } from 'react';

import { useSignal, useView } from './context';
import { IScaled, ITraining, Mode, MODES, onWorkers, trainingOf } from './training';

/** In which of two ways the notebook is distributed, and what each means for its batch, rate and steps. */
export function ModeChoice(): JSX.Element {
  const { session, trans } = useView();
  useSignal(session.changed);
  const group = useId();
  const { mode, workers } = session;
  const training = trainingOf(session.model?.conversion.training, session.facts.rows, {});
  const titles: Record<Mode, string> = {
    global: trans.__('Same result (global)'),
    'per-rank': trans.__('Larger batch (per-rank)')
  };
  const sentences: Record<Mode, string> = {
    global: trans.__(
      'The workers share each batch, and the training gives the result of one process.'
    ),
    'per-rank': trans.__(
      'Each step trains on as many batches as there are workers: fewer steps, and another result.'
    )
  };
  return (
    <fieldset className="jp-hvd-modes">
      <legend>{trans.__('Mode')}</legend>
      {MODES.map(each => (
        <div key={each} className={each === mode ? 'jp-hvd-mod-chosen' : ''}>
          <label>
            <input
              type="radio"
              name={group}
              checked={each === mode}
              aria-describedby={`${group}-${each}`}
              onChange={() => session.setMode(each)}
            />
            {titles[each]}
          </label>
          <div id={`${group}-${each}`}>
            <p>{sentences[each]}</p>
            <Effect training={training} mode={each} workers={workers} />
          </div>
        </div>
      ))}
      <p className="jp-hvd-help">
        {trans.__(
          'Horovod’s guides train on the larger batch: the fewest steps, but check the accuracy. With the same result nothing has to be tuned again; workers wait for one another more often (see Scaling).'
        )}
      </p>
    </fieldset>
  );
}

/** Batch, rate and steps of one process, and what they become. */
function Effect(props: {
  training: ITraining;
  mode: Mode;
  workers: number;
}): JSX.Element {
  const { trans } = useView();
  const { training, mode, workers } = props;
  const before = onWorkers(training, mode, 1);
  const after = onWorkers(training, mode, workers);
  const grows = mode === 'per-rank' && workers > 1;
  const times = grows ? trans.__('× %1', workers) : trans.__('unchanged');
  const part = grows ? trans.__('÷ %1', workers) : trans.__('unchanged');
  const say = (name: keyof IScaled, otherwise: string): string => {
    const [old, fresh] = [before[name], after[name]];
    if (old === null || fresh === null) {
      return otherwise;
    }
    return old === fresh ? String(old) : `${old} → ${Number(fresh.toPrecision(6))}`;
  };
  return (
    <dl>
      <dt>{trans.__('Batch')}</dt>
      <dd>{say('batch', times)}</dd>
      <dt>{trans.__('Learning rate')}</dt>
      <dd>{say('rate', times)}</dd>
      <dt>{trans.__('Steps per epoch')}</dt>
      <dd>{say('steps', part)}</dd>
    </dl>
  );
}
