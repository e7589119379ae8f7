import React from 'react';

import { useSignal } from '../context';
import { Block } from './blocks';
import { usePanel } from './context';
import { sayState } from './status';

/** The panel: its controls, and the sections of the report. */
export function View(): JSX.Element {
  const { model, said, trans } = usePanel();
  useSignal(model.changed);
  const { report } = model;
  if (!report) {
    return (
      <div className="jp-hvd-gc-empty" role="status">
        {model.error ? (
          <pre>{said(model.error)}</pre>
        ) : (
          <p>{sayState(model.link.state, trans)}</p>
        )}
      </div>
    );
  }
  return (
    <>
      <div className="jp-hvd-gc-header">
        <h2>{said(report.title)}</h2>
        {report.controls.map((block, i) => (
          <Block key={`${i} ${block.type}`} block={block} />
        ))}
      </div>
      {report.sections.map(section => (
        <Block key={section.name} block={section} />
      ))}
    </>
  );
}
