import React from 'react';

import { useSignal, useView } from './context';
import { isConverted } from './model';

type State = 'done' | 'next' | 'running' | 'failed' | 'later';

const MARKS: Record<State, string> = {
  done: '✓',
  next: '●',
  running: '…',
  failed: '✗',
  later: '○'
};

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
    running: trans.__('running'),
    failed: trans.__('failed'),
    later: trans.__('later')
  };
  const { isBusy, checks } = session.verification;
  const checked = checks.filter(({ status }) => status !== 'running').length;
  const verified: State = isBusy
    ? 'running'
    : verdict === 'holds'
      ? 'done'
      : verdict === 'fails'
        ? 'failed'
        : 'next';
  const verify = (
    <VerifyStep
      title={
        isBusy
          ? trans._n('Verify (%1 check done)', 'Verify (%1 checks done)', checked)
          : trans.__('Verify')
      }
    />
  );
  const steps: [name: string, title: React.ReactNode, state: State][] = [
    [
      'review',
      applied
        ? trans.__('Review')
        : trans.__('Review (%1 of %2)', accepted, model.changes.length),
      'done'
    ],
    ['verify', verify, applied && verified === 'next' ? 'later' : verified],
    [
      'apply',
      trans.__('Apply'),
      applied ? 'done' : verified === 'done' ? 'next' : 'later'
    ],
    ['run', trans.__('Run'), applied ? 'next' : 'later']
  ];
  return (
    <ol className="jp-hvd-steps" aria-label={trans.__('Steps')}>
      {steps.map(([name, title, state]) => (
        <li
          key={name}
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

/** The step that verifies, which leads to the checks once there are some: in a narrow tab they stand below the diff. */
function VerifyStep({ title }: { title: string }): JSX.Element {
  const { session, trans } = useView();
  const { isBusy, verdict } = session.verification;
  if (!isBusy && verdict === null) {
    return <>{title}</>;
  }
  return (
    <button
      type="button"
      className="jp-hvd-link"
      title={trans.__('Show the checks')}
      onClick={({ currentTarget }) =>
        currentTarget
          .closest('.jp-hvd-columns')
          ?.querySelector('.jp-hvd-verification')
          ?.scrollIntoView()
      }
    >
      {title}
    </button>
  );
}
