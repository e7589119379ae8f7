import { execFileSync } from 'node:child_process';

import { expect, Locator } from '@playwright/test';

import { test } from './fixtures';
import { byPalette } from './keys';
import { Lab, notebook, picture } from './lab';
import { CLASSIFIER, FITTED, IMPORTS } from './notebooks';

/** For what starts TensorFlow, several times over. */
const patient = { timeout: 120_000 };

test('next and previous go from change to change, by button as well', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'next.ipynb', CLASSIFIER);
  await lab.convert();
  const counter = page.locator('.jp-hvd-counter');
  await expect(counter).toHaveText(/^\d+ changes$/);
  const count = parseInt(await counter.innerText());
  expect(count).toBeGreaterThan(2);
  const next = page.getByRole('button', { name: 'Next Change' });
  const previous = page.getByRole('button', { name: 'Previous Change' });
  const visited: (string | null)[] = [];
  for (let i = 1; i <= count; i++) {
    await next.click();
    await expect(counter).toHaveText(`${i} of ${count}`);
    await expect(lab.focused).toHaveText('Reject');
    await expect(lab.focused).toBeInViewport();
    visited.push(await lab.focused.getAttribute('aria-label'));
  }
  expect(new Set(visited).size, 'each is another one').toBe(count);
  await next.click();
  await expect(counter).toHaveText(`1 of ${count}`);
  await previous.click();
  await expect(counter, 'before the first comes the last').toHaveText(
    `${count} of ${count}`
  );
  await expect(lab.focused).toHaveAttribute('aria-label', visited[count - 1]!);
});

test('a rejected change leaves the rest of the diff as it is', async ({
  page,
  request
}) => {
  const filler = (name: string): string[] =>
    Array.from({ length: 20 }, (_, i) => `${name}_${i} = ${i}`);
  const cell = [...filler('before'), 'print(before_0)', ...filler('after')].join('\n');
  const content = notebook(IMPORTS, cell, ...FITTED.cells.slice(1).map(c => c.source));
  const lab = await Lab.open(page, request, 'reject.ipynb', content);
  await lab.convert();
  const changed = await lab.cell(2);
  const folded = changed.locator('.cm-collapsedLines');
  const before = await folded.count();
  expect(before).toBeGreaterThan(1);
  await (await lab.choice('Reject', 'HVD601', 2)).click();
  await expect(changed.locator('.cm-line', { hasText: 'hvd.rank()' })).toHaveCount(0);
  await expect(folded).toHaveCount(before);
});

/** The lines that both texts of a cell have, once each, and that do not stand side by side. */
function misaligned(cell: Locator): Promise<string[]> {
  return cell.evaluate(node => {
    const [before, after] = ['.cm-merge-a', '.cm-merge-b'].map(side => {
      const tops = new Map<string, number[]>();
      for (const line of node.querySelectorAll(`${side} .cm-line`)) {
        const { top } = line.getBoundingClientRect();
        const text = line.textContent ?? '';
        tops.set(text, [...(tops.get(text) ?? []), top]);
      }
      return tops;
    });
    return [...before]
      .filter(([text, [top, ...others]]) => {
        const beside = after.get(text) ?? [];
        return !others.length && beside.length === 1 && Math.abs(top - beside[0]) > 1.5;
      })
      .map(([text]) => text);
  });
}

test(
  'side by side, rows leave the lines where they are',
  { tag: '@long' },
  async ({ page, request }) => {
    const first = `print(len("a"))\n${CLASSIFIER.cells[1].source}\nprint(2)\nseed = 1`;
    const [, , ...rest] = CLASSIFIER.cells.map(cell => cell.source);
    const lab = await Lab.open(page, request, 'aligned.ipynb', notebook(first, ...rest));
    await lab.convert();
    const layout = page.getByRole('combobox', { name: 'Layout of the diff' });
    await layout.selectOption('Side by side');
    const cell = await lab.cell(1);
    await lab.shows(1, 'jhvd.start_shared()');
    await expect(cell.locator('.jp-hvd-change')).toHaveCount(3);
    await expect.poll(() => misaligned(cell)).toEqual([]);
    await picture(page, 'aligned');
    await (await lab.choice('Reject', 'HVD601', 1)).click();
    await expect(cell.getByText(/^Rejected/)).toBeVisible();
    await expect.poll(() => misaligned(cell), 'with a ghost').toEqual([]);
    await picture(page, 'aligned-ghosts');
    await layout.selectOption('Fit to width');
  }
);

test('at its hunk, a change is rejected, restored and explained', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'hunk.ipynb', CLASSIFIER);
  await lab.convert();
  const layout = page.getByRole('combobox', { name: 'Layout of the diff' });
  const cell = await lab.cell(9);
  const row = cell.locator('.jp-hvd-change', { hasText: 'Print on rank 0 only' });
  const added = cell.locator('.cm-line', { hasText: 'if hvd.rank() == 0' });
  for (const chosen of ['Unified', 'Side by side']) {
    await layout.selectOption(chosen);
    await lab.shows(9, 'if hvd.rank() == 0');
    await expect(async () => {
      const { y, height } = (await row.boundingBox())!;
      const gap = (await added.first().boundingBox())!.y - (y + height);
      expect(gap, `${chosen}: the row stands above its hunk`).toBeGreaterThan(-2);
      expect(gap).toBeLessThan(40);
    }).toPass({ timeout: 10_000 });

    await (await lab.choice('Reject', 'HVD601', 9)).focus();
    await page.keyboard.press('Enter');
    await expect(added).toHaveCount(0);
    await expect(row).toContainText('Rejected: Print on rank 0 only');
    await expect(row, 'a ghost of what is left out').toContainText('if hvd.rank() == 0');
    const restore = await lab.choice('Restore', 'HVD601', 9);
    await expect(restore).toBeFocused();
    await picture(page, `ghost-${chosen}`);

    await row.getByRole('button', { name: 'Why? HVD601' }).click();
    const why = row.getByRole('region', { name: 'Rule HVD601' });
    await expect(why).toContainText('HVD601');
    await expect.poll(() => misaligned(cell), 'a page beside the text').toEqual([]);
    await picture(page, `why-${chosen}`);
    await row.getByRole('button', { name: 'Why? HVD601' }).click();
    await expect(why).toHaveCount(0);
    await restore.click();
    await expect(added.first()).toBeVisible();
  }
  await (await lab.choice('Reject', 'HVD601', 9)).click();
  await layout.selectOption('Unified');
  await expect(await lab.choice('Restore', 'HVD601', 9), 'a new editor').toBeVisible();
  await layout.selectOption('Fit to width');
});

test(
  'all changes are one stop of Tab; arrows go on',
  { tag: '@long' },
  async ({ page, request }) => {
    const prints = Array.from({ length: 30 }, (_, i) => [
      `x_${i} = ${i}`,
      `print(x_${i})`
    ]);
    const [imports, data, ...rest] = CLASSIFIER.cells.map(cell => cell.source);
    const content = notebook(imports, data, prints.flat().join('\n'), ...rest);
    const lab = await Lab.open(page, request, 'stops.ipynb', content);
    await lab.convert();
    const cell = await lab.cell(3);
    const choices = cell.locator('.jp-hvd-choice');
    await expect.poll(() => choices.count()).toBeGreaterThan(8);
    await expect(lab.diff.locator('.jp-hvd-choice[tabindex="0"]')).toHaveCount(1);
    await choices.first().focus();
    const counter = page.locator('.jp-hvd-counter');
    await expect(counter).toHaveText(/ of /);
    const first = parseInt(await counter.innerText());
    for (let i = 1; i < 30; i++) {
      await page.keyboard.press('ArrowDown');
      await expect(counter).toHaveText(new RegExp(`^${first + i} of`));
      await expect(lab.focused).toHaveText('Reject');
      await expect(lab.focused).toBeInViewport();
    }
    await page.keyboard.press('ArrowUp');
    await expect(lab.focused).toHaveAttribute('tabindex', '0');
    await page.keyboard.press('ArrowRight');
    await expect(lab.focused).toHaveText('Why?');
  }
);

test('wide, both texts stand side by side; narrow, one below the other', async ({
  page,
  request
}) => {
  await page.setViewportSize({ width: 1200, height: 900 });
  const lab = await Lab.open(page, request, 'width.ipynb', CLASSIFIER);
  await lab.convert();
  await lab.shows(6, '1e-3 * hvd.size()');
  await expect(lab.diff.locator('.cm-deletedLine').first()).toBeVisible();
  await expect(lab.diff.locator('.cm-merge-a')).toHaveCount(0);
  await picture(page, 'unified');
  await page.setViewportSize({ width: 2200, height: 900 });
  await expect(lab.diff.locator('.cm-merge-a').first()).toBeVisible();
  await picture(page, 'side-by-side');
  await page.setViewportSize({ width: 1024, height: 700 });
  const isBelow = async (): Promise<boolean> => {
    const side = await lab.diff.locator('.jp-hvd-side').boundingBox();
    const main = await lab.diff.locator('.jp-hvd-main').boundingBox();
    return side!.y >= main!.y + main!.height;
  };
  await expect.poll(isBelow, { message: 'the side stands below' }).toBe(true);
  await picture(page, 'narrow');
  await page.setViewportSize({ width: 1440, height: 900 });
});

test('find goes through all cells, folded ones too', async ({ page, request }) => {
  const folded = Array.from({ length: 4 }, (_, i) => `unrelated_${i} = 1`);
  const content = notebook(...CLASSIFIER.cells.map(cell => cell.source), ...folded);
  const lab = await Lab.open(page, request, 'find.ipynb', content);
  await lab.convert();
  await page.keyboard.press('Control+f');
  const box = page.getByPlaceholder('Find');
  await box.fill('unrelated_|hvd.size()');
  await page.getByTitle('Use Regular Expression').click();
  await box.fill('unrelated_|hvd\\.size\\(\\)');
  const marks = lab.diff.locator('.jp-hvd-match');
  const current = lab.diff.locator('.jp-hvd-match.jp-mod-current');
  await expect(current).toHaveText('hvd.size()');
  await expect(current).toBeInViewport();
  const shown = await marks.count();
  expect(shown).toBeGreaterThan(0);
  await expect(async () => {
    await page.keyboard.press('Shift+Enter');
    await expect(current).toHaveText('unrelated_', { timeout: 1000 });
  }, 'before the first comes the last, in a fold').toPass();
  await expect(current).toBeInViewport();
  await picture(page, 'find');
  await page.keyboard.press('Escape');
  await expect(marks).toHaveCount(0);
});

test('select all, copy, save', async ({ page, request }) => {
  const lab = await Lab.open(page, request, 'select.ipynb', CLASSIFIER);
  await lab.convert();
  const cell = await lab.cell(2);
  await cell.locator('.cm-content').last().focus();
  await page.keyboard.press('Control+a');
  const selected = await page.evaluate(() => String(window.getSelection()));
  expect(selected).not.toContain('Handwritten');
  await lab.setSource(1, `${IMPORTS}\nsaved_from_the_diff = 1`);
  await lab.shows(2, 'saved_from_the_diff');
  await page.getByRole('button', { name: 'Next Change' }).click();
  await page.keyboard.press('Control+s');
  await expect
    .poll(async () => (await request.get('api/contents/select.ipynb')).text())
    .toContain('saved_from_the_diff');
});

test(
  'a verdict says what it is about, and is kept',
  { tag: ['@installed', '@long'] },
  async ({ page, request }) => {
    const content = structuredClone(CLASSIFIER);
    content.cells[5].source += '  # hvd: ignore[HVD803]';
    const lab = await Lab.open(page, request, 'verdict.ipynb', content);
    await lab.convert();
    await (await lab.choice('Reject', 'HVD601', 9)).click();
    const asked = page.waitForRequest('**/jupyter-hvd/verify*');
    const panel = lab.diff.locator('.jp-hvd-verification');
    await panel.getByRole('button', { name: 'Verify on 2 workers' }).click();
    const body = (await asked).postDataJSON();
    expect(body.left).toHaveLength(1);
    const text = JSON.stringify(body.converted);
    expect(text).toContain('jhvd.start_shared()');
    expect(text, 'what is verified is what would be applied').not.toContain(
      'if hvd.rank()'
    );
    await expect(panel.getByRole('button', { name: 'Cancel' })).toBeFocused();
    const verdict = panel.getByText(
      /^The scaled program does not hold\. First: scaled to 2: rates: 0\.001 → 0\.001, not scaled: cell 8, line 8/
    );
    await expect(verdict, 'the rate stays that of one process').toBeVisible(patient);
    await expect(
      panel.getByRole('row', { name: /passed 2 ranks: final weights/ }),
      'that is shared rightly all the same'
    ).toBeVisible();
    await picture(page, 'verdict');
    await expect(
      panel.getByRole('button', { name: 'Verify on 2 workers' })
    ).toBeFocused();

    await lab.kept(request, /review:verdict\.ipynb": \{"left": \["[^]*"state": "fails"/);
    await lab.reload();
    await expect(verdict).toBeVisible();
    await expect(
      await lab.choice('Restore', 'HVD601', 9),
      'what was left out is left out'
    ).toBeVisible();

    await (await lab.choice('Restore', 'HVD601', 9)).click();
    await expect(panel.getByText(/^Before your last change/)).toBeVisible();
    await picture(page, 'verdict-stale');
    await (await lab.choice('Reject', 'HVD601', 9)).click();
    await expect(verdict).toBeVisible();
  }
);

test('a second verification waits for the first', async ({ page, request }) => {
  let release = (): void => undefined;
  const released = new Promise<void>(resolve => (release = resolve));
  const asked: string[] = [];
  await page.route('**/jupyter-hvd/verify*', async route => {
    asked.push(route.request().postDataJSON().path);
    await released;
    const events = [
      { check: 'one process', status: 'pass', detail: '' },
      { done: true, holds: true }
    ];
    await route.fulfill({ body: events.map(event => JSON.stringify(event)).join('\n') });
  });
  const first = await Lab.open(page, request, 'first.ipynb', CLASSIFIER);
  await first.convert();
  await first.diff.getByRole('button', { name: 'Verify on 2 workers' }).click();
  await expect.poll(() => asked.length).toBe(1);
  const saved = await request.put('api/contents/second.ipynb', {
    data: { type: 'notebook', format: 'json', content: FITTED }
  });
  expect(saved.ok()).toBe(true);
  await first.execute('jupyter-hvd:convert', { path: 'second.ipynb' });
  const second = page.locator('.jp-hvd-Conversion:visible', { hasText: 'second.ipynb' });
  await second.getByRole('button', { name: 'Verify on 2 workers' }).click();
  await expect(second.getByText(/^Waiting for the verification/)).toBeVisible();
  expect(asked).toEqual(['first.ipynb']);
  release();
  await expect(second.getByText('The conversion holds on 2 workers.')).toBeVisible();
  expect(asked).toEqual(['first.ipynb', 'second.ipynb']);
});

test('applied: how to run it, and undo after other edits', async ({ page, request }) => {
  const lab = await Lab.open(page, request, 'run it.ipynb', CLASSIFIER);
  const before = await lab.sources();
  await lab.convert();
  await page.getByRole('button', { name: 'Apply to Notebook' }).click();
  await expect(lab.diff.getByRole('heading', { name: 'Converted' })).toBeVisible();
  await expect(lab.diff.getByText('nothing is changed')).toHaveCount(0);
  const command = lab.diff.locator('.jp-hvd-run code');
  await expect(command).toHaveText(
    /^cd \/.* && \/.*jupyter-hvd run 'run it.ipynb' -n 2$/
  );
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await lab.diff.getByRole('button', { name: 'Copy Command' }).click();
  await expect(lab.diff.getByText('Copied: paste it into a terminal.')).toBeVisible();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  expect(copied).toBe(await command.innerText());
  const elsewhere = { cwd: '/', env: {}, encoding: 'utf8' } as const;
  expect(
    execFileSync('/bin/sh', ['-c', `${copied} --help`], elsewhere),
    'it works in any folder, without a PATH'
  ).toContain('usage: jupyter');
  await picture(page, 'run');
  await expect(lab.focused, 'the keyboard stays in the tab').not.toHaveCount(0);

  await lab.setSource(0, '# Other words');
  await expect(lab.diff.getByText('The diff is up to date')).toBeVisible();
  await lab.diff.getByRole('button', { name: 'Undo' }).click();
  await expect.poll(() => lab.sources()).toEqual(['# Other words', ...before.slice(1)]);
  await expect(lab.diff.getByText('jhvd.start_shared()')).toBeVisible();
  await expect(lab.focused, 'here, too').not.toHaveCount(0);
});

test('a layout that is chosen goes before the width', async ({ page, request }) => {
  const lab = await Lab.open(page, request, 'layout.ipynb', CLASSIFIER);
  await lab.convert();
  const split = lab.diff.locator('.cm-merge-a');
  await lab.shows(6, '1e-3 * hvd.size()');
  await expect(split).toHaveCount(0);
  const layout = page.getByRole('combobox', { name: 'Layout of the diff' });
  await layout.selectOption('Side by side');
  await expect(split.first()).toBeVisible();
  await layout.selectOption('Fit to width');
  await expect(split).toHaveCount(0);
});

test('a cell that was looked at is closed until it is another one', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'viewed.ipynb', CLASSIFIER);
  await lab.convert();
  const cell = await lab.cell(2);
  const viewed = cell.getByRole('checkbox', { name: 'Viewed' });
  const changes = cell.locator('.jp-hvd-change').first();
  await viewed.check();
  await expect(changes).toBeHidden();
  const open = lab.diff.locator('.jp-hvd-choice:visible');
  await page.getByRole('button', { name: 'Next Change' }).click();
  await expect(open.first(), 'the next change is in an open cell').toBeFocused();
  await lab.kept(request, /review:viewed\.ipynb": [^]*"viewed": \["/);
  await lab.reload();
  await expect(viewed).toBeChecked();
  await expect(changes).toBeHidden();
  await lab.setSource(1, `${IMPORTS}\nother = 1`);
  await expect(viewed).not.toBeChecked();
  await expect(changes).toBeVisible();
});

test('a question mark lists the keys', async ({ page, request }) => {
  const lab = await Lab.open(page, request, 'keys.ipynb', CLASSIFIER);
  await lab.convert();
  await page.getByRole('button', { name: 'Next Change' }).click();
  await page.keyboard.press('Shift+Slash');
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('Next Change');
  await expect(dialog).toContainText('Apply Changes (Default Action)');
  await picture(page, 'keys');
  await page.keyboard.press('Escape');
  const filter = lab.diff.getByRole('searchbox', { name: 'Filter the changes' });
  await filter.focus();
  await page.keyboard.press('Shift+Slash');
  await expect(filter).toHaveValue('?');
  await expect(dialog).toHaveCount(0);
});

test('Run All, with the diff in front, runs the notebook', async ({ page, request }) => {
  const content = notebook('ran = 1', 'ran += 1');
  const lab = await Lab.open(page, request, 'runs.ipynb', content, { ownKernel: true });
  await lab.convert();
  await page.getByRole('menuitem', { name: 'Run', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Run All Cells', exact: true }).click();
  await expect.poll(() => lab.executionCount(1)).toBe(2);
  await expect(page.locator('.jp-NotebookPanel:visible')).toHaveCount(1);

  await lab.convert();
  await page.getByRole('menuitem', { name: 'Kernel', exact: true }).click();
  const interrupt = page.locator('.lm-Menu-item', { hasText: 'Interrupt Kernel' });
  await expect(interrupt).not.toHaveClass(/lm-mod-disabled/);
  await page.keyboard.press('Escape');
  await byPalette(page, 'Run All Cells');
  await expect.poll(() => lab.executionCount(1)).toBe(4);
});

test(
  'in a narrow tab, the steps say how far a verification is, and lead to its checks',
  { tag: ['@installed', '@long'] },
  async ({ page, request }) => {
    const lab = await Lab.open(page, request, 'far.ipynb', FITTED);
    await lab.convert();
    await page.setViewportSize({ width: 1024, height: 700 });
    await page.keyboard.press('Control+Shift+Enter');
    const step = lab.diff.getByRole('button', {
      name: /^Verify \([1-9]\d* checks? done\)$/
    });
    await expect(step).toBeVisible(patient);
    const cancel = lab.diff.getByRole('button', { name: 'Cancel' });
    await expect(cancel).not.toBeInViewport();
    await step.click();
    await expect(cancel).toBeInViewport();
    await picture(page, 'far');
    await cancel.click();
    await expect(lab.diff.getByText('Cancelled.')).toBeVisible();
    await page.setViewportSize({ width: 1440, height: 900 });
  }
);
