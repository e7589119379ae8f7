import { MimeModel } from '@jupyterlab/rendermime';
import { Widget } from '@lumino/widgets';
import React, { useLayoutEffect, useRef } from 'react';

import { useView } from './context';

/** A text in Markdown, as the notebook shows it. */
export function Markdown({ text }: { text: string }): JSX.Element {
  const { rendermime } = useView();
  const node = useRef<HTMLDivElement>(null);
  // In time to detach the widget: later, its node is out of the page.
  useLayoutEffect(() => {
    const renderer = rendermime.createRenderer('text/markdown');
    void renderer.renderModel(new MimeModel({ data: { 'text/markdown': text } }));
    Widget.attach(renderer, node.current!);
    return () => renderer.dispose();
  }, [text]);
  return <div ref={node} className="jp-hvd-markdown" />;
}
