import React from 'react';

import { useView } from './context';
import { quantity } from './cost';
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
    if (times === null && row.speedup! < 1) {
      const slower = (1 / row.speedup!).toFixed(2);
      return trans.__(
        '%1 workers train %2 × slower than one (estimated).',
        workers,
        slower
      );
    }
    if (times === null) {
      return trans.__(
        '%1 workers train %2 × as fast as one (estimated).',
        workers,
        row.speedup!.toFixed(2)
      );
    }
    if (epochs === null) {
      return trans.__(
        'On %1 workers an epoch takes %2 instead of %3 (estimated).',
        workers,
        ...times
      );
    }
    return trans.__(
      'On %1 workers your %2 epochs take %3 instead of %4 (estimated).',
      workers,
      epochs,
      ...times
    );
  }
}
