import { readFileSync } from 'node:fs';

import { Page } from '@playwright/test';
import type { AxeResults } from 'axe-core';

const AXE = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const LEVELS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

/** What axe finds wrong in a part of the page, at the levels A and AA. */
export async function violations(page: Page, part: string): Promise<string[]> {
  await page.evaluate(AXE);
  // JupyterLab's body has no height, and hides what goes over it: axe would take all for hidden.
  await page.evaluate(() => (document.body.style.height = '100vh'));
  // Nor does it look at what is scrolled away.
  await page.locator(part).first().scrollIntoViewIfNeeded();
  return page.evaluate(
    async ([selector, levels]) => {
      const { getPropertyValue } = CSSStyleDeclaration.prototype;
      // axe asks for this first, and Chromium answers with the page's colour where forced ones are shown.
      CSSStyleDeclaration.prototype.getPropertyValue = function (name) {
        return name === '-webkit-text-fill-color'
          ? ''
          : getPropertyValue.call(this, name);
      };
      const { axe } = window as unknown as {
        axe: { run(where: object, how: object): Promise<AxeResults> };
      };
      const tags = { type: 'tag', values: levels };
      const { passes, violations } = await axe.run(
        { include: [selector] },
        { runOnly: tags }
      );
      CSSStyleDeclaration.prototype.getPropertyValue = getPropertyValue;
      if (![...passes, ...violations].some(({ id }) => id === 'color-contrast')) {
        return ['no text was looked at'];
      }
      return violations.flatMap(({ id, nodes }) =>
        nodes.map(node => `${id}: ${node.target.join(' ')}: ${node.failureSummary}`)
      );
    },
    [part, LEVELS] as const
  );
}
