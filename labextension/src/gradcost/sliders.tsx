import React, { useEffect, useId, useState } from 'react';

import { usePanel } from './context';
import { IReport, ISlider } from './report';

const STEPS = 480;

/** A slider for every size; equal sizes that belong together are one. */
export function Sliders({ report }: { report: IReport }): JSX.Element | null {
  const { model, trans } = usePanel();
  if (report.sliders.length === 0) {
    return null;
  }
  const tied = report.sliders.some(slider => slider.names.length > 1);
  return (
    <section className="jp-hvd-gc-sliders" aria-label={trans.__('Sizes')}>
      {report.sliders.map(slider => (
        <SizeSlider key={slider.name} slider={slider} />
      ))}
      {(tied || !report.linked) && (
        <label className="jp-hvd-gc-check">
          <input
            type="checkbox"
            checked={report.linked}
            disabled={!model.isLive}
            onChange={event => model.setLinked(event.target.checked)}
          />
          {trans.__('Equal sizes move together')}
        </label>
      )}
    </section>
  );
}

/** A slider on which equal ways are equal ratios, and a field for the exact number. */
function SizeSlider({ slider }: { slider: ISlider }): JSX.Element {
  const { model, trans } = usePanel();
  const [draft, setDraft] = useState<number | null>(null);
  const [typed, setTyped] = useState<string | null>(null);
  const id = useId();
  useEffect(() => {
    if (!model.isPending) {
      setDraft(null);
    }
  }, [slider.value, model.isPending, model.error]);
  const value = draft ?? slider.value;
  const disabled = !model.isLive || slider.fixed !== '';
  const move = (to: number): void => {
    const within = Math.min(Math.max(Math.round(to), slider.low), slider.high);
    setDraft(within);
    model.resize({ [slider.name]: within });
  };
  const enter = (): void => {
    const entered = Number(typed);
    if (typed !== null && entered >= 1) {
      move(entered);
    }
    setTyped(null);
  };
  const octaves = Math.log2(slider.high / slider.low);
  return (
    <div className="jp-hvd-gc-slider">
      <label htmlFor={id} title={slider.names.join(' = ')}>
        {slider.names.join(' = ')}
      </label>
      <input
        id={id}
        type="range"
        min={0}
        max={STEPS}
        step="any"
        value={(Math.log2(value / slider.low) / octaves) * STEPS}
        aria-valuetext={String(value)}
        disabled={disabled}
        onChange={event =>
          move(slider.low * 2 ** ((event.target.valueAsNumber / STEPS) * octaves))
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
        aria-label={trans.__('%1, exactly', slider.name)}
        min={slider.low}
        max={slider.high}
        value={typed ?? value}
        disabled={disabled}
        onChange={event => setTyped(event.target.value)}
        onBlur={enter}
        onKeyDown={event => event.key === 'Enter' && enter()}
      />
      <span className="jp-hvd-gc-fixed">
        {slider.fixed && trans.__('fixed by the data of %1', slider.fixed)}
      </span>
    </div>
  );
}
