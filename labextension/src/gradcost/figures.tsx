import React from 'react';

import { usePanel } from './context';
import { bytes, count, time } from './format';
import { IFigure, IRatio, IReport, isCurrent, plainHere } from './report';

/** A function's name, the same in every language. */
const PLAIN = 'jax.grad';

/** Value, forward and adjoint side by side, and plain JAX beside them. */
export function Figures({ report }: { report: IReport }): JSX.Element {
  const { trans } = usePanel();
  const measured = isCurrent(report) ? report.measured : null;
  return (
    <section className="jp-hvd-gc-figures" aria-label={trans.__('Costs')}>
      <Figure
        kind="value"
        title={trans.__('Value')}
        figure={report.value}
        seconds={measured?.value ?? null}
        memory={measured?.value_bytes ?? null}
      />
      <Figure
        kind="forward"
        title={trans.__('Forward derivative')}
        figure={report.forward}
        ratio={report.forward_ratio}
        seconds={null}
        memory={null}
      />
      <Figure
        kind="adjoint"
        title={trans.__('Gradient')}
        figure={report.adjoint}
        ratio={report.adjoint_ratio}
        seconds={measured?.adjoint ?? null}
        memory={measured?.adjoint_bytes ?? null}
      />
      <PlainFigure report={report} />
    </section>
  );
}

function Figure(props: {
  kind: string;
  title: string;
  figure: IFigure;
  ratio?: IRatio;
  seconds: number | null;
  memory: number | null;
}): JSX.Element {
  const { trans } = usePanel();
  const { figure, ratio } = props;
  return (
    <div
      className={`jp-hvd-gc-figure jp-hvd-gc-${props.kind}`}
      role="group"
      aria-label={props.title}
    >
      <h3>{props.title}</h3>
      <Total value={figure.total} unit={trans.__('operations')} />
      <code className="jp-hvd-gc-formula" title={figure.formula}>
        {figure.here}
      </code>
      <p className="jp-hvd-gc-kinds">
        {trans.__(
          '%1 add, %2 mul, %3 calls',
          count(figure.additions),
          count(figure.multiplications),
          count(figure.calls)
        )}
      </p>
      {ratio && <Gauge ratio={ratio} />}
      <dl>
        <dt
          title={trans.__(
            'Entries of all intermediate arrays that are not known to be zero'
          )}
        >
          {trans.__('intermediate values')}
        </dt>
        <dd>{count(figure.entries)}</dd>
        {Boolean(figure.histories) && (
          <>
            <dt title={trans.__('What loops keep between iterations')}>
              {trans.__('of these, in loops')}
            </dt>
            <dd>{count(figure.histories)}</dd>
          </>
        )}
        {props.kind !== 'forward' && (
          <>
            <dt>{trans.__('memory')}</dt>
            <dd>{props.memory === null ? '—' : bytes(props.memory)}</dd>
            <dt>{trans.__('time')}</dt>
            <dd className="jp-hvd-gc-time">
              {props.seconds === null ? '—' : time(props.seconds)}
            </dd>
          </>
        )}
      </dl>
    </div>
  );
}

/** The figure that a card is about; its unit is for those who hear it. */
function Total(props: { value: number | null; unit: string }): JSX.Element {
  return (
    <data className="jp-hvd-gc-total" value={props.value ?? ''}>
      {count(props.value)}
      <span className="jp-hvd-gc-unseen"> {props.unit}</span>
    </data>
  );
}

/** A ratio on its way from 0 to the bound. */
function Gauge({ ratio }: { ratio: IRatio }): JSX.Element {
  const { trans } = usePanel();
  const text = ratio.ratio === null ? '—' : precise(ratio.ratio);
  const part = Math.min((ratio.ratio ?? 0) / ratio.bound, 1);
  return (
    <div className="jp-hvd-gc-ratio" title={ratio.theorem}>
      <div
        className="jp-hvd-gc-gauge"
        role="meter"
        aria-label={trans.__('ratio to the value')}
        aria-valuemin={0}
        aria-valuemax={ratio.bound}
        aria-valuenow={ratio.ratio ?? undefined}
      >
        <div style={{ width: `${100 * part}%` }} />
      </div>
      <span>
        {ratio.interfaces
          ? trans.__(
              '%1 × the value with inputs and outputs, never above %2 ×',
              text,
              ratio.bound
            )
          : trans.__('%1 × the value, never above %2 ×', text, ratio.bound)}
      </span>
    </div>
  );
}

function precise(ratio: number): string {
  return ratio >= 0.1 || ratio === 0 ? ratio.toFixed(2) : ratio.toPrecision(1);
}

function PlainFigure({ report }: { report: IReport }): JSX.Element | null {
  const { model, trans } = usePanel();
  const { plain } = report;
  if (!plain) {
    return null;
  }
  const flops = plainHere(report);
  const memory = plainHere(report, 'memory');
  const measured = isCurrent(report) ? report.measured : null;
  const isWaiting = model.isLive && !model.error && !report.error;
  const states = {
    pending: isWaiting ? trans.__('estimating…') : trans.__('no estimate here'),
    done:
      flops === null ? trans.__('no estimate here') : trans.__('flops, XLA’s estimate'),
    failed: plain.message
  };
  return (
    <div
      className="jp-hvd-gc-figure jp-hvd-gc-jax"
      role="group"
      aria-label={trans.__('Plain jax.grad')}
    >
      <h3>{PLAIN}</h3>
      <Total value={flops} unit={trans.__('flops')} />
      <p className="jp-hvd-gc-kinds" title={plain.message}>
        {states[plain.state]}
      </p>
      <p className="jp-hvd-gc-what">
        {plain.against
          ? trans.__('of %1', plain.against)
          : trans.__('of the same program in dense jax.numpy')}
      </p>
      <dl>
        <dt>{trans.__('temporaries')}</dt>
        <dd>{memory === null ? '—' : bytes(memory)}</dd>
        <dt>{trans.__('time')}</dt>
        <dd className="jp-hvd-gc-time">
          {measured?.jax_adjoint ? time(measured.jax_adjoint) : '—'}
        </dd>
      </dl>
    </div>
  );
}
