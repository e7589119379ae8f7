import React, { useRef, useState } from 'react';

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
  const values = useRef(new Map<string, HTMLTableRowElement>());
  return (
    <details className="jp-hvd-gc-statements">
      <summary>{trans.__('Compiled statements')}</summary>
      <p className="jp-hvd-gc-notation">
        {trans.__(
          'Each statement fills an array: “X3[i, j] = Σ k: A[i, k]·B[k, j]” is the entry for each i and j, summed over k; where the condition behind “where” does not hold, it is 0. A rule is a number in the paper’s derivation; point at it for its words.'
        )}
      </p>
      <div className="jp-hvd-gc-tables" onMouseLeave={() => setLit('')}>
        <Table
          title={trans.__('Value')}
          label={trans.__('Statements of the value')}
          rows={show(report.value_rows)}
          isLit={row => lit !== '' && row.name === lit}
          light={row => setLit(row.name)}
          places={values.current}
        />
        <Table
          title={trans.__('Gradient')}
          label={trans.__('Statements of the gradient')}
          rows={show(report.adjoint_rows)}
          isLit={row => lit !== '' && row.source === lit}
          light={row => setLit(row.source)}
          show={name =>
            values.current
              .get(name)
              ?.scrollIntoView({ block: 'nearest', behavior: 'smooth' })
          }
        />
      </div>
      {free > 0 && (
        <label className="jp-hvd-gc-check">
          <input
            type="checkbox"
            checked={all}
            onChange={event => setAll(event.target.checked)}
          />
          {trans.__('Show the %1 statements that cost nothing', free)}
        </label>
      )}
    </details>
  );
}

function Table(props: {
  title: string;
  label: string;
  rows: IRow[];
  isLit: (row: IRow) => boolean;
  light: (row: IRow) => void;
  /** Where the rows stand in the page, by name. */
  places?: Map<string, HTMLTableRowElement>;
  /** Bring the statement of the value into view that a row came from. */
  show?: (name: string) => void;
}): JSX.Element {
  const { trans } = usePanel();
  const timed = props.rows.some(row => row.seconds !== null);
  return (
    <div className="jp-hvd-gc-table">
      <table aria-label={props.label}>
        <caption>{props.title}</caption>
        <thead>
          <tr>
            <th scope="col">{trans.__('statement')}</th>
            <th scope="col" title={trans.__('How often the statement runs')}>
              {trans.__('iterations')}
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
              ref={node =>
                void (node
                  ? props.places?.set(row.name, node)
                  : props.places?.delete(row.name))
              }
              className={props.isLit(row) ? 'jp-hvd-mod-lit' : ''}
              onMouseEnter={() => props.light(row)}
              onFocus={() => props.light(row)}
            >
              <th scope="row">
                <Statement row={row} />
                <Origin row={row} show={props.show} />
              </th>
              <td title={trans.__('%1 iterations', count(row.points))}>{row.support}</td>
              <td title={row.formula}>{count(row.operations)}</td>
              <td>
                <Share share={row.share} />
              </td>
              {timed && <td>{row.seconds === null ? '' : time(row.seconds)}</td>}
            </tr>
          ))}
          {props.rows.length === 0 && (
            <tr>
              <td colSpan={4}>{trans.__('No statement costs anything.')}</td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

/** A statement, its predicate set apart. */
function Statement({ row }: { row: IRow }): JSX.Element {
  const [before, predicate, after] = row.statement;
  return (
    <code>
      {/* Reports of before have no target. */}
      <b>{row.target || row.name}</b> = {before}
      {predicate && <span className="jp-hvd-gc-predicate">{predicate}</span>}
      {after}
    </code>
  );
}

/** The rule and the statement that it came from, and the user's line. */
function Origin(props: { row: IRow; show?: (name: string) => void }): JSX.Element {
  const { row, show } = props;
  const { reveal, trans } = usePanel();
  const { place } = row;
  return (
    <span className="jp-hvd-gc-origin">
      {row.rule && <span title={row.why}>{trans.__('rule %1', row.rule)}</span>}
      {show && row.source && (
        <button
          type="button"
          title={trans.__('The statement of the value that it came from')}
          onClick={() => show(row.source)}
        >
          ← {row.source}
        </button>
      )}
      {place && (
        <button
          type="button"
          title={row.call || place.text.trim()}
          onClick={() => reveal(place)}
        >
          {place.count === null
            ? trans.__('line %1', place.line)
            : trans.__('[%1] line %2', place.count, place.line)}
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
