import React, { useEffect, useReducer, useState } from 'react';

import { useText, useView } from './context';
import { Change } from './conversion';
import { Markdown } from './markdown';
import { rulePage } from './ruledialog';

/** A change at its hunk: its reason, and buttons to reject it, or to restore it, and to read more. */
export function ChangeRow({ change }: { change: Change }): JSX.Element {
  const { said, session, trans } = useView();
  const [isOpen, setOpen] = useState(false);
  const model = session.model!;
  useText(model.changed, () => String(model.isAccepted(change)));
  const accepted = model.isAccepted(change);
  const isChoice = change.provides === null;
  const why = said(change.why);
  return (
    <div
      className={`jp-hvd-change${accepted ? '' : ' jp-hvd-mod-left'}`}
      role="group"
      aria-label={change.rule}
    >
      <p className="jp-hvd-why">
        {accepted || !isChoice ? why : trans.__('Rejected: %1', why)}
        {!accepted && <code>{firstAdded(change)}</code>}
      </p>
      {isChoice ? (
        <Choice change={change} />
      ) : (
        <span
          className="jp-hvd-help"
          title={trans.__('Added automatically: other accepted changes need it')}
        >
          {accepted ? trans.__('Added automatically') : trans.__('Not needed')}
        </span>
      )}
      <button
        type="button"
        className="jp-hvd-link"
        aria-expanded={isOpen}
        aria-label={trans.__('Why? %1', change.rule)}
        onClick={() => setOpen(!isOpen)}
      >
        {trans.__('Why?')}
      </button>
      {isOpen && <RulePage code={change.rule} />}
    </div>
  );
}

/** The button that rejects a change, or restores it. */
function Choice({ change }: { change: Change }): JSX.Element {
  const { buttons, said, session, trans } = useView();
  // The button may be pressed before it listens to the model.
  const [, renderAgain] = useReducer((count: number) => count + 1, 0);
  const model = session.model!;
  const key = model.keyOf(change);
  const accepted = model.isAccepted(change);
  const others = model.boundTo(change, !accepted).length - 1;
  const name = accepted
    ? trans.__('Reject %1: %2', change.rule, said(change.why))
    : trans.__('Restore %1: %2', change.rule, said(change.why));
  return (
    <button
      type="button"
      className="jp-hvd-link jp-hvd-choice"
      ref={node => void (node ? buttons.set(key, node) : buttons.delete(key))}
      aria-label={name}
      title={
        others > 0
          ? trans._n(
              '%1 other change goes with it',
              '%1 other changes go with it',
              others
            )
          : undefined
      }
      onFocus={() => model.visit(change)}
      onClick={() => {
        model.accept([change], !accepted);
        renderAgain();
      }}
    >
      {accepted ? trans.__('Reject') : trans.__('Restore')}
    </button>
  );
}

/** The first line that a change would add. */
function firstAdded({ before, after }: Change): string {
  const known = new Set(before.split('\n'));
  const added = after.split('\n').filter(line => !known.has(line));
  return added.length > 1 ? `${added[0].trim()} …` : (added.at(0) ?? '').trim();
}

/** The page of a rule, below the change that it asked for. */
function RulePage({ code }: { code: string }): JSX.Element {
  const { api, trans } = useView();
  const [text, setText] = useState('');
  useEffect(() => {
    rulePage({ api, trans }, code).then(
      page => setText(page.text),
      (error: Error) => setText(error.message)
    );
  }, [code]);
  return (
    <div
      className="jp-hvd-rulePage"
      tabIndex={-1}
      role="region"
      aria-label={trans.__('Rule %1', code)}
    >
      <Markdown text={text} />
    </div>
  );
}
