import { TranslationBundle } from '@jupyterlab/translation';
import React, { useId, useState } from 'react';

import { ITableCell, ITableRow, Table } from '../table';
import { IGroup, isReplicated, IVariable, valueOn } from './look';
import type { IPanel } from './panel';

/** The variables of all workers: those that differ first. */
export function AllVariables({ panel }: { panel: IPanel }): JSX.Element {
  const { trans } = panel;
  const rows = (variable: IVariable): ITableRow[] =>
    variable.groups.map((group, i) => ({
      key: `${variable.name} ${group.ranks[0]}`,
      className: classOf(variable),
      cells: [
        i === 0 ? nameOf(variable, trans, variable.groups.length) : null,
        {
          className: group.ranks.length < 3 ? 'jp-hvd-mod-whole' : undefined,
          children: isReplicated(variable)
            ? trans.__('all')
            : ranksText(group.ranks, trans)
        },
        { children: <Value group={group} /> }
      ]
    }));
  return <Variables panel={panel} columns={[trans.__('On')]} rows={rows} />;
}

/** The variables of one worker, marked where another one's differ. */
export function OwnVariables(props: { rank: number; panel: IPanel }): JSX.Element {
  const { rank, panel } = props;
  const { trans } = panel;
  const rows = (variable: IVariable): ITableRow[] => {
    const own = valueOn(variable, rank);
    const differs = !isReplicated(variable) && own === variable.groups[0];
    const value = own && (
      <>
        <Value group={own} />
        {differs && (
          <p>{trans.__('differs on %1', ranksText(others(variable), trans))}</p>
        )}
      </>
    );
    const cells = [nameOf(variable, trans), { children: value }];
    return own ? [{ key: variable.name, className: classOf(variable), cells }] : [];
  };
  return <Variables panel={panel} columns={[]} rows={rows} />;
}

function others(variable: IVariable): number[] {
  return variable.groups
    .slice(1)
    .flatMap(group => group.ranks)
    .sort((a, b) => a - b);
}

/** A table of variables, and a field that picks some by their names. */
function Variables(props: {
  panel: IPanel;
  columns: string[];
  rows: (variable: IVariable) => ITableRow[];
}): JSX.Element {
  const { panel, columns, rows } = props;
  const { follower, trans } = panel;
  const [part, setPart] = useState('');
  const id = useId();
  const { variables } = follower;
  const silent = follower.look?.silent ?? [];
  const count = variables?.filter(each => !isReplicated(each)).length ?? 0;
  const shown = variables?.filter(each => each.name.includes(part)) ?? [];
  return (
    <section aria-labelledby={id}>
      <header>
        <h3 id={id}>{trans.__('Variables')}</h3>
        <label>
          {trans.__('Name')}
          <input
            type="search"
            value={part}
            onChange={event => setPart(event.target.value)}
          />
        </label>
      </header>
      <p role="status">
        {variables === null
          ? trans.__('Asking the workers…')
          : trans.__(
              '%1 differ, %2 are the same on all.',
              count,
              variables.length - count
            )}{' '}
        {follower.look?.running &&
          trans.__('A cell runs: workers may be at different steps.')}{' '}
        {silent.length > 0 && trans.__('No answer from %1.', ranksText(silent, trans))}
      </p>
      {shown.length > 0 && (
        <Table
          className="jp-hvd-variables"
          columns={[trans.__('Variable'), ...columns, trans.__('Value')].map(title => ({
            title
          }))}
          groups={[{ rows: shown.flatMap(rows) }]}
        />
      )}
    </section>
  );
}

function nameOf(variable: IVariable, trans: TranslationBundle, rows = 1): ITableCell {
  return {
    scope: rows > 1 ? 'rowgroup' : 'row',
    rowSpan: rows,
    children: (
      <>
        {!isReplicated(variable) && (
          <span role="img" aria-label={trans.__('differs')}>
            {'≠\u00a0'}
          </span>
        )}
        {variable.name}
      </>
    )
  };
}

function Value({ group }: { group: IGroup }): JSX.Element {
  return (
    <>
      <code>{group.text}</code>
      {group.note && <p>{group.note}</p>}
    </>
  );
}

function classOf(variable: IVariable): string | undefined {
  return isReplicated(variable) ? undefined : 'jp-hvd-mod-differs';
}

function ranksText(ranks: number[], trans: TranslationBundle): string {
  return trans._n('rank %2', 'ranks %2', ranks.length, ranks.join(', '));
}
