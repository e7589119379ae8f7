import { HTMLSelect } from '@jupyterlab/ui-components';
import React from 'react';

import { useSignal } from '../context';
import { Advice } from './advice';
import { Comparison } from './compare';
import { usePanel } from './context';
import { Curves } from './curves';
import { Figures } from './figures';
import { count } from './format';
import { IReport } from './report';
import { Sliders } from './sliders';
import { Statements } from './statements';
import { sayState, Status } from './status';
import { Views } from './views';

/** The panel: sizes, then what can be done, then figures, curves and statements. */
export function View(): JSX.Element {
  const { model, said, trans } = usePanel();
  useSignal(model.changed);
  const { report } = model;
  if (!report) {
    const waiting = model.link.state === 'connecting';
    return (
      <div className="jp-hvd-gc-empty" role="status">
        {model.error ? (
          <pre>{said(model.error)}</pre>
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
    <div className="jp-hvd-gc-header">
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
    </div>
  );
}

/** What the gradient costs, in one sentence. */
function Sentence({ report }: { report: IReport }): JSX.Element {
  const { trans } = usePanel();
  const { ratio, bound } = report.adjoint_ratio;
  const name = report.function;
  const by = report.wrt.join(', ');
  const total = report.adjoint.total ?? 0;
  return (
    <p className="jp-hvd-gc-sentence">
      {ratio === null
        ? trans._n(
            'The gradient of %2 by %3: %4 operation.',
            'The gradient of %2 by %3: %4 operations.',
            total,
            name,
            by,
            count(report.adjoint.total)
          )
        : trans._n(
            'The gradient of %2 by %3: %4 operation, %5 × the value (never above %6 ×).',
            'The gradient of %2 by %3: %4 operations, %5 × the value (never above %6 ×).',
            total,
            name,
            by,
            count(report.adjoint.total),
            ratio.toFixed(2),
            bound
          )}
    </p>
  );
}

/** What went wrong, over what is below the sliders: the one in hand stays where it is. */
function Alert({ report }: { report: IReport }): JSX.Element {
  const { model, said } = usePanel();
  const error = said(model.error || report.error);
  return (
    <div className="jp-hvd-gc-alert">{error && <pre role="alert">{error}</pre>}</div>
  );
}
