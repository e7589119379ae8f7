import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { usePanel } from './context';
import { LinkState } from './link';

/** One line that is always there, so that nothing jumps: how it stands with the kernel, and what the kernel says. */
export function Status({ children }: { children: React.ReactNode }): JSX.Element {
  const { model, trans } = usePanel();
  return (
    <p role="status">
      {!model.isLive && sayState(model.link.state, trans)}{' '}
      {model.isLate && trans.__('The kernel is busy: it answers when its cell has run.')}{' '}
      {children || '\u00a0'}
    </p>
  );
}

/** Why a panel has no answer from its kernel. */
export function sayState(state: LinkState, trans: TranslationBundle): string {
  return {
    live: '',
    connecting: trans.__('Waiting for the kernel…'),
    none: trans.__('Saved results. Start a kernel and run the cell to update them.'),
    gone: trans.__('The kernel was restarted. Run the cell again to continue.')
  }[state];
}
