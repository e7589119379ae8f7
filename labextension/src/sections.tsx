import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import React, { useEffect, useMemo, useState } from 'react';

import { CellEditor } from './celleditor';
import { useText, useView } from './context';
import { MixedBox } from './fields';
import { Markdown } from './markdown';
import { ICell } from './model';
import { IPlace } from './session';

/** A cell with changes or diagnostics. */
export function CellSection(props: {
  index: number;
  isFirst: boolean;
  isWide: boolean;
}): JSX.Element {
  const { index, isFirst, isWide } = props;
  const { session, trans } = useView();
  const model = session.model!;
  const changes = model.changesOf(index);
  const acceptance = useText(model.changed, () =>
    changes.map(change => Number(model.isAccepted(change))).join('')
  );
  const accepted = [...acceptance].filter(digit => digit === '1').length;
  const label = trans.__('Cell %1', index + 1);
  const isViewed =
    useText(session.viewed.changed, () => String(session.viewed.has(model, index))) ===
    'true';
  const isOpen = useSought(index, isViewed) || !isViewed;
  return (
    <section className="jp-hvd-cell" aria-label={label}>
      <header>
        <h3>{label}</h3>
        {changes.length > 1 && (
          <label className="jp-hvd-acceptCell">
            <MixedBox
              accepted={accepted}
              all={changes.length}
              onChange={isAccepted => model.accept(changes, isAccepted)}
            />
            {trans.__('Accept all of this cell')}
          </label>
        )}
        <label className="jp-hvd-viewed">
          <input
            type="checkbox"
            className="jp-mod-styled"
            checked={isViewed}
            onChange={event => session.viewed.mark(model, index, event.target.checked)}
          />
          {trans.__('Viewed')}
        </label>
      </header>
      <div hidden={!isOpen}>
        <CellEditor index={index} isFirst={isFirst} isWide={isWide} />
      </div>
    </section>
  );
}

/** Whether a line of a cell is to be shown, or something in it was found, since the cell was marked as viewed or not. */
function useSought(index: number, isViewed: boolean): boolean {
  const { search, session } = useView();
  const [sought, setSought] = useState(false);
  useEffect(() => setSought(false), [isViewed]);
  useEffect(() => {
    const find = (): void => {
      if (search.current?.cell === index) {
        setSought(true);
      }
    };
    const reveal = (_: unknown, place: IPlace): void => {
      if (place.cell === index) {
        setSought(true);
      }
    };
    search.changed.connect(find);
    session.revealed.connect(reveal);
    return () => {
      search.changed.disconnect(find);
      session.revealed.disconnect(reveal);
    };
  }, [search, session, index]);
  return sought;
}

/** Cells without changes, folded until they are asked for. */
export function FoldSection(props: { from: number; to: number }): JSX.Element {
  const { search, session, trans } = useView();
  const model = session.model!;
  const [open, setOpen] = useState(false);
  const cells = useMemo(
    () => model.cells.slice(props.from, props.to + 1),
    [model, props.from, props.to]
  );
  useEffect(() => {
    const unfold = (): void => {
      const cell = search.current?.cell ?? -1;
      if (props.from <= cell && cell <= props.to) {
        setOpen(true);
      }
    };
    search.changed.connect(unfold);
    return () => void search.changed.disconnect(unfold);
  }, [search, props.from, props.to]);
  const heading = headingOf(cells);
  const Caret = open ? caretDownIcon.react : caretRightIcon.react;
  return (
    <section className="jp-hvd-fold">
      <button aria-expanded={open} onClick={() => setOpen(!open)}>
        <Caret tag="span" width="16px" />
        {trans._n('%1 unchanged cell', '%1 unchanged cells', cells.length)}
        {heading && <span className="jp-hvd-heading">{heading}</span>}
      </button>
      {open &&
        cells.map((cell, i) =>
          cell.type === 'markdown' ? (
            <Markdown key={cell.id} text={cell.source} />
          ) : (
            <div className="jp-hvd-cell" key={cell.id}>
              <CellEditor index={props.from + i} isFirst={false} isWide={false} />
            </div>
          )
        )}
    </section>
  );
}

/** The last heading in some cells: the one under which what follows stands. */
function headingOf(cells: readonly ICell[]): string {
  const headings = cells
    .filter(cell => cell.type === 'markdown')
    .flatMap(cell => cell.source.match(/^#{1,6} .*$/gm) ?? []);
  return headings.at(-1)?.replace(/^#+ /, '') ?? '';
}
