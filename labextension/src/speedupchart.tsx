import React from 'react';

import { useView } from './context';
import { curve, ICostInput, ILimit, MAX_WORKERS } from './cost';
import { Plot } from './plot';

/** Estimated speed-up over the number of workers, beside the ideal one. */
export function SpeedupChart(props: {
  input: ICostInput;
  workers: number;
  limit: ILimit | null;
}): JSX.Element {
  const { trans } = useView();
  const { input, workers, limit } = props;
  const points = curve(input);
  const label = trans.__('Speed-up');
  return (
    <figure className="jp-hvd-charts">
      <figcaption>{label}</figcaption>
      <Plot
        x={{
          label: trans.__('workers'),
          low: 1,
          high: MAX_WORKERS,
          ticks: ticksAt(1, 16, 32, 48, MAX_WORKERS)
        }}
        y={{
          label,
          low: 0,
          high: MAX_WORKERS,
          ticks: ticksAt(0, 16, 32, 48, MAX_WORKERS)
        }}
        series={[
          {
            className: 'jp-hvd-ideal',
            points: [
              [1, 1],
              [MAX_WORKERS, MAX_WORKERS]
            ]
          },
          {
            className: 'jp-hvd-estimated',
            points: points.map(point => [point.workers, point.speedup]),
            marks: points.map(point => ({
              at: [point.workers, point.speedup],
              text: trans.__(
                '%1 workers: speed-up %2, efficiency %3 %',
                point.workers,
                point.speedup.toFixed(2),
                Math.round(100 * point.efficiency)
              ),
              className: point.workers === workers ? 'jp-hvd-mod-here' : ''
            }))
          }
        ]}
        rule={limit?.workers ?? null}
        height={140}
        label={trans.__(
          'Estimated speed-up over 1 to %1 workers; %2 on %3',
          MAX_WORKERS,
          points[workers - 1].speedup.toFixed(1),
          workers
        )}
      />
    </figure>
  );
}

function ticksAt(...values: number[]): [number, string][] {
  return values.map(value => [value, String(value)]);
}
