import { expect } from '@playwright/test';

import { test } from './fixtures';
import { Lab, notebook, picture } from './lab';
import { CLASSIFIER } from './notebooks';

test('Notebook 7: the toolbar’s button opens the diff below the notebook', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'seven.ipynb', CLASSIFIER, {
    frontEnd: 'Notebook 7'
  });
  const button = page.getByRole('button', { name: /Preview the changes/ });
  await button.click();
  await expect(lab.diff.getByText('jhvd.start_shared()')).toBeVisible();
  await picture(page, 'notebook7-diff');
  const { height } = (await lab.diff.boundingBox())!;
  expect(height, 'there is room to read it').toBeGreaterThan(250);

  await page.getByRole('button', { name: 'Apply to Notebook' }).click();
  await expect(lab.diff.getByText('The changes are in the notebook.')).toBeVisible();
  expect((await lab.sources())[1]).toContain('jhvd.start_shared()');
  await page
    .getByRole('tab', { name: /→ Horovod/ })
    .locator('.lm-TabBar-tabCloseIcon')
    .click();
  await expect(lab.diff).toHaveCount(0);
  await button.click();
  await expect(lab.diff.getByText('this program is converted already')).toBeVisible();
  await expect(lab.diff.locator('.jp-hvd-options')).toHaveCount(0);
});

test('Notebook 7: a cell’s gradient cost opens below the notebook', async ({
  page,
  request
}) => {
  const tensor = `%%tensor\ndef square(x):\n    return sum(x[i] * x[i] for i in range(len(x)))`;
  const calls = 'import numpy as np\nsquare(np.ones(64))';
  const cells = notebook('%load_ext jupyter_hvd', tensor, calls);
  const lab = await Lab.open(page, request, 'seven-cost.ipynb', cells, {
    frontEnd: 'Notebook 7'
  });
  for (let i = 0; i < 3; i++) {
    await lab.inNotebook((panel, at) => void (panel.content.activeCellIndex = at), i);
    await lab.execute('notebook:run-cell');
  }
  await lab.execute('jupyter-hvd:inspect-gradient-cost');
  const panel = page.locator('.jp-hvd-GradCost:visible');
  await expect(
    panel.getByRole('row', { name: /^Value / }).locator('.jp-hvd-gc-total')
  ).toHaveAttribute('value', '127');
  await picture(page, 'notebook7-cost');
});

test('Notebook 7: the toolbar and the View menu open the workers below the notebook', async ({
  page,
  request
}) => {
  const cells = notebook('%load_ext jupyter_hvd', '%%distribute -n 2\n1');
  const lab = await Lab.open(page, request, 'seven-workers.ipynb', cells, {
    frontEnd: 'Notebook 7',
    ownKernel: true
  });
  await lab.execute('notebook:run-cell');
  const button = page
    .getByRole('toolbar')
    .getByRole('button', { name: 'Workers', exact: true });
  const panel = page.locator('.jp-hvd-WorkersPanel:visible');
  await button.click();
  await expect(panel.getByText(/no cell with %%distribute has run/)).toBeVisible();
  const { height } = (await panel.boundingBox())!;
  expect(height, 'there is room to read it').toBeGreaterThan(150);
  await picture(page, 'notebook7-workers');
  await page
    .getByRole('tab', { name: /Workers of seven-workers/ })
    .locator('.lm-TabBar-tabCloseIcon')
    .click();
  await expect(panel).toHaveCount(0);
  await page.getByRole('menuitem', { name: 'View', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Show the Workers' }).click();
  await expect(panel).toBeVisible();
});

test('Notebook 7: without cells for workers, the toolbar has no button for them', async ({
  page,
  request
}) => {
  await Lab.open(page, request, 'seven-plain.ipynb', notebook('1 + 1'), {
    frontEnd: 'Notebook 7'
  });
  await expect(page.getByRole('button', { name: /Preview the changes/ })).toBeVisible();
  await expect(page.getByRole('button', { name: 'Workers', exact: true })).toHaveCount(0);
});

test('Notebook 7: from the list of files, the notebook opens, and what to do there is told', async ({
  page,
  request
}) => {
  await request.put('api/contents/listed.ipynb', {
    data: { type: 'notebook', format: 'json', content: CLASSIFIER }
  });
  await page.goto('tree?token=ui-tests');
  await page
    .locator('.jp-DirListing-item', { hasText: 'listed.ipynb' })
    .click({ button: 'right' });
  await page.getByRole('menuitem', { name: 'Convert Notebook to Horovod' }).click();
  await expect(page.getByRole('dialog')).toContainText(
    'listed.ipynb opens in a page of its own'
  );
  await picture(page, 'notebook7-listed');
});
