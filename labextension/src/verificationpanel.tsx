import React, { useEffect, useState } from 'react';

import { useSignal, useView } from './context';
import { VerifyCheck } from './conversion';
import { WorkersInput } from './fields';
import { CommandIDs } from './ids';
import { VerificationState } from './verification';

/** That a verification goes on: for how long, and how many of its checks are done. */
function Running({ checks }: { checks: readonly VerifyCheck[] }): JSX.Element {
  const { trans } = useView();
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const start = performance.now();
    const timer = setInterval(
      () => setSeconds(Math.round((performance.now() - start) / 1000)),
      1000
    );
    return () => clearInterval(timer);
  }, []);
  const done = checks.filter(({ status }) => status !== 'running').length;
  return (
    <>
      <progress aria-label={trans.__('Verification')} />
      <p className="jp-hvd-help">
        {trans._n('%2 s, %1 check done', '%2 s, %1 checks done', done, seconds)}
      </p>
    </>
  );
}

const MARKS = { running: '…', pass: '✓', fail: '✗', unknown: '?' };

/** The table of `jupyter hvd verify`, as it fills. */
export function VerificationPanel(): JSX.Element {
  const { commands, said, session, trans } = useView();
  const { verification, workers } = session;
  useSignal(verification.changed);
  useSignal(session.changed);
  useSignal(session.model?.changed);
  const running = verification.isBusy;
  const { verdict } = verification;
  const isStale = verdict !== null && !session.isVerdictCurrent;
  const message = said(verification.message);
  const verified = verification.subject?.ranks ?? workers;
  const names = {
    running: trans.__('running'),
    pass: trans.__('passed'),
    fail: trans.__('failed'),
    unknown: trans.__('unknown')
  };
  const verdicts: Record<VerificationState, string> = {
    idle:
      session.mode === 'global'
        ? trans.__(
            'Runs the notebook on the server, in one process and on the workers, to its end, and compares the results.'
          )
        : trans.__(
            'Runs the notebook and its conversion on the server, in one process and on the workers, to their end, and compares the results.'
          ),
    waiting: trans.__('Waiting for the verification of another notebook…'),
    running: trans._n('Verifying on %1 worker…', 'Verifying on %1 workers…', verified),
    holds:
      message ||
      trans._n(
        'The conversion holds on %1 worker.',
        'The conversion holds on %1 workers.',
        verified
      ),
    fails: message || trans.__('The conversion does not hold.'),
    undecided: message,
    cancelled: trans.__('Cancelled.'),
    confirm: message,
    error: message
  };
  const model = session.model!;
  const isPartial = model.accepted.length < model.changes.length;
  return (
    <div
      className={`jp-hvd-verification ${isStale ? 'jp-hvd-mod-stale' : ''}`}
      aria-busy={running}
    >
      <form
        hidden={model.changes.length === 0}
        onSubmit={event => {
          event.preventDefault();
          void commands.execute(CommandIDs.verify, { ranks: workers });
        }}
      >
        <label>
          {trans.__('Workers')}
          <WorkersInput
            value={workers}
            isDisabled={running}
            onChange={chosen => session.setWorkers(chosen)}
          />
        </label>
        {/* Two elements: one that becomes a submit button while it is clicked would submit. */}
        {running ? (
          <button
            key="cancel"
            type="button"
            className="jp-mod-styled"
            onClick={() => void commands.execute(CommandIDs.cancelVerification)}
          >
            {trans.__('Cancel')}
          </button>
        ) : (
          <button key="verify" type="submit" className="jp-mod-styled">
            {trans._n('Verify on %1 worker', 'Verify on %1 workers', workers)}
          </button>
        )}
      </form>
      {running && <Running checks={verification.checks} />}
      {isPartial && (
        <p className="jp-hvd-help">
          {trans._n(
            'Verified as it would be applied: with %1 change of %2.',
            'Verified as it would be applied: with %1 changes of %2.',
            model.accepted.length,
            model.changes.length
          )}
        </p>
      )}
      {verification.checks.length > 0 && (
        <table>
          <tbody>
            {verification.checks.map(check => (
              <tr key={check.check} className={`jp-hvd-mod-${check.status}`}>
                <td>
                  <span role="img" aria-label={names[check.status]}>
                    {MARKS[check.status]}
                  </span>
                </td>
                <th scope="row">{said(check.check)}</th>
                <td>{said(check.detail)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p className={`jp-hvd-verdict jp-hvd-mod-${verification.state}`} role="status">
        {isStale
          ? trans.__('Before your last change: %1', verdicts[verification.state])
          : verdicts[verification.state]}
        {verdict !== null && (
          <time dateTime={new Date(verdict.time).toISOString()}>
            {new Date(verdict.time).toLocaleTimeString([], {
              hour: '2-digit',
              minute: '2-digit'
            })}
          </time>
        )}
      </p>
      {verification.state === 'confirm' && (
        <button
          type="button"
          className="jp-mod-styled"
          onClick={() =>
            void commands.execute(CommandIDs.verify, { ranks: workers, confirmed: true })
          }
        >
          {trans.__('Copy all files and verify')}
        </button>
      )}
    </div>
  );
}
