import React from 'react';

import { logarithmic, Point } from '../axes';
import { IMark, Plot } from '../plot';
import { usePanel } from './context';
import { count } from './format';
import { ICurve, IReport } from './report';

const HEIGHT = 200;
const TICKS = { x: 8, y: 6 };

/** Operations over each size, both axes logarithmic; dots are XLA's estimates of plain JAX. */
export function Curves({ report }: { report: IReport }): JSX.Element | null {
  const { trans } = usePanel();
  const curves = report.curves.filter(curve => curve.sizes.length > 1);
  if (curves.length === 0) {
    return null;
  }
  return (
    <section
      className="jp-hvd-gc-curves"
      aria-label={trans.__('Operations over each size')}
    >
      {curves.map(curve => (
        <Operations
          key={curve.size}
          curve={curve}
          plain={report.plain?.adjoint[curve.size] ?? []}
        />
      ))}
      <ul className="jp-hvd-gc-legend" aria-label={trans.__('Legend')}>
        <li className="jp-hvd-gc-value">{trans.__('value')}</li>
        <li className="jp-hvd-gc-forward">{trans.__('forward')}</li>
        <li className="jp-hvd-gc-adjoint">{trans.__('adjoint')}</li>
        <li className="jp-hvd-gc-jax">
          {report.plain?.against
            ? trans.__('jax.grad of %1, XLA’s estimate of flops', report.plain.against)
            : trans.__('jax.grad of the same program, XLA’s estimate of flops')}
        </li>
      </ul>
    </section>
  );
}

function Operations(props: { curve: ICurve; plain: readonly Point[] }): JSX.Element {
  const { trans } = usePanel();
  const { curve, plain } = props;
  const { size, at } = curve;
  const names = {
    value: trans.__('value'),
    forward: trans.__('forward'),
    adjoint: trans.__('adjoint')
  };
  const ours = (['value', 'forward', 'adjoint'] as const).map(kind => {
    const points = drawn(curve.sizes, curve[kind]);
    const marks = points
      .filter(([n]) => n === at)
      .map(([n, total]): IMark => {
        const title = trans.__('%1, %2 = %3: %4', names[kind], size, n, count(total));
        return { at: [n, total], radius: 4, title };
      });
    return { className: `jp-hvd-gc-${kind}`, points, marks };
  });
  const jax = plain.map(([n, flops]): IMark => {
    const title = trans.__('jax.grad, %1 = %2: %3 flops (XLA)', size, n, count(flops));
    return { at: [n, flops], radius: 3, title };
  });
  const series = [{ className: 'jp-hvd-gc-jax', points: plain, marks: jax }, ...ours];
  const totals = series.flatMap(({ points }) => points.map(([, total]) => total));
  return (
    <Plot
      x={logarithmic(size, curve.sizes, TICKS.x)}
      y={logarithmic('', totals, TICKS.y)}
      series={series}
      rule={at}
      height={HEIGHT}
      label={trans.__('Operations over %1, both axes logarithmic', size)}
    />
  );
}

/** What can stand on a logarithmic axis. */
function drawn(sizes: readonly number[], values: readonly (number | null)[]): Point[] {
  return sizes.flatMap((n, i): Point[] => {
    const value = values[i];
    return value !== null && value > 0 ? [[n, value]] : [];
  });
}
