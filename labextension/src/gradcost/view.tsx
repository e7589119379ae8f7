import { HTMLSelect } from '@jupyterlab/ui-components';
import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { useSignal } from '../context';
import { Comparison } from './compare';
import { usePanel } from './context';
import { Curves } from './curves';
import { Figures } from './figures';
import { count, time } from './format';
import { LinkState } from './link';
import { IAdvice, IMeasured, IReport, isCurrent } from './report';
import { Sliders } from './sliders';
import { Statements } from './statements';
import { Views } from './views';

/** The panel: sizes, then what can be done, then figures, curves and statements. */
export function View(): JSX.Element {
  const { model, trans } = usePanel();
  useSignal(model.changed);
  const { report } = model;
  if (!report) {
    const waiting = model.link.state === 'connecting';
    return (
      <div className="jp-hvd-gc-empty" role="status">
        {model.error ? (
          <pre>{model.error}</pre>
        ) : waiting ? (
          <p>{trans.__('Waiting for the kernel…')}</p>
        ) : (
          <p>{sayState(model.link.state, trans)}</p>
        )}
      </div>
    );
  }
  return (
    <>
      <Header report={report} />
      <Sliders report={report} />
      <Alert report={report} />
      <Sentence report={report} />
      <Advice report={report} />
      <Status report={report} />
      <Figures report={report} />
      <Curves report={report} />
      <Comparison report={report} />
      <Statements report={report} />
      <Views report={report} />
    </>
  );
}

function Header({ report }: { report: IReport }): JSX.Element {
  const { model, trans } = usePanel();
  const toggle = (name: string): void => {
    const wrt = report.differentiable.filter(x =>
      x === name ? !report.wrt.includes(x) : report.wrt.includes(x)
    );
    if (wrt.length > 0) {
      model.inspect(report.function, wrt);
    }
  };
  const { progress } = model;
  return (
    <header className="jp-hvd-gc-header">
      <h2>{trans.__('Gradient cost')}</h2>
      {report.functions.length > 0 ? (
        <HTMLSelect
          value={report.function}
          aria-label={trans.__('Function')}
          disabled={!model.isLive}
          onChange={event => model.inspect(event.target.value, [])}
        >
          {[...new Set([report.function, ...report.functions])].map(name => (
            <option key={name}>{name}</option>
          ))}
        </HTMLSelect>
      ) : (
        <code>{report.function}</code>
      )}
      <fieldset className="jp-hvd-gc-wrt" disabled={!model.isLive}>
        <legend>{trans.__('gradient with respect to')}</legend>
        {report.differentiable.map(name => (
          <label key={name} className="jp-hvd-gc-check">
            <input
              type="checkbox"
              checked={report.wrt.includes(name)}
              onChange={() => toggle(name)}
            />
            <code>{name}</code>
          </label>
        ))}
      </fieldset>
      <div className="jp-hvd-gc-measure">
        <progress
          max={progress?.total ?? 1}
          value={progress?.done ?? 0}
          aria-label={trans.__('Measurement')}
          style={{ visibility: progress ? 'visible' : 'hidden' }}
        />
        <button
          type="button"
          className={`jp-mod-styled ${progress ? 'jp-mod-warn' : 'jp-mod-accept'}`}
          disabled={!model.isLive}
          onClick={() => (progress ? model.cancel() : model.measure())}
        >
          {progress ? trans.__('Cancel') : trans.__('Measure')}
        </button>
      </div>
    </header>
  );
}

/** What the gradient costs, in one sentence. */
function Sentence({ report }: { report: IReport }): JSX.Element {
  const { trans } = usePanel();
  const { ratio, bound } = report.adjoint_ratio;
  const name = report.function;
  const by = report.wrt.join(', ');
  const operations = count(report.adjoint.total);
  return (
    <p className="jp-hvd-gc-sentence">
      {ratio === null
        ? trans.__('The gradient of %1 by %2 takes %3 operations.', name, by, operations)
        : trans.__(
            'The gradient of %1 by %2 takes %3 operations, %4 × the value (never above %5 ×).',
            name,
            by,
            operations,
            ratio.toFixed(2),
            bound
          )}
    </p>
  );
}

/** One line that is always there, so that nothing jumps. */
function Status({ report }: { report: IReport }): JSX.Element {
  const { model, trans } = usePanel();
  const { measured } = report;
  const words = [];
  if (!model.isLive) {
    words.push(sayState(model.link.state, trans));
  }
  if (model.isLate) {
    words.push(trans.__('The kernel is busy: it answers when its cell has run.'));
  }
  words.push(report.note);
  if (measured) {
    words.push(...sayMeasured(measured, isCurrent(report), trans));
  }
  return (
    <p className="jp-hvd-gc-status" role="status">
      {words.filter(Boolean).join(' ') || '\u00a0'}
    </p>
  );
}

/** The times, one figure each with its quartiles, and which gradient is faster, if that can be told. */
function sayMeasured(
  measured: IMeasured,
  isHere: boolean,
  trans: TranslationBundle
): string[] {
  const { at, device, dtype, repeats, value, adjoint } = measured;
  const spread = (median: number, quartiles?: number[] | null): string =>
    // Reports of before have none.
    quartiles
      ? trans.__('%1 (%2 to %3)', time(median), ...quartiles.map(time))
      : time(median);
  const words = [
    isHere
      ? trans.__('Measured on %1 in %2, %3 rounds in turn.', device, dtype, repeats)
      : trans.__(
          'Measured at %1 on %2 in %3, %4 rounds in turn.',
          at,
          device,
          dtype,
          repeats
        ),
    trans.__(
      'Value %1, gradient %2.',
      time(value),
      spread(adjoint, measured.adjoint_spread)
    )
  ];
  if (measured.jax_adjoint !== null) {
    const jax = spread(measured.jax_adjoint, measured.jax_spread);
    const sentences: Record<string, string> = {
      gradient: trans.__('jax.grad %1: this gradient is faster.', jax),
      'jax.grad': trans.__('jax.grad %1: jax.grad is faster.', jax),
      neither: trans.__('jax.grad %1: no difference.', jax),
      noisy: trans.__('jax.grad %1: too noisy to compare.', jax)
    };
    words.push(sentences[measured.faster] ?? trans.__('jax.grad %1.', jax));
  }
  return [...words, measured.note];
}

/** What went wrong, over what is below the sliders: the one in hand stays where it is. */
function Alert({ report }: { report: IReport }): JSX.Element {
  const { model } = usePanel();
  const error = model.error || report.error;
  return (
    <div className="jp-hvd-gc-alert">{error && <pre role="alert">{error}</pre>}</div>
  );
}

function sayState(state: LinkState, trans: TranslationBundle): string {
  return {
    live: '',
    connecting: trans.__('Waiting for the kernel…'),
    none: trans.__('These are the saved figures: the notebook has no kernel.'),
    gone: trans.__('The kernel was restarted. Run the cell again to continue.')
  }[state];
}

function Advice({ report }: { report: IReport }): JSX.Element | null {
  const { trans } = usePanel();
  if (report.advice.length === 0) {
    return null;
  }
  return (
    <section className="jp-hvd-gc-advice" aria-label={trans.__('Advice')}>
      <h3>{trans.__('Advice')}</h3>
      <ul>
        {report.advice.map((advice, i) => (
          <Item key={i} advice={advice} />
        ))}
      </ul>
    </section>
  );
}

function Item({ advice }: { advice: IAdvice }): JSX.Element {
  const { reveal, trans } = usePanel();
  const { place } = advice;
  return (
    <li>
      {advice.message}{' '}
      {place && (
        <button type="button" title={place.text.trim()} onClick={() => reveal(place)}>
          {trans.__('line %1', place.line)}
        </button>
      )}
      {advice.before && (
        <p>
          {advice.before} → <b>{advice.after}</b>
        </p>
      )}
      {advice.code && <pre tabIndex={0}>{advice.code}</pre>}
      {/* Reports of before have none. */}
      {(advice.way ?? -1) >= 0 && <Taking advice={advice} />}
    </li>
  );
}

/** Accept advice: the kernel compares both programs, and the line is in its cell. */
function Taking({ advice }: { advice: IAdvice }): JSX.Element {
  const { model, trans } = usePanel();
  const isChecked = model.accepting === advice.way;
  const taken = model.taken?.way === advice.way ? model.taken.change : null;
  return (
    <div className="jp-hvd-gc-take">
      <button
        type="button"
        className={`jp-mod-styled ${isChecked ? 'jp-mod-warn' : 'jp-mod-accept'}`}
        title={trans.__(
          'Put it into the cell, where both programs give the same on random values'
        )}
        disabled={!model.isLive || (model.accepting !== null && !isChecked)}
        onClick={() => (isChecked ? model.cancel() : model.accept(advice.way))}
      >
        {isChecked ? trans.__('Cancel') : trans.__('Accept')}
      </button>
      <p role="status">
        {isChecked && trans.__('Both programs are run on random values…')}
        {taken &&
          trans.__(
            'In the cell now, equal on %1 random inputs (to %2 of the largest entry): value %3 → %4, gradient %5 → %6 operations. Run the cell to go on with it; undo takes it back.',
            taken.draws,
            taken.difference.toExponential(0),
            count(taken.value[0]),
            count(taken.value[1]),
            count(taken.gradient[0]),
            count(taken.gradient[1])
          )}
      </p>
      {taken && (
        <button type="button" onClick={() => model.takeBack()}>
          {trans.__('Undo')}
        </button>
      )}
    </div>
  );
}
