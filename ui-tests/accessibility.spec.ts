import { expect } from '@playwright/test';

import { violations } from './axe';
import { test } from './fixtures';
import { Lab, notebook, picture, uncovered } from './lab';
import { CLASSIFIER, DISTRIBUTED } from './notebooks';

const THEMES = ['JupyterLab Light', 'JupyterLab Dark'];

/** Wait until colours have faded from one theme to the other. */
async function faded(): Promise<void> {
  const fading = document
    .getAnimations()
    .filter(animation => animation instanceof CSSTransition);
  await Promise.allSettled(fading.map(({ finished }) => finished));
}

/** Look for violations in both themes, with forced colours, and at 200 % zoom, which halves what the page has for its width. */
async function everywhere(lab: Lab, part: string, name: string): Promise<void> {
  const { page } = lab;
  for (const theme of THEMES) {
    await lab.execute('apputils:change-theme', { theme });
    await expect(page.locator('body')).toHaveAttribute(
      'data-jp-theme-light',
      String(theme === THEMES[0])
    );
    await uncovered(page);
    await page.evaluate(faded);
    expect.soft(await violations(page, part), `${name}, ${theme}`).toEqual([]);
  }
  await page.emulateMedia({ forcedColors: 'active' });
  expect.soft(await violations(page, part), `${name}, forced colours`).toEqual([]);
  await page.setViewportSize({ width: 720, height: 450 });
  expect.soft(await violations(page, part), `${name}, 200 %, forced`).toEqual([]);
  await page.emulateMedia({ forcedColors: 'none' });
  expect.soft(await violations(page, part), `${name}, 200 %`).toEqual([]);
  await page.setViewportSize({ width: 1440, height: 900 });
}

test(
  'the diff: no violation of level A or AA',
  { tag: '@long' },
  async ({ page, request }) => {
    const lab = await Lab.open(page, request, 'axe-diff.ipynb', CLASSIFIER);
    await lab.convert();
    await lab.diff.getByLabel('Step time, ms').fill('20');
    await (await lab.choice('Reject', 'HVD601', 9)).click();
    await everywhere(lab, '.jp-hvd-tab', 'diff');
    await verdicts(lab);
    await page.getByRole('button', { name: 'Apply to Notebook' }).click();
    await expect(lab.diff.getByText('The changes are in the notebook.')).toBeVisible();
    await everywhere(lab, '.jp-hvd-tab', 'applied');
  }
);

test(
  'the diff at 200 % zoom is one column, and nothing is cut off',
  { tag: '@long' },
  async ({ page, request }) => {
    const lab = await Lab.open(page, request, 'axe-forced.ipynb', CLASSIFIER);
    await lab.convert();
    await lab.execute('application:toggle-left-area');
    await page.emulateMedia({ forcedColors: 'active' });
    const signs = (selector: string): Promise<string> =>
      lab.diff
        .locator(selector)
        .first()
        .evaluate(node => getComputedStyle(node, '::before').content);
    await lab.cell(4);
    expect(await signs('.cm-merge-b .cm-changedLineGutter'), 'additions').toBe('"+"');
    expect(await signs('.cm-merge-a .cm-changedLineGutter'), 'deletions').toBe('"−"');
    await expect(lab.diff.locator('.cm-merge-b .cm-changedText').first()).toHaveCSS(
      'text-decoration-line',
      'underline'
    );
    await picture(page, 'forced-colours');
    // Zoom halves what the page has for its width.
    await page.setViewportSize({ width: 720, height: 450 });
    const isBelow = async (): Promise<boolean> => {
      const side = await lab.diff.locator('.jp-hvd-side').boundingBox();
      const main = await lab.diff.locator('.jp-hvd-main').boundingBox();
      return side!.y >= main!.y + main!.height;
    };
    await expect.poll(isBelow, { message: 'one column' }).toBe(true);
    await page.emulateMedia({ forcedColors: 'none' });
    const overflow = await lab.diff.evaluate(node =>
      [...node.querySelectorAll<HTMLElement>('.jp-hvd-side *, .jp-hvd-modes *')]
        .filter(each => each.getBoundingClientRect().right > innerWidth + 1)
        .map(each => each.className)
    );
    expect.soft(overflow, 'nothing is cut off').toEqual([]);
    await picture(page, 'zoom-200');
    await page.setViewportSize({ width: 1440, height: 900 });
    await lab.execute('application:toggle-left-area');
  }
);

/** A verification that runs, one that fails, and its verdict behind a change. */
async function verdicts(lab: Lab): Promise<void> {
  const { page } = lab;
  const checks = [
    { check: 'one process', status: 'pass', detail: '' },
    { check: '2 ranks: training steps', status: 'fail', detail: 'it makes 4 steps' },
    { check: '2 ranks: final weights', status: 'unknown', detail: 'not observed' }
  ];
  let release = (): void => undefined;
  const released = new Promise<void>(resolve => (release = resolve));
  await page.route('**/jupyter-hvd/verify*', async route => {
    await released;
    const events = [...checks, { done: true, holds: false }];
    await route.fulfill({ body: events.map(event => JSON.stringify(event)).join('\n') });
  });
  const panel = lab.diff.locator('.jp-hvd-verification');
  await panel.getByRole('button', { name: 'Verify on 2 workers' }).click();
  await expect(panel.getByRole('progressbar')).toBeVisible();
  await everywhere(lab, '.jp-hvd-verification', 'verification runs');
  release();
  await expect(panel.getByText('The conversion does not hold.')).toBeVisible();
  await everywhere(lab, '.jp-hvd-verification', 'verification fails');
  await (await lab.choice('Restore', 'HVD601', 9)).click();
  await expect(panel.getByText(/^Before your last change/)).toBeVisible();
  await everywhere(lab, '.jp-hvd-verification', 'stale verdict');
}

test(
  'a refusal, and a rule’s page: no violation of level A or AA',
  { tag: '@long' },
  async ({ page, request }) => {
    const lab = await Lab.open(page, request, 'axe-refused.ipynb', DISTRIBUTED);
    await lab.convert();
    await expect(lab.diff.getByText('This notebook is not converted')).toBeVisible();
    await everywhere(lab, '.jp-hvd-tab', 'refused');
    await lab.diff.getByRole('button', { name: 'HVD902' }).click();
    await expect(page.getByRole('dialog')).toContainText('tf.distribute');
    await everywhere(lab, '.jp-Dialog-content', 'rule');
  }
);

test(
  'gradient cost: no violation of level A or AA',
  { tag: '@long' },
  async ({ page, request }) => {
    const chain = `\
%%tensor
def chain(A, B, x):
    n = len(x)
    C = [[sum(A[i, k] * B[k, j] for k in range(n)) for j in range(n)] for i in range(n)]
    y = [sum(C[i][j] * x[j] for j in range(n)) for i in range(n)]
    return sum(y[i] * y[i] for i in range(n))`;
    const calls =
      'import numpy as np\nA, x = np.ones((16, 16)), np.ones(16)\nchain(A, A, x)';
    const lab = await Lab.open(
      page,
      request,
      'axe-cost.ipynb',
      notebook('%load_ext jupyter_hvd', chain, calls, '%gradcost chain --wrt x')
    );
    for (let i = 0; i < 4; i++) {
      await lab.run(i);
    }
    const panel = page.locator('.jp-hvd-GradCost:visible').first();
    await expect(panel.getByText('flops, XLA’s estimate').first()).toBeVisible();
    await everywhere(lab, '.jp-hvd-GradCost', 'panel');
    await panel.getByRole('button', { name: 'Measure', exact: true }).click();
    await expect(panel.getByText(/Measured on/)).toBeVisible({ timeout: 60_000 });
    await everywhere(lab, '.jp-hvd-GradCost', 'measured');
    await lab.restart();
    await expect(panel.getByText('The kernel was restarted')).toBeVisible();
    await everywhere(lab, '.jp-hvd-GradCost', 'restarted');
  }
);
