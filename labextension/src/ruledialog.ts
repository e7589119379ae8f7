import { Dialog, showDialog } from '@jupyterlab/apputils';
import { IRenderMimeRegistry, MimeModel } from '@jupyterlab/rendermime';
import { TranslationBundle } from '@jupyterlab/translation';

import { HvdApi } from './request';

interface IParts {
  api: HvdApi;
  rendermime: IRenderMimeRegistry;
  trans: TranslationBundle;
}

/** Show the page of a rule. */
export async function showRule(parts: IParts, code: string): Promise<void> {
  const { rendermime, trans } = parts;
  const { title, text } = await rulePage(parts, code);
  const body = rendermime.createRenderer('text/markdown');
  await body.renderModel(new MimeModel({ data: { 'text/markdown': text } }));
  body.addClass('jp-hvd-rule');
  body.node.tabIndex = 0; // a long page is scrolled by keys
  await showDialog({
    title,
    body,
    buttons: [Dialog.okButton({ label: trans.__('Close') })]
  });
}

/** The page of a rule, in Markdown, and its title. */
export async function rulePage(
  { api, trans }: Pick<IParts, 'api' | 'trans'>,
  code: string
): Promise<{ title: string; text: string }> {
  const rule = (await api.rules()).find(candidate => candidate.code === code);
  return rule
    ? { title: `${rule.code}: ${rule.name}`, text: rule.page }
    : { title: code, text: trans.__('There is no page about %1.', code) };
}
