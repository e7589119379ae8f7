import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { logarithmic, Point } from '../axes';
import { IMark, Plot } from '../plot';
import { usePanel } from './context';
import { count, time } from './format';
import { ICurve, IGrowth, IHistory, IReport, ITimes } from './report';
import { through } from './times';

const HEIGHT = 200;
const TICKS = { x: 8, y: 6 };

/**
 * Operations over each size, and measured times where there are some, both axes logarithmic; dots are
 * XLA's estimates of plain JAX.
 */
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
        <div key={curve.size} className="jp-hvd-gc-size">
          <Operations curve={curve} plain={report.plain?.adjoint[curve.size] ?? []} />
          {/* Reports of before have no histories and no times. */}
          {report.histories
            ?.filter(({ size }) => size === curve.size)
            .map(history => (
              <Histories key={history.size} history={history} />
            ))}
          <Measured
            curve={curve}
            times={report.times?.find(({ size }) => size === curve.size)}
          />
        </div>
      ))}
      <ul className="jp-hvd-gc-legend" aria-label={trans.__('Legend')}>
        <li className="jp-hvd-gc-value">{trans.__('value')}</li>
        <li className="jp-hvd-gc-forward">{trans.__('forward derivative')}</li>
        <li className="jp-hvd-gc-adjoint">{trans.__('gradient')}</li>
        {curves.some(({ size }) => report.plain?.adjoint[size]?.length) && (
          <li className="jp-hvd-gc-jax">
            {report.plain?.against
              ? trans.__('jax.grad of %1, XLA’s estimate of flops', report.plain.against)
              : trans.__('jax.grad of the same program, XLA’s estimate of flops')}
          </li>
        )}
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
    forward: trans.__('forward derivative'),
    adjoint: trans.__('gradient')
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

/** What loops keep between their turns, over a size that says how many there are. */
function Histories({ history }: { history: IHistory }): JSX.Element | null {
  const { trans } = usePanel();
  const { size, at } = history;
  const kinds = [
    ['whole', trans.__('as it is'), 'a'],
    ['carried', trans.__('with checkpoint=True'), 'b'],
    ['blocks', trans.__('with checkpoint="blocks"'), 'c']
  ] as const;
  const series = kinds.map(([kind, name, letter], k) => {
    const points = drawn(history.sizes, history[kind]);
    const marks = points
      .filter(([n]) => n === at)
      .map((here): IMark => {
        const title = trans.__('%1, %2 = %3: %4', name, size, here[0], count(here[1]));
        return { at: here, radius: 4, title };
      });
    const className = `jp-hvd-gc-side jp-hvd-gc-side${k}`;
    return { className, points, marks, letter };
  });
  const numbers = series.flatMap(({ points }) => points.map(([, kept]) => kept));
  if (numbers.length === 0) {
    return null;
  }
  const here = history.sizes.indexOf(at);
  return (
    <figure className="jp-hvd-gc-histories">
      <Plot
        x={logarithmic(size, history.sizes, TICKS.x)}
        y={logarithmic('', numbers, TICKS.y)}
        series={series}
        rule={at}
        height={HEIGHT}
        label={trans.__(
          'Values stored between iterations over %1, both axes logarithmic',
          size
        )}
      />
      <figcaption>
        {trans.__('Values stored between iterations for the reverse pass:')}{' '}
        {kinds
          .map(([kind, name, letter]) =>
            trans.__('%1 %2 %3', letter, count(history[kind][here]), name)
          )
          .join(', ')}
      </figcaption>
    </figure>
  );
}

/** Measured times over a size, or the button that measures them. */
function Measured(props: { curve: ICurve; times?: ITimes }): JSX.Element {
  const { model, trans } = usePanel();
  const { curve, times } = props;
  const { size } = curve;
  return (
    <>
      {times && <Times curve={curve} times={times} />}
      <p className="jp-hvd-gc-sweep">
        <button
          type="button"
          className="jp-mod-styled"
          title={trans.__('Run value and gradient at powers of two of %1', size)}
          disabled={!model.isLive || model.progress !== null}
          onClick={() => model.sweep(size)}
        >
          {times
            ? trans.__('Measure over %1 again', size)
            : trans.__('Measure over %1', size)}
        </button>
      </p>
    </>
  );
}

/** Seconds over a size, and beside them, faint, the operations in the same measure. */
function Times(props: { curve: ICurve; times: ITimes }): JSX.Element {
  const { trans } = usePanel();
  const { curve, times } = props;
  const { size } = curve;
  const kinds = [
    ['value', trans.__('value'), times.value_growth],
    ['adjoint', trans.__('gradient'), times.adjoint_growth]
  ] as const;
  const measured = kinds.map(([kind, name]) => {
    const points = times.sizes.map((n, i): Point => [n, times[kind][i]]);
    const marks = points.map((at): IMark => {
      const title = trans.__('%1, %2 = %3: %4', name, size, at[0], time(at[1]));
      return { at, radius: 3, title };
    });
    return { className: `jp-hvd-gc-${kind}`, points, marks };
  });
  const counted = kinds.map(([kind], i) => ({
    className: `jp-hvd-gc-${kind} jp-hvd-gc-scaled`,
    points: through(drawn(curve.sizes, curve[kind]), measured[i].points)
  }));
  const series = [...counted, ...measured];
  const seconds = series.flatMap(({ points }) => points.map(([, t]) => t));
  return (
    <figure className="jp-hvd-gc-times">
      <Plot
        x={logarithmic(size, times.sizes, TICKS.x)}
        y={{ ...logarithmic('', seconds, TICKS.y), text: time }}
        series={series}
        rule={null}
        height={HEIGHT}
        label={trans.__('Measured times over %1, both axes logarithmic', size)}
      />
      <figcaption>
        {trans.__('Shortest times on %1 in %2:', times.device, times.dtype)}{' '}
        {kinds.map(([, name, growth]) => sayGrowth(name, size, growth, trans)).join(', ')}
        {trans.__('; dashed, the operations in proportion.')}
      </figcaption>
    </figure>
  );
}

function sayGrowth(
  name: string,
  size: string,
  growth: IGrowth | null,
  trans: TranslationBundle
): string {
  return growth
    ? trans.__('%1 ∝ %2^%3 from %4 on', name, size, growth.exponent, growth.since)
    : trans.__('%1: no power law in %2', name, size);
}

/** What can stand on a logarithmic axis. */
function drawn(sizes: readonly number[], values: readonly (number | null)[]): Point[] {
  return sizes.flatMap((n, i): Point[] => {
    const value = values[i];
    return value !== null && value > 0 ? [[n, value]] : [];
  });
}
