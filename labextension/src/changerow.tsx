import React, { useEffect, useReducer, useState } from 'react';

import { useText, useView } from './context';
import { Change } from './conversion';
import { CommandIDs } from './ids';
import { Markdown } from './markdown';
import { rulePage } from './ruledialog';

/** A change at its hunk: its reason, and buttons to reject it, or to restore it, and to read more. */
export function ChangeRow({ change }: { change: Change }): JSX.Element {
  const { said, session, trans } = useView();
  const [isOpen, setOpen] = useState(false);
  const model = session.model!;
  const key = model.keyOf(change);
  useText(model.changed, () => String(model.isAccepted(change)));
  const isStop = useText(model.visitedChanged, () => model.stopOf(change.cell)) === key;
  const accepted = model.isAccepted(change);
  const isChoice = change.provides === null;
  const why = said(change.why);
  const move = useMoves();
  return (
    <div
      className={`jp-hvd-change${accepted ? '' : ' jp-hvd-mod-left'}`}
      role="group"
      aria-label={change.rule}
      onKeyDown={move}
    >
      <p className="jp-hvd-why">
        {accepted || !isChoice ? why : trans.__('Rejected: %1', why)}
        {!accepted && <code>{firstAdded(change)}</code>}
      </p>
      {isChoice ? (
        <Choice change={change} isStop={isStop} />
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
        tabIndex={isStop || !isChoice ? 0 : -1}
        onClick={() => setOpen(!isOpen)}
      >
        {trans.__('Why?')}
      </button>
      {isOpen && <RulePage code={change.rule} />}
    </div>
  );
}

/** The button that rejects a change, or restores it. */
function Choice({ change, isStop }: { change: Change; isStop: boolean }): JSX.Element {
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
      tabIndex={isStop ? 0 : -1}
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

/** What the arrow keys do in a row: up and down to other changes, left and right among its buttons. */
function useMoves(): (event: React.KeyboardEvent<HTMLElement>) => void {
  const { commands } = useView();
  return event => {
    const { currentTarget, key, target } = event;
    if (!(target instanceof HTMLButtonElement) || event.altKey) {
      return;
    }
    const own = [...currentTarget.querySelectorAll<HTMLElement>(':scope > button')];
    const sibling = (step: number): void =>
      own.at((own.indexOf(target) + step) % own.length)?.focus();
    const moves: Record<string, () => void> = {
      ArrowDown: () => void commands.execute(CommandIDs.nextChange),
      ArrowUp: () => void commands.execute(CommandIDs.previousChange),
      ArrowLeft: () => sibling(-1),
      ArrowRight: () => sibling(1)
    };
    if (key in moves) {
      event.preventDefault();
      moves[key]();
    }
  };
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
      tabIndex={0}
      role="region"
      aria-label={trans.__('Rule %1', code)}
    >
      <Markdown text={text} />
    </div>
  );
}
