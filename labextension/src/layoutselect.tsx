import { ReactWidget } from '@jupyterlab/apputils';
import { HTMLSelect } from '@jupyterlab/ui-components';
import React from 'react';

import { IViewContext, useSignal } from './context';
import { LAYOUTS, Layout } from './settings';

/** Whether the two texts of a diff stand in one column or side by side: in the toolbar, and kept in the settings. */
export class LayoutSelect extends ReactWidget {
  constructor(private _context: IViewContext) {
    super();
    this.addClass('jp-hvd-layout');
  }

  protected render(): JSX.Element {
    return <Select {...this._context} />;
  }
}

function Select({ settings, trans }: IViewContext): JSX.Element {
  useSignal(settings.changed);
  const names: Record<Layout, string> = {
    auto: trans.__('Fit to width'),
    unified: trans.__('Unified'),
    split: trans.__('Side by side')
  };
  return (
    <HTMLSelect
      aria-label={trans.__('Layout of the diff')}
      value={settings.layout}
      onChange={event => void settings.setLayout(event.target.value as Layout)}
    >
      {LAYOUTS.map(layout => (
        <option key={layout} value={layout}>
          {names[layout]}
        </option>
      ))}
    </HTMLSelect>
  );
}
