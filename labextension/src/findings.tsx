import React, { useRef } from 'react';

import { useView } from './context';
import { Diagnostic } from './conversion';
import { CommandIDs } from './ids';
import { useRovingFocus } from './roving';

/** A rule's code, which opens the rule's page. */
export function RuleLink({ code }: { code: string }): JSX.Element {
  const { commands, trans } = useView();
  return (
    <button
      className="jp-hvd-link jp-hvd-code"
      title={trans.__('Show the page of rule %1', code)}
      onClick={() => void commands.execute(CommandIDs.showRule, { code })}
    >
      {code}
    </button>
  );
}

/** A place in the notebook, which a click shows. */
export function PlaceLink(props: { cell: number | null; line: number }): JSX.Element {
  const { session, trans } = useView();
  const { cell, line } = props;
  return (
    <button
      className="jp-hvd-link"
      title={trans.__('Show the line')}
      onClick={() => session.reveal({ cell: cell ?? 0, line })}
    >
      {cell === null
        ? trans.__('line %1', line)
        : trans.__('cell %1, line %2', cell + 1, line)}
    </button>
  );
}

export function DiagnosticList(props: {
  diagnostics: readonly Diagnostic[];
}): JSX.Element {
  const { said, trans } = useView();
  const list = useRef<HTMLUListElement>(null);
  useRovingFocus(list);
  const names = {
    error: trans.__('Error'),
    warning: trans.__('Warning'),
    info: trans.__('Information')
  };
  return (
    <ul ref={list} className="jp-hvd-diagnostics">
      {props.diagnostics.map((found, i) => (
        <li key={i} className={`jp-hvd-mod-${found.severity}`}>
          <span
            className={`jp-hvd-mark jp-hvd-mod-${found.severity}`}
            role="img"
            aria-label={names[found.severity]}
          />
          <div>
            <RuleLink code={found.code} />{' '}
            <PlaceLink cell={found.cell} line={found.line} />
            <p>{said(found.message)}</p>
            {found.help && <p className="jp-hvd-help">{said(found.help)}</p>}
          </div>
        </li>
      ))}
    </ul>
  );
}
