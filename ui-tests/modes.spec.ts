import { expect } from '@playwright/test';

import { test } from './fixtures';
import { Lab, notebook, picture } from './lab';
import { CLASSIFIER, FITTED, MANY_CHANGES } from './notebooks';

test('the mode is chosen in sight, and says what it means for batch, rate and steps', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'mode.ipynb', CLASSIFIER);
  await lab.convert();
  const modes = lab.diff.getByRole('group', { name: 'Mode' });
  const global = modes.getByRole('radio', { name: 'Same result (global)' });
  const perRank = modes.getByRole('radio', { name: 'Larger batch (per-rank)' });
  await expect(perRank).toBeChecked();
  await expect(perRank).toHaveAccessibleDescription(/Batch\s*16 → 32/);
  await expect(perRank).toHaveAccessibleDescription(/Learning rate\s*0\.001 → 0\.002/);
  await expect(perRank).toHaveAccessibleDescription(/Steps per epoch\s*÷ 2/);
  await expect(global).toHaveAccessibleDescription(/the result of one process/);
  for (const width of [1024, 1440, 1920]) {
    await page.setViewportSize({ width, height: 900 });
    await picture(page, `modes-${width}`);
  }
  await page.setViewportSize({ width: 1440, height: 900 });

  await global.check();
  await lab.shows(2, 'start_shared()');
  await expect(global).toBeChecked();
  const asked = page.waitForRequest('**/jupyter-hvd/verify*');
  await lab.diff.getByRole('button', { name: 'Verify on 2 workers' }).click();
  expect((await asked).postDataJSON().options).toEqual({ batch: 'global' });
  await lab.diff.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Apply to Notebook' }).click();
  await expect(lab.diff.getByText(/with the same result:$/)).toBeVisible();
});

test('options of workers with batches of their own go where they share them', async ({
  page,
  request
}) => {
  const metadata = { ...FITTED.metadata, jupyter_hvd: { options: { warmup_epochs: 3 } } };
  const lab = await Lab.open(page, request, 'switch.ipynb', { ...FITTED, metadata });
  await lab.convert();
  await expect(lab.diff.getByLabel('Warm-up epochs')).toHaveValue('3');
  await lab.diff.getByRole('radio', { name: 'Same result (global)' }).check();
  await lab.shows(1, 'start_shared()');
  await expect(lab.diff.getByRole('alert')).toHaveCount(0);
  await expect(lab.diff.getByLabel('Warm-up epochs')).toHaveCount(0);
});

test('rate, batch and steps are one decision; without the start there is nothing', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'decisions.ipynb', CLASSIFIER);
  await lab.convert();
  const tree = lab.diff.locator('.jp-hvd-decisions');
  const box = (name: string) => tree.getByRole('checkbox', { name, exact: true });
  await expect(box('Start the workers')).toBeChecked();
  await box('Learning rate').uncheck();
  await expect(box('Batch size')).not.toBeChecked();
  await expect(box('Train on larger batches')).not.toBeChecked();
  await expect(box('Average gradients')).toBeChecked();
  // The rows of what is left out show it; the text does not.
  const scaled = (await lab.cell(6)).locator('.cm-line', { hasText: 'hvd.size()' });
  await expect(scaled).toHaveCount(0);
  await picture(page, 'decisions');

  await (await lab.choice('Restore', 'HVD', 4)).click();
  await expect(box('Learning rate'), 'by one of its changes, too').toBeChecked();

  await box('Start the workers').uncheck();
  await expect(lab.diff.getByText(/, 0 accepted$/)).toBeVisible();
  await box('Output once').check();
  await expect(box('Start the workers')).toBeChecked();
});

test('480 changes of 300 cells are some decisions, filtered by text, cell and rule', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'many.ipynb', MANY_CHANGES);
  await lab.convert();
  const tree = lab.diff.locator('.jp-hvd-decisions');
  const output = tree.getByRole('checkbox', { name: 'Output once', exact: true });
  await expect(output).toBeChecked();
  expect(await tree.getByRole('listitem').count()).toBeLessThan(12);

  const filter = tree.getByRole('searchbox', { name: 'Filter the changes' });
  await filter.fill('HVD601 cell 100');
  await expect(tree.getByText('1 change matches.')).toBeVisible();
  await filter.fill('print("step 1');
  await expect(tree.getByText('111 changes match.')).toBeVisible();
  await output.uncheck();
  await filter.fill('');
  await expect(output).toHaveJSProperty('indeterminate', true);
  await picture(page, 'decisions-many');
  const slow = await page.evaluate(async () => {
    const box = document.querySelectorAll<HTMLInputElement>(
      '.jp-hvd-decisions input[type=checkbox]'
    );
    const start = performance.now();
    box[box.length - 1].click();
    await new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)));
    return performance.now() - start;
  });
  console.log(`interaction to next paint, 290 changes: ${slow.toFixed(0)} ms`);
});

test('the table answers for both modes; a training has only so many examples', async ({
  page,
  request
}) => {
  const rows = FITTED.cells.map(cell =>
    cell.source.replaceAll('256', '1200').replace('.batch(16)', '.batch(32)')
  );
  const content = notebook(...rows);
  const text = '38/38 ━━━━━━━ 1s 12ms/step - loss: 2.3\n';
  Object.assign(content.cells[3], {
    outputs: [{ output_type: 'stream', name: 'stdout', text }]
  });
  const lab = await Lab.open(page, request, 'scaling.ipynb', content);
  await lab.convert();
  const cost = lab.diff.locator('.jp-hvd-cost');
  await expect(cost.getByText('printed by Keras in cell 4')).toBeVisible();
  await expect(
    cost.getByRole('row', { name: /^1 12 ms printed by Keras/ }).first()
  ).toBeVisible();
  await expect(cost.getByLabel('Batch size')).toHaveValue('32');
  await expect(cost.getByLabel('Epochs')).toHaveValue('4');
  await cost.getByLabel('Examples').fill('1200');
  await cost.getByLabel('Step time, ms').fill('500');
  await cost.getByLabel('Where').selectOption('NVLink 4');
  await expect(cost.locator('.jp-hvd-hint')).toContainText(
    'Worth it. On 2 workers your 4 epochs take 38 s instead of 76 s (estimated, with a GPU for each worker and NVLink 4).'
  );
  await expect(
    cost.getByText('1200 examples at batch 32 are enough for 37 workers.')
  ).toBeVisible();
  const table = cost.getByRole('table');
  await expect(table.getByRole('row', { name: /^4 .*128 0\.004 10$/ })).toBeVisible();
  await expect(table.getByRole('row', { name: /^4 .*32 0\.001 38$/ })).toBeVisible();
  await cost.getByRole('slider', { name: 'Workers' }).fill('64');
  await expect(cost.locator('.jp-hvd-hint')).toContainText(
    'On 64 workers, some would have no example'
  );
  await picture(page, 'scaling');
});

test('what was measured on two workers is no step of one, and wins over the model', async ({
  page,
  request
}) => {
  const content = notebook(
    '%load_ext jupyter_hvd',
    ...FITTED.cells.map(cell => cell.source),
    `%%distribute -n 2 --batch global\n${FITTED.cells[3].source}`
  );
  const printed = (step: string): object => ({
    outputs: [{ output_type: 'stream', name: 'stdout', text: `16/16 ━━━ 1s ${step}\n` }]
  });
  Object.assign(content.cells[4], printed('6ms/step'));
  Object.assign(content.cells[5], printed('25ms/step'));
  const lab = await Lab.open(page, request, 'measured.ipynb', content);
  await lab.convert();
  const cost = lab.diff.locator('.jp-hvd-cost');
  await expect(cost.getByText('printed by Keras in cell 5')).toBeVisible();
  await lab.diff.getByRole('radio', { name: 'Same result (global)' }).check();
  await expect(cost.locator('.jp-hvd-hint')).toHaveText(
    /^Not worth it\. .*slower than one \(measured\)\.|^Not worth it\. .*instead of .*\(measured\)\./
  );
  await expect(
    cost.getByRole('row', { name: /^2 25 ms printed by Keras/ })
  ).toBeVisible();
});
