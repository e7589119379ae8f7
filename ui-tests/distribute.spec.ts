import { expect } from '@playwright/test';

import { test } from './fixtures';
import { Lab, notebook, picture } from './lab';

const IMPORTS = 'import numpy as np\nimport tensorflow as tf';
const DATA = 'x = np.linspace(0, 1, 64, dtype="float32")[:, None]\ny = 3 * x + 1';
const MODEL = `\
model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.SGD(0.1), "mse")`;
const FIT = 'history = model.fit(x, y, batch_size=16, epochs=2)';
const SMALL = notebook(IMPORTS, DATA, MODEL, FIT);

test('%%distribute from the panel: on the cell that trains, with workers and mode', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'magic.ipynb', SMALL);
  await lab.convert();
  await lab.diff.getByRole('radio', { name: 'Same result (global)' }).check();
  const run = lab.diff.getByRole('region', { name: 'Run in this notebook' });
  await run.getByLabel('Workers').fill('3');
  await run.getByRole('button', { name: 'Use %%distribute' }).click();
  const magic = '%%distribute -n 3 --batch global\n' + FIT;
  const sources = [IMPORTS, DATA, MODEL, '%load_ext jupyter_hvd', magic];
  await expect.poll(() => lab.sources()).toEqual(sources);
  await expect(run).toContainText('%%distribute is on cell 5.');
  await picture(page, 'distribute');

  await run.getByLabel('Workers').fill('2');
  await run.getByRole('button', { name: 'Change to 2 Workers' }).click();
  await expect
    .poll(async () => (await lab.sources())[4])
    .toContain('-n 2 --batch global');
  await run.getByRole('button', { name: 'Remove %%distribute' }).click();
  await expect.poll(async () => (await lab.sources())[4]).toBe(FIT);
});

test('%%distribute in place of applied changes', async ({ page, request }) => {
  const lab = await Lab.open(page, request, 'instead.ipynb', SMALL);
  await lab.convert();
  await page.getByRole('button', { name: 'Apply to Notebook' }).click();
  await expect(lab.diff.getByText('The changes are in the notebook.')).toBeVisible();
  await lab.diff.getByRole('button', { name: 'Use %%distribute' }).click();
  const magic = '%%distribute -n 2 --batch per-rank\n' + FIT;
  await expect
    .poll(() => lab.sources())
    .toEqual([IMPORTS, DATA, MODEL, '%load_ext jupyter_hvd', magic]);
});
