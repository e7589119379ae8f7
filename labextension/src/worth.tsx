import React from 'react';

import { useView } from './context';
import { NETWORKS, quantity } from './cost';
import { IKnown, scalingRow } from './scaling';
import { Mode } from './training';

/** Within so much of 1, a speed-up is none. */
const NO_GAIN = 0.1;

/** One sentence above the table: is it worth it, and how long does this training take. */
export function Worth(props: {
  known: IKnown;
  mode: Mode;
  workers: number;
}): JSX.Element {
  const { trans } = useView();
  const { known, mode, workers } = props;
  const alone = scalingRow(known, mode, 1);
  const row = scalingRow(known, mode, workers);
  const { epochs } = known.training;
  if (!row.isPossible) {
    return (
      <p className="jp-hvd-hint" role="status">
        {trans._n(
          'On %1 worker, some would have no example in a step.',
          'On %1 workers, some would have no example in a step: use fewer.',
          workers
        )}
      </p>
    );
  }
  if (row.speedup === null || workers === 1) {
    return (
      <p className="jp-hvd-hint" role="status">
        {trans.__(
          'To see whether it is worth it, enter the time of a step, or run the cell that trains.'
        )}
      </p>
    );
  }
  const network = NETWORKS.find(preset => preset === known.network)?.name;
  const source = row.isMeasured
    ? trans.__('measured')
    : network
      ? trans.__('estimated, with a GPU for each worker and %1', network)
      : trans.__('estimated, with a GPU for each worker');
  const verdict =
    row.speedup > 1 + NO_GAIN
      ? trans.__('Worth it.')
      : row.speedup < 1 - NO_GAIN
        ? trans.__('Not worth it.')
        : trans.__('Hardly a difference.');
  return (
    <p className="jp-hvd-hint" role="status">
      <b>{verdict}</b> {sentence()}{' '}
      {mode === 'per-rank' &&
        trans.__('Batch and learning rate grow: check the accuracy.')}
    </p>
  );

  function sentence(): string {
    const times =
      row.epoch === null || alone.epoch === null
        ? null
        : [row.epoch, alone.epoch].map(time => quantity(time * (epochs ?? 1), 's'));
    if (times === null) {
      const slower = row.speedup! < 1;
      const factor = (slower ? 1 / row.speedup! : row.speedup!).toFixed(2);
      return slower
        ? trans.__('%1 workers train %2 × slower than one (%3).', workers, factor, source)
        : trans.__('%1 workers train %2 × as fast as one (%3).', workers, factor, source);
    }
    if (epochs === null) {
      return trans.__(
        'On %1 workers an epoch takes %2 instead of %3 (%4).',
        workers,
        ...times,
        source
      );
    }
    return trans.__(
      'On %1 workers your %2 epochs take %3 instead of %4 (%5).',
      workers,
      epochs,
      ...times,
      source
    );
  }
}
