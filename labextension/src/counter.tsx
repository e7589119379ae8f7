import { ReactWidget } from '@jupyterlab/apputils';
import React from 'react';

import { IViewContext, useSignal } from './context';

/** Which change is looked at, of how many: in the toolbar, between the buttons that move on. */
export class Counter extends ReactWidget {
  constructor(private _context: IViewContext) {
    super();
    this.addClass('jp-hvd-counter');
  }

  protected render(): JSX.Element {
    return <Position {...this._context} />;
  }
}

function Position({ session, trans }: IViewContext): JSX.Element {
  useSignal(session.changed);
  const { model } = session;
  useSignal(model?.visitedChanged);
  const count = model?.choices.length ?? 0;
  const position = model?.position ?? -1;
  return (
    <span role="status">
      {position < 0
        ? trans._n('%1 change', '%1 changes', count)
        : trans.__('%1 of %2', position + 1, count)}
    </span>
  );
}
