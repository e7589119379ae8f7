import { expect, Page } from '@playwright/test';

import { test } from './fixtures';
import { Lab } from './lab';
import { MANY_CHANGES } from './notebooks';

/** From an input to the next paint, in ms: the longest of the events of one interaction, as the browser reports them. */
async function toNextPaint(page: Page, act: () => Promise<unknown>): Promise<number> {
  await page.evaluate(() => {
    const seen = window as unknown as { hvdEvents: number[] };
    seen.hvdEvents = [];
    new PerformanceObserver(list => {
      seen.hvdEvents.push(...list.getEntries().map(({ duration }) => duration));
    }).observe({ type: 'event', durationThreshold: 16 } as PerformanceObserverInit);
  });
  await act();
  return page.evaluate(async () => {
    // The browser tells of an event some frames behind it.
    await new Promise(resolve => setTimeout(resolve, 1000));
    return Math.max(0, ...(window as unknown as { hvdEvents: number[] }).hvdEvents);
  });
}

test(
  '300 cells with 290 changes: from each input to the next paint',
  { tag: '@long' },
  async ({ page, request }) => {
    const lab = await Lab.open(page, request, 'responses.ipynb', MANY_CHANGES);
    await lab.convert();
    await lab.diff
      .getByRole('region', { name: 'Cell 294', exact: true })
      .waitFor({ state: 'attached' });
    const scroll = (top: number): Promise<void> =>
      page.evaluate(
        to => void (document.querySelector('.jp-hvd-main')!.scrollTop = to),
        top
      );
    await scroll(5000);
    const below = (): number => {
      const main = document.querySelector('.jp-hvd-main')!;
      const { bottom } = main.getBoundingClientRect();
      const editors = [...main.querySelectorAll('.cm-editor')];
      return editors.filter(each => each.getBoundingClientRect().top > bottom).length;
    };
    await expect
      .poll(() => page.evaluate(below), 'editors of cells that come into view next')
      .toBeGreaterThan(0);
    await scroll(0);
    const tree = lab.diff.locator('.jp-hvd-decisions');
    const filter = tree.getByRole('searchbox', { name: 'Filter the changes' });
    const output = tree.getByRole('listitem').filter({ hasText: 'Output once' });
    const boxes = lab.diff.locator('.jp-hvd-choice');
    const layout = page.getByRole('combobox', { name: 'Layout of the diff' });
    const first = await lab.cell(1);
    const actions: [name: string, act: () => Promise<unknown>][] = [
      ['next change', () => page.getByRole('button', { name: 'Next Change' }).click()],
      ['reject', () => page.keyboard.press('Space')],
      ['filter', () => filter.pressSequentially('print')],
      ['unfold', () => output.locator('summary').click()],
      ['fold', () => output.locator('summary').click()],
      ['reject 290', () => output.getByRole('checkbox').first().click()],
      ['viewed', () => first.getByRole('checkbox', { name: 'Viewed' }).click()],
      ['unviewed', () => first.getByRole('checkbox', { name: 'Viewed' }).click()],
      ['mode', () => lab.diff.getByRole('radio').first().click()],
      ['unified', () => layout.press('ArrowDown')],
      ['side by side', () => layout.press('ArrowDown')]
    ];
    for (const [name, act] of actions) {
      console.log(`${name}: ${(await toNextPaint(page, act)).toFixed(0)} ms`);
    }
    await expect(layout).toHaveValue('split');
    await expect(boxes.first()).toBeVisible();
    await layout.selectOption('Fit to width');
  }
);
