import React from 'react';

import { useSignal, useView } from './context';
import { Distribute } from './distribute';
import { CommandIDs } from './ids';
import { isConverted } from './model';
import { ModeChoice } from './modechoice';
import { RunHint } from './run';
import { Steps } from './steps';

/** One sentence about the outcome, and where nothing is to be shown, why. */
export function Summary(): JSX.Element {
  const { commands, session, trans } = useView();
  const model = session.model!;
  useSignal(model.changed);
  const { status } = model.conversion;
  if (status === 'converted') {
    const accepted = model.accepted.length;
    const changed = new Set(model.changes.map(change => change.cell)).size;
    const cells = trans._n('%1 cell', '%1 cells', changed);
    return (
      <header className="jp-hvd-summary">
        <h2>{session.path}</h2>
        <Steps />
        <p aria-live="polite">
          {accepted < model.changes.length
            ? trans._n(
                '%1 change in %2, %3 accepted',
                '%1 changes in %2, %3 accepted',
                model.changes.length,
                cells,
                accepted
              )
            : trans._n(
                '%1 change in %2',
                '%1 changes in %2',
                model.changes.length,
                cells
              )}
        </p>
        {session.isReadOnly && (
          <p className="jp-hvd-readOnly">
            {trans.__('This notebook is read-only: save a copy with the changes.')}
          </p>
        )}
        <ModeChoice />
        <Distribute />
      </header>
    );
  }
  const applied = session.notice === 'applied' || isConverted(model.conversion);
  const [title, text] = applied
    ? [
        trans.__('Converted'),
        trans.__('The notebook trains with Horovod. Existing outputs were kept.')
      ]
    : {
        unchanged: [
          trans.__('Nothing to convert'),
          trans.__('There is no TensorFlow training to distribute in this notebook.')
        ],
        refused: [
          trans.__('This notebook is not converted'),
          trans.__(
            'It could not be converted correctly; the findings say what to change.'
          )
        ],
        invalid: [
          trans.__('This notebook is not converted'),
          trans.__('It is not valid Python; the findings say where.')
        ]
      }[status];
  return (
    <header className={`jp-hvd-summary jp-hvd-mod-${applied ? 'applied' : status}`}>
      <h2>{title}</h2>
      {(applied || status !== 'unchanged' || model.diagnostics.length === 0) && (
        <p>{text}</p>
      )}
      {applied && <Steps />}
      {session.canUndo && (
        <button
          className="jp-hvd-link"
          onClick={() => void commands.execute(CommandIDs.undo)}
        >
          {trans.__('Undo')}
        </button>
      )}
      {status === 'refused' && <ModeChoice />}
      {applied && <RunHint />}
      {applied && <Distribute />}
    </header>
  );
}
