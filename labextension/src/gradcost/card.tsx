import React from 'react';

import { Words } from './blocks';
import { usePanel } from './context';
import { Card as ICard } from './view.schema';

/** Something to do about the cost, with a button where the kernel can do it. */
export function Card({ card }: { card: ICard }): JSX.Element {
  const { text, detail, code, change } = card;
  return (
    <article className="jp-hvd-gc-card">
      <p>
        <Words text={text} />
      </p>
      {detail && (
        <p>
          <Words text={detail} />
        </p>
      )}
      {code && <pre tabIndex={0}>{code}</pre>}
      {typeof change === 'number' && <Taking way={change} />}
    </article>
  );
}

/** Accept advice: the kernel compares both programs, and the line is in its cell. */
function Taking({ way }: { way: number }): JSX.Element {
  const { model, said, trans } = usePanel();
  const isChecked = model.accepting === way;
  const taken = model.taken?.way === way ? model.taken.change : null;
  return (
    <div className="jp-hvd-gc-action">
      <button
        type="button"
        className={`jp-mod-styled ${isChecked ? 'jp-mod-warn' : 'jp-mod-accept'}`}
        title={trans.__(
          'Replace the code in the cell if both programs agree on random inputs'
        )}
        disabled={!model.isLive || (model.accepting !== null && !isChecked)}
        onClick={() => (isChecked ? model.cancel() : model.accept(way))}
      >
        {isChecked ? trans.__('Cancel') : trans.__('Accept')}
      </button>
      <p role="status">
        {isChecked && trans.__('Running both programs on random inputs…')}
        {taken && said(taken.message)}
      </p>
      {taken && (
        <button type="button" onClick={() => model.takeBack()}>
          {trans.__('Undo')}
        </button>
      )}
    </div>
  );
}
