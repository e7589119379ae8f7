import React, { useState } from 'react';

import { usePanel } from './context';
import { count, percent, time } from './format';
import { IReport, IRow } from './report';

/** The statements of value and gradient side by side; to point at one lights up its partner. */
export function Statements({ report }: { report: IReport }): JSX.Element {
  const { trans } = usePanel();
  const [lit, setLit] = useState('');
  const [all, setAll] = useState(false);
  const free = [...report.value_rows, ...report.adjoint_rows].filter(
    row => !row.operations
  ).length;
  const show = (rows: IRow[]): IRow[] => rows.filter(row => all || row.operations);
  return (
    <section className="jp-hvd-gc-statements" aria-label={trans.__('Statements')}>
      <div className="jp-hvd-gc-tables" onMouseLeave={() => setLit('')}>
        <Table
          title={trans.__('Value')}
          rows={show(report.value_rows)}
          isLit={row => lit !== '' && row.name === lit}
          light={row => setLit(row.name)}
        />
        <Table
          title={trans.__('Gradient')}
          rows={show(report.adjoint_rows)}
          isLit={row => lit !== '' && row.source === lit}
          light={row => setLit(row.source)}
          derived
        />
      </div>
      {free > 0 && (
        <label className="jp-hvd-gc-check">
          <input
            type="checkbox"
            checked={all}
            onChange={event => setAll(event.target.checked)}
          />
          {trans.__('Show the %1 statements that are free', free)}
        </label>
      )}
    </section>
  );
}

function Table(props: {
  title: string;
  rows: IRow[];
  isLit: (row: IRow) => boolean;
  light: (row: IRow) => void;
  derived?: boolean;
}): JSX.Element {
  const { trans } = usePanel();
  const timed = props.rows.some(row => row.seconds !== null);
  return (
    <div className="jp-hvd-gc-table">
      <table aria-label={trans.__('Statements of the %1', props.title.toLowerCase())}>
        <caption>{props.title}</caption>
        <thead>
          <tr>
            <th scope="col">{trans.__('statement')}</th>
            <th scope="col" title={trans.__('points of its predicate')}>
              {trans.__('support')}
            </th>
            <th scope="col">{trans.__('operations')}</th>
            <th scope="col">{trans.__('share')}</th>
            {timed && <th scope="col">{trans.__('time')}</th>}
          </tr>
        </thead>
        <tbody>
          {props.rows.map(row => (
            <tr
              key={row.name}
              data-name={row.name}
              className={props.isLit(row) ? 'jp-hvd-mod-lit' : ''}
              onMouseEnter={() => props.light(row)}
              onFocus={() => props.light(row)}
            >
              <th scope="row">
                <Statement row={row} />
                <Origin row={row} derived={props.derived} />
              </th>
              <td title={trans.__('%1 points', count(row.points))}>{row.support}</td>
              <td title={row.formula}>{count(row.operations)}</td>
              <td>
                <Share share={row.share} />
              </td>
              {timed && <td>{row.seconds === null ? '' : time(row.seconds)}</td>}
            </tr>
          ))}
          {props.rows.length === 0 && (
            <tr>
              <td colSpan={4}>{trans.__('Every statement is free.')}</td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

/** A statement, its predicate set apart. */
function Statement({ row }: { row: IRow }): JSX.Element {
  const at = row.predicate ? row.statement.indexOf(`[${row.predicate}]`) : -1;
  const length = row.predicate.length + 2;
  return (
    <code>
      <b>{row.name}</b> ={' '}
      {at < 0 ? (
        row.statement
      ) : (
        <>
          {row.statement.slice(0, at)}
          <span className="jp-hvd-gc-predicate">
            {row.statement.slice(at, at + length)}
          </span>
          {row.statement.slice(at + length)}
        </>
      )}
    </code>
  );
}

/** The rule and the statement that it came from, and the user's line. */
function Origin({ row, derived }: { row: IRow; derived?: boolean }): JSX.Element {
  const { reveal, trans } = usePanel();
  const { place } = row;
  const find = (event: React.MouseEvent): void => {
    const panel = (event.currentTarget as HTMLElement).closest('.jp-hvd-gc-tables');
    const row_ = panel?.querySelector<HTMLElement>(
      `tr[data-name="${CSS.escape(row.source)}"]`
    );
    row_?.scrollIntoView({ block: 'nearest', behavior: 'smooth' });
  };
  return (
    <span className="jp-hvd-gc-origin">
      {row.rule && <span title={row.why}>({row.rule})</span>}
      {derived && row.source && (
        <button
          type="button"
          title={trans.__('The statement of the value that it came from')}
          onClick={find}
        >
          ← {row.source}
        </button>
      )}
      {place && (
        <button type="button" title={place.text.trim()} onClick={() => reveal(place)}>
          {place.label.startsWith('[')
            ? trans.__('%1 line %2', place.label, place.line)
            : trans.__('line %1', place.line)}
        </button>
      )}
    </span>
  );
}

function Share({ share }: { share: number }): JSX.Element {
  return (
    <span className="jp-hvd-gc-share">
      <span style={{ width: `${100 * share}%` }} />
      <em>{percent(share)}</em>
    </span>
  );
}
