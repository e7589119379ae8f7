import React, { useEffect, useRef, useState } from 'react';

import { useSignal, useView } from './context';
import { createDiff, createText, createUnified, ICellEditor } from './editors';
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
  const { session, language, search, settings, trans } = useView();
  useSignal(settings.changed);
  const { wrap } = settings;
  const model = session.model!;
  const { source } = model.cells[index];
  const after = model.resultOf(index);
  const hasChanges = model.changesOf(index).length > 0;
  const node = useRef<HTMLDivElement>(null);
  const editor = useRef<ICellEditor | null>(null);
  const wanted = useRef<number | null>(null);
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
      labels: {
        before: trans.__('Cell %1 as it is', index + 1),
        after: trans.__('Cell %1 with the accepted changes', index + 1),
        both: trans.__('Cell %1 as it is, and with the accepted changes', index + 1)
      },
      folded: trans.__('%1 unchanged lines', '$'),
      wrap
    };
    const create = isWide ? createDiff : createUnified;
    editor.current = hasChanges
      ? create(parent, source, after, options)
      : createText(parent, source, options);
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
      editor.current.reveal(wanted.current);
      wanted.current = null;
    }
  };

  useEffect(() => {
    const reveal = (_: unknown, place: IPlace): void => {
      if (place.cell === index) {
        wanted.current = place.line;
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
    <div
      ref={node}
      className="jp-hvd-editor"
      style={near ? undefined : { height: `${height.current}px` }}
    />
  );
}

/** Pixels; near enough to keep the scroll bar still. */
const LINE_HEIGHT = 17;

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
    { rootMargin: '600px' }
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
