import React from 'react';

import { usePanel } from './context';
import { count } from './format';
import { IAdvice, IReport } from './report';

/** What can be done about the cost, each with a button where the kernel can do it. */
export function Advice({ report }: { report: IReport }): JSX.Element | null {
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
  const { reveal, said, trans } = usePanel();
  const { place } = advice;
  return (
    <li>
      {said(advice.message)}{' '}
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
          'Replace the code in the cell if both programs agree on random inputs'
        )}
        disabled={!model.isLive || (model.accepting !== null && !isChecked)}
        onClick={() => (isChecked ? model.cancel() : model.accept(advice.way))}
      >
        {isChecked ? trans.__('Cancel') : trans.__('Accept')}
      </button>
      <p role="status">
        {isChecked && trans.__('Running both programs on random inputs…')}
        {taken &&
          trans.__(
            'Replaced. Same result on %1 random inputs (difference at most %2 of the largest entry): value %3 → %4, gradient %5 → %6 operations. Run the cell to use it.',
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
