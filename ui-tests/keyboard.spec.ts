import { expect, Locator, Page } from '@playwright/test';

import { test } from './fixtures';
import { byPalette, tabTo } from './keys';
import { Lab, notebook } from './lab';
import { CLASSIFIER, MANY_CHANGES } from './notebooks';

/**
 * The controls of a part of the page that Tab does not come to, from the first one on; editors come
 * and go as they are scrolled to.
 */
async function unreached(page: Page, part: Locator): Promise<string[]> {
  const controls = await part.evaluate(node => {
    const found = [
      ...node.querySelectorAll<HTMLElement>(
        'button, input, select, summary, [tabindex="0"]'
      )
    ].filter(
      each =>
        each.checkVisibility() &&
        !each.matches(':disabled, [tabindex="-1"]') &&
        !each.closest('.cm-editor')
    );
    found.forEach((each, i) => each.setAttribute('data-control', String(i)));
    found[0].focus();
    return found.map(each => each.outerHTML);
  });
  const reached = new Set<string>();
  for (let i = 0; i < controls.length + 40 && reached.size < controls.length; i++) {
    const control = await page.evaluate(
      () => document.activeElement?.getAttribute('data-control') ?? null
    );
    if (control !== null) {
      reached.add(control);
    }
    await page.keyboard.press('Tab');
  }
  return controls.filter((_, i) => !reached.has(String(i)));
}

test('the diff by keyboard alone: open, leave, read a rule, choose, apply, undo', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'keys-diff.ipynb', CLASSIFIER);
  const before = await lab.sources();
  await byPalette(page, 'Convert Notebook to Horovod');
  await expect(lab.diff.getByText('jhvd.start_shared()')).toBeVisible();

  await page.keyboard.press('Alt+ArrowDown');
  const first = lab.diff.locator('.jp-hvd-choice').first();
  await expect(first).toBeFocused();
  await page.keyboard.press('Space');
  await expect(first).toHaveText('Restore');
  await expect(first).toBeFocused();
  await page.keyboard.press('Space');
  await expect(first).toHaveText('Reject');

  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  const why = lab.diff.getByRole('region', { name: /^Rule HVD/ });
  await expect(why).toContainText('HVD801');
  await page.keyboard.press('Enter');
  await expect(why).toHaveCount(0);

  await tabTo(page, lab.diff.getByLabel('Guard'));
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await expect(lab.diff.getByLabel('Guard')).toHaveValue('false');
  expect(await unreached(page, lab.diff)).toEqual([]);

  await page.keyboard.press('Shift+Tab'); // the last Tab has left the diff
  await page.keyboard.press('Control+Enter');
  await expect(lab.diff.getByText('The changes are in the notebook.')).toBeVisible();
  expect(await lab.sources()).not.toEqual(before);
  await tabTo(page, lab.diff.getByRole('button', { name: 'Undo' }));
  await page.keyboard.press('Enter');
  await expect.poll(() => lab.sources()).toEqual(before);
});

test('the changes, the decisions and the findings are a stop of Tab each; F6 goes from part to part', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'keys-stops.ipynb', MANY_CHANGES);
  await byPalette(page, 'Convert Notebook to Horovod');
  const cells = lab.diff.locator('.jp-hvd-cells');
  const decisions = lab.diff.getByRole('list', { name: 'Decisions' });
  await expect(cells.getByText('jhvd.start_shared()')).toBeVisible();
  const stops = (part: Locator): Promise<number> =>
    part.evaluate(
      node =>
        [
          ...node.querySelectorAll<HTMLElement>(
            'button, input, summary, a[href], [tabindex]'
          )
        ].filter(each => each.tabIndex >= 0 && each.checkVisibility()).length
    );
  await expect.poll(() => stops(cells)).toBe(1);
  expect(await stops(decisions)).toBe(1);

  const regions: string[] = [];
  for (let i = 0; i < 8; i++) {
    await page.keyboard.press('F6');
    regions.push(
      await page.evaluate(() => {
        const focused = document.activeElement!;
        const panel = focused.closest('.jp-hvd-panel > summary');
        const part = focused.closest('.jp-Toolbar, .jp-hvd-summary, .jp-hvd-cells');
        return panel?.textContent ?? part?.classList.value.match(/jp-\S+/)?.[0] ?? '';
      })
    );
  }
  const around = [
    'jp-Toolbar',
    'jp-hvd-summary',
    'jp-hvd-cells',
    'Decisions',
    'Verification',
    'Scaling',
    'Options'
  ];
  const from = around.indexOf(regions[0]);
  expect(regions).toEqual(regions.map((_, i) => around.at((from + i) % around.length)));

  // From the change that was looked at, arrow keys lead to all that stands around it.
  await cells.locator('.jp-hvd-choice').first().focus();
  const reached = new Set<string>();
  for (let i = 0; i < 8; i++) {
    reached.add(
      await page.evaluate(() => document.activeElement!.textContent!.slice(0, 6))
    );
    await page.keyboard.press('ArrowRight');
  }
  expect([...reached]).toEqual(expect.arrayContaining(['Reject', 'Why?']));
  await page.keyboard.press('F6');
  await page.keyboard.press('Shift+F6');
  expect(await cells.evaluate(node => node.contains(document.activeElement))).toBe(true);
  await expect.poll(() => stops(cells)).toBe(1);
});

test('lines that are folded away unfold by keys', async ({ page, request }) => {
  const lines = Array.from({ length: 30 }, (_, i) => `a${i} = ${i}`).join('\n');
  const cells = CLASSIFIER.cells.map(({ source }) => source);
  const lab = await Lab.open(
    page,
    request,
    'keys-folded.ipynb',
    notebook(`${cells[0]}\n${lines}`, ...cells.slice(1))
  );
  await byPalette(page, 'Convert Notebook to Horovod');
  const folded = lab.diff.locator('.cm-collapsedLines').first();
  await expect(folded).toBeVisible();
  const text = await folded.textContent();
  await lab.diff.locator('.jp-hvd-choice').first().focus();
  for (let i = 0; i < 80 && !(await folded.evaluate(isFocused)); i++) {
    await page.keyboard.press('ArrowRight');
  }
  await expect(folded).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(lab.diff.getByText(text!, { exact: true })).toHaveCount(0);
});

const isFocused = (node: Element): boolean => node === document.activeElement;

test('the toolbar by arrow keys, in rows where the tab is narrow', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'keys-toolbar.ipynb', CLASSIFIER);
  await lab.convert();
  await page.setViewportSize({ width: 720, height: 450 });
  const toolbar = page.getByRole('toolbar', { name: 'Conversion' });
  const items = toolbar.locator('.jp-Toolbar-item:not(.jp-Toolbar-spacer)');
  const lies = async (): Promise<boolean> => {
    const below = (await lab.diff.boundingBox())!.y;
    const boxes = await items.evaluateAll(nodes =>
      nodes.map(node => node.getBoundingClientRect().toJSON() as DOMRect)
    );
    return boxes.every(({ right, bottom }) => right <= 720 && bottom <= below + 1);
  };
  await expect.poll(lies, { message: 'nothing is cut off' }).toBe(true);

  await lab.diff.getByRole('radio').first().focus();
  await page.keyboard.press('Shift+Tab');
  const reached = new Set<string>();
  for (const key of ['ArrowLeft', 'ArrowRight']) {
    for (let i = 0; i < (await items.count()); i++) {
      const name = await page.evaluate(() => {
        const focused = document.activeElement!;
        const item = focused.closest<HTMLElement>('.jp-Toolbar-item');
        return item?.dataset.jpItemName ?? focused.tagName;
      });
      reached.add(name);
      await page.keyboard.press(key);
    }
  }
  expect([...reached].sort()).toEqual(
    [
      'jupyter-hvd:accept-all',
      'jupyter-hvd:apply',
      'jupyter-hvd:export-script',
      'jupyter-hvd:leave-all',
      'jupyter-hvd:next-change',
      'jupyter-hvd:previous-change',
      'jupyter-hvd:refresh',
      'jupyter-hvd:save-copy',
      'jupyter-hvd:toggle-wrap',
      'jupyter-hvd:verify',
      'layout'
    ].sort()
  );
  await page.setViewportSize({ width: 1440, height: 900 });
});

test('gradient cost by keyboard alone: open, move, choose, measure, accept', async ({
  page,
  request
}) => {
  const scaled = `\
%%tensor
def scaled(a, x):
    return sum(a * x[i] for i in range(len(x)))`;
  const calls = 'import numpy as np\nscaled(2.0, np.ones(64))';
  const lab = await Lab.open(
    page,
    request,
    'keys-cost.ipynb',
    notebook('%load_ext jupyter_hvd', scaled, calls)
  );
  for (let i = 0; i < 3; i++) {
    await lab.run(i);
  }
  await byPalette(page, 'Inspect Gradient Cost');
  const panel = page.locator('.jp-hvd-GradCost:visible');
  const value = panel.getByRole('row', { name: /^Value / }).locator('.jp-hvd-gc-total');
  await expect(value).toHaveAttribute('value', '127');
  await expect(panel.getByText('flops, XLA’s estimate').first()).toBeVisible();
  expect(await unreached(page, panel)).toEqual([]);

  await panel.getByRole('checkbox', { name: 'a', exact: true }).focus();
  await tabTo(page, panel.getByRole('slider'));
  await page.keyboard.press('ArrowRight');
  await expect(value).toHaveAttribute('value', '129');
  await tabTo(page, panel.getByRole('button', { name: 'Accept' }));
  await page.keyboard.press('Enter');
  await expect(panel.getByText(/Same result on 8 random inputs/)).toBeVisible({
    timeout: 120_000
  });
  expect((await lab.sources())[1]).toContain(
    'return a * sum(x[i] for i in range(len(x)))'
  );
  await expect(
    page.locator('.jp-CodeCell:visible').nth(1).locator('.cm-content')
  ).toBeFocused();
  await page.keyboard.press('Control+z');
  expect((await lab.sources())[1]).toBe(scaled);

  await panel.getByRole('checkbox', { name: 'a', exact: true }).focus();
  await page.keyboard.press('Space');
  await tabTo(page, panel.getByRole('button', { name: 'Measure', exact: true }));
  await page.keyboard.press('Enter');
  await expect(panel.getByText(/Measured on/)).toBeVisible({ timeout: 60_000 });
});
