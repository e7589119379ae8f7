import React from 'react';

import { useSignal, useView } from './context';
import { Change } from './conversion';
import { RuleLink } from './findings';

/** The changes by rule, for notebooks in which one rule changes many lines: all of its changes are taken or left at once. */
export function RuleList(): JSX.Element {
  const { session, trans } = useView();
  const model = session.model!;
  useSignal(model.changed);
  const byRule = new Map<string, Change[]>();
  for (const change of model.choices) {
    byRule.set(change.rule, [...(byRule.get(change.rule) ?? []), change]);
  }
  return (
    <ul className="jp-hvd-rules">
      {[...byRule].map(([rule, changes]) => {
        const accepted = changes.filter(change => model.isAccepted(change)).length;
        return (
          <li key={rule}>
            <label>
              <input
                type="checkbox"
                className="jp-mod-styled"
                checked={accepted === changes.length}
                ref={box =>
                  box && (box.indeterminate = accepted > 0 && accepted < changes.length)
                }
                aria-label={trans.__('Accept all changes of %1', rule)}
                onChange={event => model.accept(changes, event.target.checked)}
              />
              <span>{changes[0].why}</span>
            </label>
            <span className="jp-hvd-count">{changes.length}</span>
            <RuleLink code={rule} />
          </li>
        );
      })}
    </ul>
  );
}
