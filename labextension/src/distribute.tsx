import React from 'react';

import { useSignal, useView } from './context';
import { distributed, isDistributed, MAGIC } from './distributed';
import { WorkersInput } from './fields';
import { CommandIDs } from './ids';
import { isConverted } from './model';

/** Training on several workers from the notebook itself, by `%%distribute` on the cells that train. */
export function Distribute(): JSX.Element | null {
  const { commands, session, trans } = useView();
  useSignal(session.changed);
  const model = session.model!;
  const { mode, workers } = session;
  const training = session.trainingCells;
  const isApplied = isConverted(model.conversion);
  if (training.length === 0 || session.isReadOnly || (isApplied && !session.canUndo)) {
    return null;
  }
  const sources = training.map(index => model.cells[index].source);
  const isOn = sources.every(isDistributed);
  const isSame = sources.every(source => source === distributed(source, workers, mode));
  const cells = trans._n(
    'cell %2',
    'cells %2',
    training.length,
    training.map(index => index + 1).join(', ')
  );
  const sentence = isOn
    ? trans.__(
        '%1 is on %2. Run the notebook: this training runs on the workers, all else in the kernel.',
        MAGIC,
        cells
      )
    : isApplied
      ? trans.__(
          'Or without a terminal: undo the changes and put %1 on %2, which then trains on workers that the notebook starts.',
          MAGIC,
          cells
        )
      : trans.__(
          'Without changing your code: %1 on %2 trains on workers that the notebook starts, in the mode above.',
          MAGIC,
          cells
        );
  return (
    <section className="jp-hvd-run" aria-label={trans.__('Run in this notebook')}>
      <p>{sentence}</p>
      {!isApplied && (
        <label>
          {trans.__('Workers')}
          <WorkersInput value={workers} onChange={chosen => session.setWorkers(chosen)} />
        </label>
      )}
      {!isSame && (
        <button
          type="button"
          className="jp-mod-styled"
          onClick={() => void commands.execute(CommandIDs.distribute)}
        >
          {isOn
            ? trans._n('Change to %1 Worker', 'Change to %1 Workers', workers)
            : trans.__('Use %1', MAGIC)}
        </button>
      )}
      {isOn && (
        <button
          type="button"
          className="jp-mod-styled"
          onClick={() => void commands.execute(CommandIDs.undistribute)}
        >
          {trans.__('Remove %1', MAGIC)}
        </button>
      )}
    </section>
  );
}
