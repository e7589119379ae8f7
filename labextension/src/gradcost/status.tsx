import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { usePanel } from './context';
import { time } from './format';
import { LinkState } from './link';
import { IMeasured, IReport, isCurrent } from './report';

/** One line that is always there, so that nothing jumps. */
export function Status({ report }: { report: IReport }): JSX.Element {
  const { model, trans } = usePanel();
  const { measured } = report;
  const words = [];
  if (!model.isLive) {
    words.push(sayState(model.link.state, trans));
  }
  if (model.isLate) {
    words.push(trans.__('The kernel is busy: it answers when its cell has run.'));
  }
  words.push(report.note);
  if (measured) {
    words.push(...sayMeasured(measured, isCurrent(report), trans));
  }
  return (
    <p className="jp-hvd-gc-status" role="status">
      {words.filter(Boolean).join(' ') || '\u00a0'}
    </p>
  );
}

/** The times, one figure each with its quartiles, and which gradient is faster, if that can be told. */
function sayMeasured(
  measured: IMeasured,
  isHere: boolean,
  trans: TranslationBundle
): string[] {
  const { at, device, dtype, repeats, value, adjoint } = measured;
  const spread = (median: number, quartiles?: number[] | null): string =>
    // Reports of before have none.
    quartiles
      ? trans.__('%1 (%2 to %3)', time(median), ...quartiles.map(time))
      : time(median);
  const words = [
    isHere
      ? trans.__('Measured on %1 in %2, %3 alternating rounds.', device, dtype, repeats)
      : trans.__(
          'Measured at %1 on %2 in %3, %4 alternating rounds.',
          at,
          device,
          dtype,
          repeats
        ),
    trans.__(
      'Value %1, gradient %2.',
      time(value),
      spread(adjoint, measured.adjoint_spread)
    )
  ];
  if (measured.jax_adjoint !== null) {
    const jax = spread(measured.jax_adjoint, measured.jax_spread);
    const sentences: Record<string, string> = {
      gradient: trans.__('jax.grad %1: this gradient is faster.', jax),
      'jax.grad': trans.__('jax.grad %1: jax.grad is faster.', jax),
      neither: trans.__('jax.grad %1: no difference.', jax),
      noisy: trans.__('jax.grad %1: too noisy to compare.', jax)
    };
    words.push(sentences[measured.faster] ?? trans.__('jax.grad %1.', jax));
  }
  return [...words, measured.note];
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
