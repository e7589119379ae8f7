import React from 'react';

import { useView } from './context';
import { quantity } from './cost';
import { IKnown, IScalingRow, scalingRow } from './scaling';
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
    <table className="jp-hvd-scaling">
      <caption className="jp-hvd-help">
        {trans.__('● printed by Keras, ○ estimated, — not known')}
      </caption>
      <thead>
        <tr>
          <th scope="col">{trans.__('Workers')}</th>
          <th scope="col">{hasEpochs ? trans.__('Epoch') : trans.__('Step')}</th>
          <th scope="col">{trans.__('Speed-up')}</th>
          <th scope="col">{trans.__('Batch')}</th>
          <th scope="col">{trans.__('Rate')}</th>
          <th scope="col">{trans.__('Steps')}</th>
        </tr>
      </thead>
      {MODES.map(mode => (
        <tbody key={mode}>
          <tr>
            <th colSpan={6} scope="rowgroup">
              {titles[mode]}
            </th>
          </tr>
          {counts.map(count => (
            <Row
              key={count}
              row={scalingRow(known, mode, count)}
              isChosen={count === workers}
            />
          ))}
        </tbody>
      ))}
    </table>
  );
}

function Row({ row, isChosen }: { row: IScalingRow; isChosen: boolean }): JSX.Element {
  const { trans } = useView();
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
  return (
    <tr className={classes.filter(Boolean).join(' ')} title={title}>
      <th scope="row">{row.workers}</th>
      <td>
        {seconds === null || !row.isPossible ? (
          '—'
        ) : (
          <>
            {quantity(seconds, 's')}{' '}
            <span role="img" aria-label={name} title={name}>
              {mark}
            </span>
          </>
        )}
      </td>
      <td>
        {row.speedup === null || !row.isPossible ? '—' : `${row.speedup.toFixed(2)} ×`}
      </td>
      <td>{row.batch ?? '—'}</td>
      <td>{row.rate === null ? '—' : Number(row.rate.toPrecision(3))}</td>
      <td>{row.steps ?? '—'}</td>
    </tr>
  );
}
