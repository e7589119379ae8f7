import { HTMLSelect } from '@jupyterlab/ui-components';
import React, { useEffect, useState } from 'react';

import { useSignal, useView } from './context';
import { Options } from './conversion';
import { choosing, OptionName } from './options';

/** What the notebook says about its own conversion; the settings count where it says nothing. */
export function OptionsPanel(): JSX.Element {
  const { session, trans } = useView();
  useSignal(session.changed);
  const { mode, ownOptions } = session;
  const choose = <K extends OptionName>(name: K, value: Options[K] | undefined): void =>
    session.setOwnOptions(choosing(ownOptions, name, value));
  return (
    <div className="jp-hvd-options">
      {mode === 'per-rank' && (
        <Whole
          label={trans.__('Warm-up epochs')}
          least={0}
          value={ownOptions.warmup_epochs}
          onChange={value => choose('warmup_epochs', value)}
        />
      )}
      <Choice
        label={trans.__('Guard')}
        value={ownOptions.guard}
        choices={yesNo(trans.__('yes'), trans.__('no'))}
        onChange={value => choose('guard', flag(value))}
      />
      <p className="jp-hvd-help">
        {trans.__(
          'Saved in this notebook, for its conversion and verification. Guard: stop workers that diverge while they train.'
        )}
      </p>
      {Object.keys(ownOptions).length > 0 && (
        <button
          type="button"
          className="jp-hvd-link"
          onClick={() => session.setOwnOptions({})}
        >
          {trans.__('Reset to defaults')}
        </button>
      )}
    </div>
  );
}

function flag(value: string): boolean | undefined {
  return value === '' ? undefined : value === 'true';
}

function yesNo(yes: string, no: string): [string, string][] {
  return [
    ['true', yes],
    ['false', no]
  ];
}

function Choice(props: {
  label: string;
  value: unknown;
  choices: readonly [value: string, text: string][];
  onChange: (value: string) => void;
}): JSX.Element {
  const { trans } = useView();
  return (
    <div className="jp-hvd-field">
      <label>
        {props.label}
        <HTMLSelect
          value={String(props.value ?? '')}
          onChange={event => props.onChange(event.target.value)}
        >
          <option value="">{trans.__('from the settings')}</option>
          {props.choices.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </HTMLSelect>
      </label>
    </div>
  );
}

/** A whole number, taken when it is entered; nothing means the settings' one. */
function Whole(props: {
  label: string;
  least: number;
  value: number | undefined;
  onChange: (value: number | undefined) => void;
}): JSX.Element {
  const { trans } = useView();
  const [typed, setTyped] = useState<string | null>(null);
  useEffect(() => setTyped(null), [props.value]);
  const entered = typed === null || typed === '' ? undefined : Number(typed);
  const isValid =
    entered === undefined || (Number.isInteger(entered) && entered >= props.least);
  // What is no such number stays to be corrected.
  const enter = (): void => {
    if (typed !== null && isValid) {
      if (entered !== props.value) {
        props.onChange(entered);
      }
      setTyped(null);
    }
  };
  return (
    <div className="jp-hvd-field">
      <label>
        {props.label}
        <input
          className="jp-mod-styled"
          type="number"
          min={props.least}
          step={1}
          placeholder={trans.__('from the settings')}
          value={typed ?? props.value ?? ''}
          aria-invalid={!isValid}
          onChange={event => setTyped(event.target.value)}
          onBlur={enter}
          onKeyDown={event => event.key === 'Enter' && enter()}
        />
      </label>
      {!isValid && (
        <p className="jp-hvd-help jp-hvd-invalid" role="alert">
          {trans.__('A whole number, %1 or more.', props.least)}
        </p>
      )}
    </div>
  );
}
