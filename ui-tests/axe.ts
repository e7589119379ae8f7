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
  return page.evaluate(
    async ([selector, levels]) => {
      const { axe } = window as unknown as {
        axe: { run(where: object, how: object): Promise<AxeResults> };
      };
      const tags = { type: 'tag', values: levels };
      const { passes, violations } = await axe.run(
        { include: [selector] },
        { runOnly: tags }
      );
      if (!passes.some(({ id }) => id === 'color-contrast')) {
        return ['nothing was looked at'];
      }
      return violations.flatMap(({ id, nodes }) =>
        nodes.map(node => `${id}: ${node.target.join(' ')}: ${node.failureSummary}`)
      );
    },
    [part, LEVELS] as const
  );
}
