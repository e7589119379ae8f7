import React, { useState } from 'react';

import { useView } from './context';
import { WorkersInput } from './fields';
import { CommandIDs } from './ids';
import { commandOf, OPEN_TERMINAL } from './terminal';

/** How a converted notebook is run on several ranks: in its own kernel it stays one. */
export function RunHint(): JSX.Element {
  const { commands, session, trans } = useView();
  const [copied, setCopied] = useState('');
  const command = commandOf(session);
  if (command === null) {
    return (
      <p className="jp-hvd-run">
        {trans.__(
          'To run the notebook, rename it: a terminal takes control characters in its name for keys.'
        )}
      </p>
    );
  }
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(command);
    setCopied(command);
  };
  return (
    <div className="jp-hvd-run">
      <p>
        {session.mode === 'global'
          ? trans.__(
              'In this kernel it trains as one process. In a terminal, it trains on several workers, with the same result:'
            )
          : trans.__(
              'In this kernel it trains as one process. In a terminal, it trains on several workers, with a larger batch:'
            )}
      </p>
      <code>{command}</code>
      <label>
        {trans.__('Workers')}
        <WorkersInput
          value={session.workers}
          onChange={workers => session.setWorkers(workers)}
        />
      </label>
      {commands.hasCommand(OPEN_TERMINAL) && (
        <button
          type="button"
          className="jp-mod-styled jp-mod-accept"
          onClick={() => void commands.execute(CommandIDs.runInTerminal)}
        >
          {trans.__('Run in a Terminal')}
        </button>
      )}
      <button type="button" className="jp-mod-styled" onClick={() => void copy()}>
        {trans.__('Copy Command')}
      </button>
      <p className="jp-hvd-help" role="status">
        {copied === command && trans.__('Copied: paste it into a terminal.')}
      </p>
    </div>
  );
}
