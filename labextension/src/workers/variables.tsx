import { TranslationBundle } from '@jupyterlab/translation';
import React, { useId, useState } from 'react';

import { IGroup, isReplicated, IVariable, valueOn } from './look';
import type { IPanel } from './panel';

/** The variables of all workers: those that differ first. */
export function AllVariables({ panel }: { panel: IPanel }): JSX.Element {
  const { trans } = panel;
  return (
    <Variables panel={panel} columns={[trans.__('On')]}>
      {variable => <AllRows key={variable.name} variable={variable} panel={panel} />}
    </Variables>
  );
}

/** The variables of one worker, marked where another one's differ. */
export function OwnVariables(props: { rank: number; panel: IPanel }): JSX.Element {
  const { rank, panel } = props;
  const { trans } = panel;
  return (
    <Variables panel={panel} columns={[]}>
      {variable => {
        const own = valueOn(variable, rank);
        return (
          own && (
            <tr key={variable.name} className={classOf(variable)}>
              <Name variable={variable} trans={trans} />
              <td>
                <Value group={own} />
                {!isReplicated(variable) && own === variable.groups[0] && (
                  <p>{trans.__('differs on %1', ranksText(others(variable), trans))}</p>
                )}
              </td>
            </tr>
          )
        );
      }}
    </Variables>
  );
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
  children: (variable: IVariable) => React.ReactNode;
}): JSX.Element {
  const { panel, columns, children } = props;
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
        <table className="jp-hvd-variables">
          <thead>
            <tr>
              <th scope="col">{trans.__('Variable')}</th>
              {columns.map(column => (
                <th key={column} scope="col">
                  {column}
                </th>
              ))}
              <th scope="col">{trans.__('Value')}</th>
            </tr>
          </thead>
          <tbody>{shown.map(children)}</tbody>
        </table>
      )}
    </section>
  );
}

function AllRows(props: { variable: IVariable; panel: IPanel }): JSX.Element {
  const { variable, panel } = props;
  const { trans } = panel;
  return (
    <>
      {variable.groups.map((group, i) => (
        <tr key={group.ranks[0]} className={classOf(variable)}>
          {i === 0 && (
            <Name variable={variable} trans={trans} rows={variable.groups.length} />
          )}
          <td className={group.ranks.length < 3 ? 'jp-hvd-mod-whole' : undefined}>
            {isReplicated(variable) ? trans.__('all') : ranksText(group.ranks, trans)}
          </td>
          <td>
            <Value group={group} />
          </td>
        </tr>
      ))}
    </>
  );
}

function Name(props: {
  variable: IVariable;
  trans: TranslationBundle;
  rows?: number;
}): JSX.Element {
  const { variable, trans, rows } = props;
  return (
    <th scope={rows && rows > 1 ? 'rowgroup' : 'row'} rowSpan={rows}>
      {!isReplicated(variable) && (
        <span role="img" aria-label={trans.__('differs')}>
          {'≠\u00a0'}
        </span>
      )}
      {variable.name}
    </th>
  );
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
