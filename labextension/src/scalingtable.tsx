import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { useView } from './context';
import { quantity } from './cost';
import { IKnown, IScalingRow, scalingRow } from './scaling';
import { cellsOf, ITableRow, Table } from './table';
import { Mode, MODES } from './training';

/** The numbers of workers that are always in the table. */
const WORKERS = [1, 2, 4, 8];

/** What a training is on some workers, in both modes: times as Keras printed them, others estimated. */
export function ScalingTable(props: { known: IKnown; workers: number }): JSX.Element {
  const { trans } = useView();
  const { known, workers } = props;
  const counts = [...new Set([...WORKERS, workers])].sort((a, b) => a - b);
  const titles: Record<Mode, string> = {
    global: trans.__('Same result (global)'),
    'per-rank': trans.__('Larger batch (per-rank)')
  };
  const hasEpochs = known.training.batch !== null && known.training.examples !== null;
  return (
    <Table
      className="jp-hvd-scaling"
      caption={trans.__('● printed by Keras, ○ estimated, — not known')}
      columns={[
        { title: trans.__('Workers') },
        { title: hasEpochs ? trans.__('Epoch') : trans.__('Step') },
        { title: trans.__('Speed-up') },
        { title: trans.__('Batch') },
        { title: trans.__('Rate') },
        { title: trans.__('Steps') }
      ]}
      groups={MODES.map(mode => ({
        title: titles[mode],
        rows: counts.map(count =>
          rowOf(scalingRow(known, mode, count), count === workers, trans)
        )
      }))}
    />
  );
}

function rowOf(row: IScalingRow, isChosen: boolean, trans: TranslationBundle): ITableRow {
  const seconds = row.epoch ?? row.seconds;
  const mark = row.isMeasured ? '●' : '○';
  const name = row.isMeasured ? trans.__('printed by Keras') : trans.__('estimated');
  const title = row.isPossible
    ? undefined
    : trans.__('Some workers would have no example in a step.');
  const classes = [
    isChosen && 'jp-hvd-mod-chosen',
    !row.isPossible && 'jp-hvd-mod-impossible'
  ];
  return {
    key: row.workers,
    className: classes.filter(Boolean).join(' '),
    title,
    cells: cellsOf(
      row.workers,
      seconds === null || !row.isPossible ? (
        '—'
      ) : (
        <>
          {quantity(seconds, 's')}{' '}
          <span role="img" aria-label={name} title={name}>
            {mark}
          </span>
        </>
      ),
      row.speedup === null || !row.isPossible ? '—' : `${row.speedup.toFixed(2)} ×`,
      row.batch ?? '—',
      row.rate === null ? '—' : Number(row.rate.toPrecision(3)),
      row.steps ?? '—'
    )
  };
}
