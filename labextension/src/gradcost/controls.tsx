import { HTMLSelect } from '@jupyterlab/ui-components';
import React, { useEffect, useId, useState } from 'react';

import { usePanel } from './context';
import { Action as IAction, Choice as IChoice, Slider } from './view.schema';

const STEPS = 480;

/** Some of several options, or one; what was chosen counts at once, and does not wait for the kernel. */
export function Choice({ choice }: { choice: IChoice }): JSX.Element {
  const { model, said } = usePanel();
  const { label, options, ask, field } = choice;
  const [draft, setDraft] = useState<readonly string[] | null>(null);
  useEffect(() => setDraft(null), [choice.chosen.join(), model.isLive, model.error]);
  const chosen = draft ?? choice.chosen;
  if (choice.single) {
    return (
      <HTMLSelect
        value={chosen[0]}
        aria-label={said(label)}
        disabled={!model.isLive}
        onChange={event => model.ask({ ...ask, [field]: event.target.value })}
      >
        {options.map(option => (
          <option key={option}>{option}</option>
        ))}
      </HTMLSelect>
    );
  }
  const toggle = (option: string): void => {
    const wanted = options.filter(x => (x === option) !== chosen.includes(x));
    if (wanted.length >= (choice.least ?? 0)) {
      setDraft(wanted);
      model.ask({ ...ask, [field]: wanted });
    }
  };
  return (
    <fieldset className="jp-hvd-gc-choice" disabled={!model.isLive}>
      {label && <legend>{said(label)}</legend>}
      {options.map(option => (
        <label key={option} className="jp-hvd-gc-check">
          <input
            type="checkbox"
            checked={chosen.includes(option)}
            onChange={() => toggle(option)}
          />
          {label ? <code>{option}</code> : said(option)}
        </label>
      ))}
    </fieldset>
  );
}

/** A button that asks the kernel; one with progress shows and cancels the measurement that runs. */
export function Action({ action }: { action: IAction }): JSX.Element {
  const { model, said, trans } = usePanel();
  const { text, title, ask, measures } = action;
  const progress = measures ? model.progress : null;
  const cancels = action.progress && progress !== null;
  return (
    <div className="jp-hvd-gc-action">
      {action.progress && (
        <progress
          max={progress?.total ?? 1}
          value={progress?.done ?? 0}
          aria-label={trans.__('Measurement')}
          style={{ visibility: progress ? 'visible' : 'hidden' }}
        />
      )}
      <button
        type="button"
        className={`jp-mod-styled ${cancels ? 'jp-mod-warn' : action.progress ? 'jp-mod-accept' : ''}`}
        title={title && said(title)}
        disabled={!model.isLive || (progress !== null && !cancels)}
        onClick={() =>
          cancels
            ? model.cancel()
            : measures
              ? model.measure({ ...ask })
              : model.ask({ ...ask })
        }
      >
        {cancels ? trans.__('Cancel') : said(text)}
      </button>
    </div>
  );
}

/** A slider on which equal ways are equal ratios, and a field for the exact number. */
export function SizeSlider({ slider }: { slider: Slider }): JSX.Element {
  const { model, said, trans } = usePanel();
  const [draft, setDraft] = useState<number | null>(null);
  const [typed, setTyped] = useState<string | null>(null);
  const id = useId();
  useEffect(() => {
    if (!model.isPending) {
      setDraft(null);
    }
  }, [slider.value, model.isPending, model.error]);
  const { name, label, low, high, note } = slider;
  const value = draft ?? slider.value;
  const disabled = !model.isLive || Boolean(note);
  const move = (to: number): void => {
    const within = Math.min(Math.max(Math.round(to), low), high);
    setDraft(within);
    model.resize({ [name]: within });
  };
  const enter = (): void => {
    const entered = Number(typed);
    if (typed !== null && entered >= 1) {
      move(entered);
    }
    setTyped(null);
  };
  const octaves = Math.log2(high / low);
  return (
    <div className="jp-hvd-gc-slider">
      <label htmlFor={id} title={label}>
        {label}
      </label>
      <input
        id={id}
        type="range"
        min={0}
        max={STEPS}
        step="any"
        value={(Math.log2(value / low) / octaves) * STEPS}
        aria-valuetext={String(value)}
        disabled={disabled}
        onChange={event =>
          move(low * 2 ** ((event.target.valueAsNumber / STEPS) * octaves))
        }
        onKeyDown={event => {
          // Without a step of its own, a key would move by a hundredth of the way: never by one.
          const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[
            event.key
          ];
          const page = { PageUp: 2, PageDown: 0.5 }[event.key];
          if (by !== undefined || page !== undefined) {
            event.preventDefault();
            move(by !== undefined ? value + by : value * page!);
          }
        }}
      />
      <input
        type="number"
        className="jp-mod-styled"
        aria-label={trans.__('%1, exactly', name)}
        min={low}
        max={high}
        value={typed ?? value}
        disabled={disabled}
        onChange={event => setTyped(event.target.value)}
        onBlur={enter}
        onKeyDown={event => event.key === 'Enter' && enter()}
      />
      <span className="jp-hvd-gc-fixed">{note && said(note)}</span>
    </div>
  );
}
