import React, { useState } from 'react';

import { MAX_WORKERS } from './cost';

/** A control with its label, and a line about it. */
export function Field(props: {
  label: string;
  help?: string;
  output?: string;
  children: React.ReactNode;
}): JSX.Element {
  return (
    <div className="jp-hvd-field">
      <label>
        <span>{props.label}</span>
        {props.children}
        {props.output && <output>{props.output}</output>}
      </label>
      {props.help && <p className="jp-hvd-help">{props.help}</p>}
    </div>
  );
}

/** A positive number, null where there is none. */
export function NumberInput(props: {
  value: number | null;
  step?: number;
  onChange: (value: number | null) => void;
}): JSX.Element {
  // A field that is cleared stays so while it is written in.
  const [typed, setTyped] = useState<string | null>(null);
  return (
    <input
      className="jp-mod-styled"
      type="number"
      min={0}
      step={props.step ?? 'any'}
      value={typed ?? props.value ?? ''}
      onChange={event => {
        const value = event.target.valueAsNumber;
        setTyped(event.target.value);
        props.onChange(value > 0 ? value : null);
      }}
      onBlur={() => setTyped(null)}
    />
  );
}

/** A slider on which equal distances are equal ratios. */
export function LogRange(props: {
  from: number;
  to: number;
  value: number;
  text: string;
  onChange: (value: number) => void;
}): JSX.Element {
  return (
    <input
      type="range"
      min={Math.log10(props.from)}
      max={Math.log10(props.to)}
      step="any"
      value={Math.log10(props.value)}
      aria-valuetext={props.text}
      onChange={event =>
        props.onChange(Number((10 ** event.target.valueAsNumber).toPrecision(2)))
      }
    />
  );
}

/** A number of workers; what is none stays to be corrected, and the last one counts. */
export function WorkersInput(props: {
  value: number;
  isDisabled?: boolean;
  onChange: (workers: number) => void;
}): JSX.Element {
  const [typed, setTyped] = useState<string | null>(null);
  const isValid = (workers: number): boolean =>
    Number.isInteger(workers) && workers >= 1 && workers <= MAX_WORKERS;
  return (
    <input
      className="jp-mod-styled"
      type="number"
      min={1}
      max={MAX_WORKERS}
      required
      value={typed ?? props.value}
      aria-invalid={typed !== null}
      disabled={props.isDisabled}
      onChange={event => {
        const workers = event.target.valueAsNumber;
        setTyped(isValid(workers) ? null : event.target.value);
        if (isValid(workers)) {
          props.onChange(workers);
        }
      }}
      onBlur={() => setTyped(null)}
    />
  );
}

/** A box for several choices at once: checked, mixed or not. */
export function MixedBox(props: {
  accepted: number;
  all: number;
  onChange: (isAccepted: boolean) => void;
}): JSX.Element {
  const { accepted, all, onChange } = props;
  return (
    <input
      type="checkbox"
      className="jp-mod-styled"
      checked={accepted === all}
      ref={box => box && (box.indeterminate = accepted > 0 && accepted < all)}
      onChange={event => onChange(event.target.checked)}
    />
  );
}
