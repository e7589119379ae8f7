import React, { useMemo, useRef, useState } from 'react';

import { useSignal, useView } from './context';
import { Change } from './conversion';
import { DecisionName, decisionsOf, IDecision, matchesQuery } from './decisions';
import { MixedBox } from './fields';
import { PlaceLink, RuleLink } from './findings';
import { useRovingFocus } from './roving';

/** So many changes of a decision are listed at first. */
const SHOWN = 20;

/** The changes by what the user decides on, each with a box of three states. */
export function DecisionTree(): JSX.Element {
  const { session, trans } = useView();
  const model = session.model!;
  useSignal(model.changed);
  const [query, setQuery] = useState('');
  const groups = useMemo(
    () => decisionsOf(model.changes.filter(change => matchesQuery(change, query))),
    [model, query]
  );
  const list = useRef<HTMLUListElement>(null);
  useRovingFocus(list);
  const count = groups.flat().reduce((sum, { changes }) => sum + changes.length, 0);
  return (
    <div className="jp-hvd-decisions">
      <input
        type="search"
        className="jp-mod-styled"
        aria-label={trans.__('Filter the changes')}
        placeholder={trans.__('Filter: text, cell 5, HVD601')}
        value={query}
        onChange={event => setQuery(event.target.value)}
      />
      <p className="jp-hvd-help" role="status">
        {query.trim() !== '' &&
          trans._n('%1 change matches.', '%1 changes match.', count)}
      </p>
      <ul ref={list} aria-label={trans.__('Decisions')}>
        {groups.map(group =>
          group.length > 1 ? (
            <Together key={group[0].name} decisions={group} />
          ) : (
            <Decision key={group[0].name} decision={group[0]} isOpen={query !== ''} />
          )
        )}
      </ul>
    </div>
  );
}

/** Decisions that are right together only: one box takes or leaves all. */
function Together({ decisions }: { decisions: readonly IDecision[] }): JSX.Element {
  const { trans } = useView();
  return (
    <li>
      <StateBox
        changes={decisions.flatMap(({ changes }) => changes)}
        label={trans.__('Train on larger batches')}
      />
      <p className="jp-hvd-help">
        {trans.__('Accepted or rejected together: each is right only with the others.')}
      </p>
      <ul>
        {decisions.map(decision => (
          <Decision key={decision.name} decision={decision} />
        ))}
      </ul>
    </li>
  );
}

function Decision(props: { decision: IDecision; isOpen?: boolean }): JSX.Element {
  const { session, trans } = useView();
  const { name, changes } = props.decision;
  const [all, setAll] = useState(false);
  const titles: Record<DecisionName, string> = {
    start: trans.__('Start the workers'),
    averaging: trans.__('Average gradients'),
    batch: trans.__('Batch size'),
    rate: trans.__('Learning rate'),
    steps: trans.__('Step counts'),
    output: trans.__('Output once')
  };
  const reasons: Partial<Record<DecisionName, string>> = {
    start: trans.__('All other changes need it: rejecting it rejects them.')
  };
  return (
    <li>
      <StateBox changes={changes} label={titles[name]} />
      {reasons[name] && <p className="jp-hvd-help">{reasons[name]}</p>}
      <details className="jp-hvd-lines" key={String(props.isOpen)} open={props.isOpen}>
        <summary>{trans._n('%1 change', '%1 changes', changes.length)}</summary>
        <ul>
          {changes.slice(0, all ? undefined : SHOWN).map(change => (
            <Leaf key={session.model!.keyOf(change)} change={change} />
          ))}
        </ul>
        {changes.length > SHOWN && !all && (
          <button type="button" className="jp-hvd-link" onClick={() => setAll(true)}>
            {trans.__('Show all %1', changes.length)}
          </button>
        )}
      </details>
    </li>
  );
}

function Leaf({ change }: { change: Change }): JSX.Element {
  return (
    <li>
      <StateBox changes={[change]} label={change.after.trim().split('\n')[0]} isCode />
      <PlaceLink cell={change.cell} line={change.line} />
      <RuleLink code={change.rule} />
    </li>
  );
}

/** A box that is on, off, or mixed, for changes that are taken or left with one click. */
function StateBox(props: {
  changes: readonly Change[];
  label: string;
  isCode?: boolean;
}): JSX.Element {
  const { session } = useView();
  const model = session.model!;
  useSignal(model.changed);
  const { changes, label } = props;
  const accepted = changes.filter(change => model.isAccepted(change)).length;
  const choices = changes.filter(change => change.provides === null);
  // What only provides for others, as importing Horovod, goes with all of them.
  const bound = choices.length > 0 ? choices : model.choices;
  return (
    <label className={accepted > 0 ? '' : 'jp-hvd-mod-left'}>
      <MixedBox
        accepted={accepted}
        all={changes.length}
        onChange={isAccepted => model.accept(bound, isAccepted)}
      />
      {props.isCode ? <code>{label}</code> : <span>{label}</span>}
    </label>
  );
}
