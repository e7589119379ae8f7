import React, { useState } from 'react';

import { useSignal, useView } from './context';
import { MAX_WORKERS } from './cost';
import { CommandIDs } from './ids';
import { VerificationState } from './verification';

const MARKS = { running: '…', pass: '✓', fail: '✗', unknown: '?' };

/** The table of `jupyter hvd verify`, as it fills. */
export function VerificationPanel(props: { ranks: number }): JSX.Element {
  const { commands, session, trans } = useView();
  const { verification } = session;
  useSignal(verification.changed);
  useSignal(session.changed);
  useSignal(session.model?.changed);
  const [ranks, setRanks] = useState(props.ranks);
  const running = verification.state === 'running';
  const names = {
    running: trans.__('running'),
    pass: trans.__('passed'),
    fail: trans.__('failed'),
    unknown: trans.__('unknown')
  };
  const verdicts: Record<VerificationState, string> = {
    idle:
      session.chosenOptions.batch === 'global'
        ? trans.__(
            'Runs the notebook on the server, in one process and on the ranks, to its end, and compares the results.'
          )
        : trans.__(
            'Runs the notebook and its conversion for a few steps on the server, and compares them.'
          ),
    running: trans.__('Verifying on %1 ranks…', ranks),
    holds: verification.message || trans.__('The conversion holds.'),
    fails: verification.message || trans.__('The conversion does not hold.'),
    undecided: verification.message,
    cancelled: trans.__('Cancelled.'),
    confirm: verification.message,
    error: verification.message
  };
  const isPartial =
    session.model && session.model.accepted.length < session.model.changes.length;
  return (
    <div className="jp-hvd-verification" aria-busy={running}>
      <form
        onSubmit={event => {
          event.preventDefault();
          void commands.execute(CommandIDs.verify, { ranks });
        }}
      >
        <label>
          {trans.__('Ranks')}
          <input
            className="jp-mod-styled"
            type="number"
            min={1}
            max={MAX_WORKERS}
            required
            value={ranks || ''}
            disabled={running}
            onChange={event => setRanks(event.target.valueAsNumber)}
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
          <button key="verify" type="submit" className="jp-mod-styled jp-mod-accept">
            {trans._n('Verify on %1 rank', 'Verify on %1 ranks', ranks || 0)}
          </button>
        )}
      </form>
      {running && <progress aria-label={trans.__('Verification')} />}
      {isPartial && (
        <p className="jp-hvd-help">
          {trans.__('All changes are verified together, also those that are left out.')}
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
                <th scope="row">{check.check}</th>
                <td>{check.detail}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p className={`jp-hvd-verdict jp-hvd-mod-${verification.state}`} role="status">
        {verdicts[verification.state]}
      </p>
      {verification.state === 'confirm' && (
        <button
          type="button"
          className="jp-mod-styled"
          onClick={() =>
            void commands.execute(CommandIDs.verify, { ranks, confirmed: true })
          }
        >
          {trans.__('Copy it all')}
        </button>
      )}
    </div>
  );
}
