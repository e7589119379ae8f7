import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { usePanel } from './context';
import { IReport, isAt, ViewName, VIEWS } from './report';

/** What the kernel is asked for when it is opened: how it computes value and gradient, and the certificate. */
export function Views({ report }: { report: IReport }): JSX.Element | null {
  const { model } = usePanel();
  const names = VIEWS.filter(name => model.isLive || model.shown(name));
  return (
    <div className="jp-hvd-gc-views">
      {names.map(name => (
        <OneView key={name} name={name} report={report} />
      ))}
    </div>
  );
}

function OneView(props: { name: ViewName; report: IReport }): JSX.Element {
  const { model, said, trans } = usePanel();
  const { name, report } = props;
  const [title, about] = words(name, trans);
  const shown = model.shown(name);
  const isMaking = model.isMaking(name);
  const isOld = shown !== undefined && !isAt(report, shown.sizes);
  const open = (event: React.SyntheticEvent<HTMLDetailsElement>): void => {
    if (event.currentTarget.open && !isMaking && (!shown || isOld)) {
      model.view(name);
    }
  };
  return (
    <details onToggle={open}>
      <summary title={about}>{title}</summary>
      <p role="status">
        {isMaking ? trans.__('Computing…') : shown && trans.__('At %1.', shown.at)}{' '}
        {isOld && !isMaking && (
          <button type="button" disabled={!model.isLive} onClick={() => model.view(name)}>
            {trans.__('Show at the sizes above')}
          </button>
        )}
      </p>
      {shown && (
        <pre tabIndex={0} role={shown.error ? 'alert' : undefined}>
          {said(shown.error) || shown.text}
        </pre>
      )}
    </details>
  );
}

function words(name: ViewName, trans: TranslationBundle): [string, string] {
  return {
    plan: [
      trans.__('How it is computed'),
      trans.__('Each array of the kernels, how it is made and stored: f.plan(…)')
    ] as [string, string],
    certificate: [
      trans.__('Certificate'),
      trans.__('Formulas, bound and measured growth: f.certify(…)')
    ] as [string, string]
  }[name];
}
