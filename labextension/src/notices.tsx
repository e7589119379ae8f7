import React from 'react';

import { useView } from './context';
import { OptionsPanel } from './optionspanel';

/** The notebook has no conversion at all. */
export function Failure(): JSX.Element {
  const { said, session, trans } = useView();
  return (
    <div className="jp-hvd-state" role="alert">
      <h2>{trans.__('The notebook could not be converted')}</h2>
      <p>{said(session.error)}</p>
      <button
        className="jp-mod-styled jp-mod-accept"
        onClick={() => void session.convert()}
      >
        {trans.__('Try again')}
      </button>
      {Object.keys(session.ownOptions).length > 0 && <OptionsPanel />}
    </div>
  );
}

/** Why the notebook was not converted again; the diff below is the one before. */
export function ErrorBar(): JSX.Element {
  const { said, session, trans } = useView();
  return (
    <div className="jp-hvd-notice jp-hvd-mod-error" role="alert">
      {trans.__('Not converted again: %1', said(session.error))}
      <button className="jp-hvd-link" onClick={() => void session.convert()}>
        {trans.__('Try again')}
      </button>
    </div>
  );
}

/** What happened to the notebook while the diff stood open. */
export function NoticeBar(): JSX.Element {
  const { session, trans } = useView();
  const messages = {
    none: '',
    stale: trans.__('The notebook has changed; converting it again…'),
    refreshed: trans.__('The notebook changed. The diff is up to date.'),
    applied: trans.__('The changes are in the notebook.')
  };
  return (
    <div
      className={`jp-hvd-notice jp-hvd-mod-${session.notice}`}
      role="status"
      aria-live="polite"
    >
      {messages[session.notice]}
    </div>
  );
}
