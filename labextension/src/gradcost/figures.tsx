import React from 'react';

import { usePanel } from './context';
import { bytes, count, time } from './format';
import { IFigure, IRatio, IReport, isCurrent, plainHere } from './report';

/** A function's name, the same in every language. */
const PLAIN = 'jax.grad';

/** A row of the table: a program, and what it costs. */
interface IRow {
  /** Names the colour of its curve. */
  kind: 'value' | 'forward' | 'adjoint' | 'jax';
  title: string;
  total: number | null;
  unit: string;
  /** What the operations are. */
  kinds: string;
  formula: React.ReactNode;
  ratio: IRatio | null;
  figure: IFigure | null;
  memory: number | null;
  seconds: number | null;
  spread: readonly number[] | null;
}

/** Value, forward derivative, gradient and plain JAX's gradient, one row each. */
export function Figures({ report }: { report: IReport }): JSX.Element {
  const { trans } = usePanel();
  const measured = isCurrent(report) ? report.measured : null;
  const counted = (
    kind: IRow['kind'],
    title: string,
    figure: IFigure,
    ratio: IRatio | null,
    times: Partial<Pick<IRow, 'memory' | 'seconds' | 'spread'>>
  ): IRow => ({
    kind,
    title,
    total: figure.total,
    unit: trans.__('operations'),
    kinds: trans.__(
      '%1 additions, %2 multiplications, %3 calls',
      count(figure.additions),
      count(figure.multiplications),
      count(figure.calls)
    ),
    formula: <code title={figure.formula}>{figure.here}</code>,
    ratio,
    figure,
    memory: null,
    seconds: null,
    spread: null,
    ...times
  });
  const plain = usePlainRow(report);
  const rows = [
    counted('value', trans.__('Value'), report.value, null, {
      memory: measured?.value_bytes,
      seconds: measured?.value
    }),
    counted(
      'forward',
      trans.__('Forward derivative'),
      report.forward,
      report.forward_ratio,
      {}
    ),
    counted('adjoint', trans.__('Gradient'), report.adjoint, report.adjoint_ratio, {
      memory: measured?.adjoint_bytes,
      seconds: measured?.adjoint,
      spread: measured?.adjoint_spread
    }),
    ...(plain ? [plain] : [])
  ];
  const hasLoops = rows.some(({ figure }) => figure?.histories);
  const hasMemory = rows.some(({ memory }) => typeof memory === 'number');
  return (
    <div className="jp-hvd-gc-table jp-hvd-gc-figures" tabIndex={0}>
      <table aria-label={trans.__('Costs')}>
        <thead>
          <tr>
            <td />
            <th scope="col">{trans.__('operations')}</th>
            <th scope="col">{trans.__('formula')}</th>
            <th scope="col">{trans.__('× the value')}</th>
            <th
              scope="col"
              title={trans.__(
                'Entries of all intermediate arrays that are not known to be zero'
              )}
            >
              {trans.__('intermediate values')}
            </th>
            {hasLoops && (
              <th
                scope="col"
                title={trans.__('Those that loops store between iterations')}
              >
                {trans.__('in loops')}
              </th>
            )}
            {hasMemory && <th scope="col">{trans.__('memory')}</th>}
            <th scope="col">{trans.__('time')}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(row => (
            <tr key={row.kind} className={`jp-hvd-gc-${row.kind}`}>
              <th scope="row">{row.title}</th>
              <td title={row.kinds}>
                <Total value={row.total} unit={row.unit} />
              </td>
              <td className="jp-hvd-gc-formula">{row.formula}</td>
              <td className="jp-hvd-gc-ratio">
                {row.ratio && <Ratio ratio={row.ratio} />}
              </td>
              <td>{row.figure && count(row.figure.entries)}</td>
              {hasLoops && (
                <td>{row.figure?.histories ? count(row.figure.histories) : ''}</td>
              )}
              {hasMemory && (
                <td>{typeof row.memory === 'number' ? bytes(row.memory) : '—'}</td>
              )}
              <td className="jp-hvd-gc-time">
                <Time {...row} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The operations; their unit is for those who hear it. */
function Total(props: { value: number | null; unit: string }): JSX.Element {
  return (
    <data className="jp-hvd-gc-total" value={props.value ?? ''}>
      {count(props.value)}
      <span className="jp-hvd-gc-unseen"> {props.unit}</span>
    </data>
  );
}

/** A ratio and the bound that holds at all sizes. */
function Ratio({ ratio }: { ratio: IRatio }): JSX.Element {
  const { trans } = usePanel();
  const text = ratio.ratio === null ? '—' : precise(ratio.ratio);
  return (
    <span title={ratio.theorem}>
      {ratio.interfaces
        ? trans.__('%1, never above %2 (with inputs and outputs)', text, ratio.bound)
        : trans.__('%1, never above %2', text, ratio.bound)}
    </span>
  );
}

function precise(ratio: number): string {
  return ratio >= 0.1 || ratio === 0 ? ratio.toFixed(2) : ratio.toPrecision(1);
}

/** The median of a call, and the quartiles below it where they are known. */
function Time({ kind, seconds, spread }: IRow): JSX.Element {
  const { trans } = usePanel();
  if (typeof seconds !== 'number') {
    return <>{kind === 'forward' ? '' : '—'}</>;
  }
  return (
    <>
      {time(seconds)}
      {spread && (
        <span className="jp-hvd-gc-spread">
          {trans.__('%1 to %2', ...spread.map(time))}
        </span>
      )}
    </>
  );
}

/** The row of plain JAX's gradient; none where nothing of it is asked. */
function usePlainRow(report: IReport): IRow | null {
  const { model, trans } = usePanel();
  const { plain } = report;
  if (!plain) {
    return null;
  }
  const flops = plainHere(report);
  const measured = isCurrent(report) ? report.measured : null;
  const isWaiting = model.isLive && !model.error && !report.error;
  const states = {
    pending: isWaiting ? trans.__('estimating…') : trans.__('no estimate here'),
    done:
      flops === null ? trans.__('no estimate here') : trans.__('flops, XLA’s estimate'),
    failed: plain.message
  };
  return {
    kind: 'jax',
    title: PLAIN,
    total: flops,
    unit: trans.__('flops'),
    kinds: plain.message,
    formula: (
      <>
        <span>{states[plain.state]}</span>{' '}
        {plain.against
          ? trans.__('of %1', plain.against)
          : trans.__('of the same program in dense jax.numpy')}
      </>
    ),
    ratio: null,
    figure: null,
    memory: plainHere(report, 'memory'),
    seconds: measured?.jax_adjoint ?? null,
    spread: measured?.jax_spread ?? null
  };
}
