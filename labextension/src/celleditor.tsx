import React, { useEffect, useMemo, useRef, useState } from 'react';
import { createPortal } from 'react-dom';

import { ChangeRow } from './changerow';
import { useSignal, useView } from './context';
import { Change } from './conversion';
import { createDiff, createText, createUnified, ICellEditor } from './editors';
import { IHunkRow } from './hunkrows';
import { ConversionModel } from './model';
import { IPlace } from './session';

/**
 * The cell's text.
 *
 * The editors are there only while the cell is near the screen: each costs time whenever
 * anything scrolls, and a notebook may have hundreds of cells. The first ones need not wait for that to be found.
 */
export function CellEditor(props: {
  index: number;
  isFirst: boolean;
  isWide: boolean;
}): JSX.Element {
  const { index, isFirst, isWide } = props;
  const { buttons, session, language, search, settings, trans } = useView();
  useSignal(settings.changed);
  const { wrap } = settings;
  const model = session.model!;
  const { source } = model.cells[index];
  const after = model.resultOf(index);
  const rows = useMemo(() => rowsOf(model, index), [model, index]);
  const node = useRef<HTMLDivElement>(null);
  const editor = useRef<ICellEditor | null>(null);
  const wanted = useRef<IPlace | null>(null);
  const lines = Math.max(source.split('\n').length, after.split('\n').length);
  const height = useRef(lines * LINE_HEIGHT);
  const [near, setNear] = useState(isFirst);

  useEffect(() => whenNear(node.current!, isFirst, setNear), []);

  useEffect(() => {
    if (!near) {
      return;
    }
    const parent = node.current!;
    const options = {
      language,
      diagnostics: model.diagnosticsOf(index),
      rows,
      labels: {
        before: trans.__('Cell %1 as it is', index + 1),
        after: trans.__('Cell %1 with the accepted changes', index + 1),
        both: trans.__('Cell %1 as it is, and with the accepted changes', index + 1)
      },
      folded: trans.__('%1 unchanged lines', '$'),
      wrap
    };
    const create = isWide ? createDiff : createUnified;
    if (rows.length) {
      // What is folded away is what no change touches, rejected ones among them.
      editor.current = create(parent, source, model.wholeResultOf(index), options);
      editor.current.setAfter(after);
    } else {
      editor.current = createText(parent, source, options);
    }
    show();
    return () => {
      height.current = parent.offsetHeight || height.current;
      editor.current?.destroy();
      editor.current = null;
    };
    // A new text after is set in the editor that is there.
  }, [near, model, wrap, isWide]);

  useEffect(() => editor.current?.setAfter(after), [after]);

  useEffect(() => {
    search.changed.connect(mark);
    return () => void search.changed.disconnect(mark);
  }, [search, index]);

  const mark = (): void => {
    const { matches, current } = search.within(index);
    if (current >= 0) {
      node.current!.scrollIntoView({ block: 'nearest' });
    }
    editor.current?.mark(matches, current);
  };

  const show = (): void => {
    mark();
    if (editor.current && wanted.current !== null) {
      const { line, change } = wanted.current;
      wanted.current = null;
      const row = rows.find(each => each.change === change);
      if (!row) {
        editor.current.reveal(line);
      } else {
        if (!row.node.isConnected) {
          editor.current.revealRow(row);
        }
        whenConnected(row.node, () => {
          buttons.get(model.keyOf(row.change))?.focus({ preventScroll: true });
          row.node.scrollIntoView({ block: 'center' });
        });
      }
    }
  };

  useEffect(() => {
    const reveal = (_: unknown, place: IPlace): void => {
      if (place.cell === index) {
        wanted.current = place;
        node.current!.scrollIntoView({ block: 'nearest' });
        show();
      }
    };
    session.revealed.connect(reveal);
    return () => {
      session.revealed.disconnect(reveal);
    };
  }, [session, index]);

  return (
    <>
      <div
        ref={node}
        className="jp-hvd-editor"
        style={near ? undefined : { height: `${height.current}px` }}
      />
      {near &&
        rows.map(({ change, node: place }) =>
          createPortal(<ChangeRow change={change} />, place, model.keyOf(change))
        )}
    </>
  );
}

/** The rows of a cell's changes, empty. */
function rowsOf(
  model: ConversionModel,
  index: number
): (IHunkRow & { change: Change })[] {
  return model.changesOf(index).map(change => ({
    change,
    start: model.startOf(change),
    node: document.createElement('div')
  }));
}

/** So many frames at most are waited for what an editor draws. */
const FRAMES = 60;

function whenConnected(node: HTMLElement, act: () => void, frames = FRAMES): void {
  if (node.isConnected) {
    act();
  } else if (frames > 0) {
    requestAnimationFrame(() => whenConnected(node, act, frames - 1));
  }
}

/** Pixels; near enough to keep the scroll bar still. */
const LINE_HEIGHT = 17;

/** So near the screen. The columns scroll where the tab is narrow, else the main one within them. */
const NEAR = { rootMargin: '600px', scrollMargin: '600px' };

/** Tell whether a node is near the screen, whenever that changes from what it is taken for at first. */
function whenNear(
  node: Element,
  atFirst: boolean,
  tell: (near: boolean) => void
): () => void {
  let told = atFirst;
  const observer = new IntersectionObserver(
    entries => {
      const near = entries[entries.length - 1].isIntersecting;
      if (near === told) {
        waiting.delete(node);
      } else {
        nextFrame(node, () => {
          told = near;
          tell(near);
        });
      }
    },
    { ...NEAR, root: node.closest('.jp-hvd-columns') }
  );
  observer.observe(node);
  return () => {
    observer.disconnect();
    waiting.delete(node);
  };
}

/** What is to be done to nodes, one a frame, so that scrolling stays smooth. */
const waiting = new Map<Element, () => void>();

function nextFrame(node: Element, work: () => void): void {
  waiting.set(node, work);
  if (waiting.size === 1) {
    requestAnimationFrame(workOnNext);
  }
}

function workOnNext(): void {
  for (const [node, work] of waiting) {
    waiting.delete(node);
    work();
    break;
  }
  if (waiting.size) {
    requestAnimationFrame(workOnNext);
  }
}
