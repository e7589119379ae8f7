import { Dialog, showDialog } from '@jupyterlab/apputils';
import { IRenderMimeRegistry, MimeModel } from '@jupyterlab/rendermime';
import { TranslationBundle } from '@jupyterlab/translation';

import { HvdApi } from './request';

/** Show the page of a rule. */
export async function showRule(
  parts: { api: HvdApi; rendermime: IRenderMimeRegistry; trans: TranslationBundle },
  code: string
): Promise<void> {
  const { api, rendermime, trans } = parts;
  const rule = (await api.rules()).find(candidate => candidate.code === code);
  const text = rule?.page ?? trans.__('There is no page about %1.', code);
  const body = rendermime.createRenderer('text/markdown');
  await body.renderModel(new MimeModel({ data: { 'text/markdown': text } }));
  body.addClass('jp-hvd-rule');
  body.node.tabIndex = 0; // a long page is scrolled by keys
  await showDialog({
    title: rule ? `${rule.code}: ${rule.name}` : code,
    body,
    buttons: [Dialog.okButton({ label: trans.__('Close') })]
  });
}
