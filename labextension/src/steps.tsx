import React from 'react';

import { useSignal, useView } from './context';
import { isConverted } from './model';

type State = 'done' | 'next' | 'failed' | 'later';

const MARKS: Record<State, string> = { done: '✓', next: '●', failed: '✗', later: '○' };

/** The way from a notebook to its training on several ranks, and how far it has been gone. */
export function Steps(): JSX.Element {
  const { session, trans } = useView();
  useSignal(session.model?.changed);
  useSignal(session.verification.changed);
  const model = session.model!;
  const applied = isConverted(model.conversion);
  const verdict = session.isVerdictCurrent ? session.verification.state : null;
  const accepted = model.accepted.length;
  const names: Record<State, string> = {
    done: trans.__('done'),
    next: trans.__('next'),
    failed: trans.__('failed'),
    later: trans.__('later')
  };
  const verified: State =
    verdict === 'holds' ? 'done' : verdict === 'fails' ? 'failed' : 'next';
  const steps: [title: string, state: State][] = [
    [
      applied
        ? trans.__('Review')
        : trans.__('Review (%1 of %2)', accepted, model.changes.length),
      'done'
    ],
    [trans.__('Verify'), applied && verified === 'next' ? 'later' : verified],
    [trans.__('Apply'), applied ? 'done' : verified === 'done' ? 'next' : 'later'],
    [trans.__('Run'), applied ? 'next' : 'later']
  ];
  return (
    <ol className="jp-hvd-steps" aria-label={trans.__('Steps')}>
      {steps.map(([title, state]) => (
        <li
          key={title}
          className={`jp-hvd-mod-${state}`}
          aria-current={state === 'next' ? 'step' : undefined}
        >
          <span role="img" aria-label={names[state]}>
            {MARKS[state]}
          </span>{' '}
          {title}
        </li>
      ))}
    </ol>
  );
}
