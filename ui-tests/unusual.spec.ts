import { expect } from '@playwright/test';

import { test } from './fixtures';
import { Lab, notebook, picture } from './lab';
import { CLASSIFIER, FITTED } from './notebooks';

test('a read-only notebook: a copy is what is left to save', async ({
  page,
  request
}) => {
  // The server runs as root in some places, which may write to every file: what it says of this one is changed on the way.
  await page.route('**/api/contents/locked.ipynb?*', async route => {
    const answer = await route.fetch();
    const json = await answer.json();
    await route.fulfill({ response: answer, json: { ...json, writable: false } });
  });
  const lab = await Lab.open(page, request, 'locked.ipynb', CLASSIFIER);
  const before = await lab.sources();
  await lab.convert();
  await expect(
    lab.diff.getByText(/This notebook is read-only: save a copy/)
  ).toBeVisible();
  await expect(page.getByRole('button', { name: 'Apply to Notebook' })).toBeDisabled();
  await expect(lab.diff.getByRole('button', { name: 'Use %%distribute' })).toHaveCount(0);
  await lab.diff.getByRole('searchbox').focus();
  await page.keyboard.press('Control+Enter');
  await expect(
    page.getByRole('tab', { name: /locked_hvd\.ipynb/ }).first()
  ).toBeVisible();
  expect(await lab.sources()).toEqual(before);
});

test('a renamed notebook keeps its diff and its review; a deleted one, its text', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'before.ipynb', CLASSIFIER);
  await lab.convert();
  await (await lab.choice('Reject', 'HVD601', 9)).click();
  await page.evaluate(() =>
    (
      window.jupyterapp as unknown as {
        serviceManager: { contents: { rename(a: string, b: string): Promise<unknown> } };
      }
    ).serviceManager.contents.rename('before.ipynb', 'after.ipynb')
  );
  const renamed = new Lab(page, 'after.ipynb');
  await expect(page.getByRole('tab', { name: 'after.ipynb → Horovod' })).toBeVisible();
  await expect(renamed.diff.getByRole('heading', { name: 'after.ipynb' })).toBeVisible();
  await renamed.kept(request, /review:after\.ipynb": \{"left": \["/);
  await expect
    .poll(async () => (await request.get('lab/api/workspaces/default')).text())
    .toContain('jupyter-hvd:after.ipynb');
  await request.delete('api/contents/after.ipynb');
  await renamed.setSource(0, '# Edited after that');
  await expect(renamed.diff.getByText('The diff is up to date')).toBeVisible();
  await renamed.execute('jupyter-hvd:save-copy');
  await expect(page.getByRole('tab', { name: /after_hvd\.ipynb/ }).first()).toBeVisible();
});

test('two views of a notebook have one diff', async ({ page, request }) => {
  const lab = await Lab.open(page, request, 'views.ipynb', CLASSIFIER);
  await lab.convert();
  await lab.execute('docmanager:open', { path: 'views.ipynb' });
  await lab.execute('docmanager:clone');
  await lab.execute('jupyter-hvd:convert');
  await expect(page.getByRole('tab', { name: 'views.ipynb → Horovod' })).toHaveCount(1);
  await page.getByRole('button', { name: 'Apply to Notebook' }).click();
  await expect(lab.diff.getByText('The changes are in the notebook.')).toBeVisible();
});

test('no kernel: all but what the kernel knows', async ({ page, request }) => {
  const lab = await Lab.open(page, request, 'idle.ipynb', FITTED);
  await lab.reopen(false);
  await lab.convert();
  await expect(lab.diff.locator('.jp-hvd-cost').getByLabel('Batch size')).toHaveValue(
    '16'
  );
  await page.getByRole('button', { name: 'Apply to Notebook' }).click();
  await expect(lab.diff.getByText('The changes are in the notebook.')).toBeVisible();
});

test('a notebook in R says that only Python is converted', async ({ page, request }) => {
  const content = notebook('library(keras)', 'fit(model, x, y)');
  const lab = await Lab.open(page, request, 'r.ipynb', content);
  // As a kernel of R leaves it; JupyterLab writes there what its kernel is.
  await lab.inNotebook(panel => {
    const shared = panel.content.model.sharedModel as unknown as {
      setMetadata(name: string, value: object): void;
    };
    shared.setMetadata('kernelspec', { name: 'ir', display_name: 'R', language: 'R' });
    shared.setMetadata('language_info', { name: 'R' });
  });
  await lab.execute('jupyter-hvd:convert', { path: 'r.ipynb' });
  await expect(lab.diff.getByRole('alert')).toContainText('written in R, not in Python');
  await picture(page, 'r');
});

test('the server is gone while the diff is open: nothing is lost', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'gone.ipynb', CLASSIFIER);
  await lab.convert();
  await (await lab.choice('Reject', 'HVD601', 9)).click();
  const print = await lab.choice('Restore', 'HVD601', 9);
  await page.route('**/jupyter-hvd/**', route => route.abort('connectionrefused'));
  await lab.setSource(0, '# Other words');
  const alert = lab.diff.getByRole('alert');
  await expect(alert).toContainText('Not converted again');
  await expect(print).toBeVisible();
  await lab.diff.getByRole('button', { name: 'Verify on 2 workers' }).click();
  await expect(alert.first()).toBeVisible();
  await picture(page, 'server-gone');
  await page.unroute('**/jupyter-hvd/**');
  await alert.getByRole('button', { name: 'Try again' }).click();
  await expect(alert).toHaveCount(0);
  await expect(print).toBeVisible();
});

test('a number of workers out of range stays to be corrected', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'range.ipynb', CLASSIFIER);
  await lab.convert();
  const panel = lab.diff.locator('.jp-hvd-verification');
  const field = panel.getByLabel('Workers');
  for (const wrong of ['0', '-1', '2.5', '']) {
    await field.fill(wrong);
    await expect(field).toHaveAttribute('aria-invalid', 'true');
    await expect(
      panel.getByRole('button', { name: 'Verify on 2 workers' })
    ).toBeVisible();
  }
  await page.keyboard.press('Tab');
  await expect(field).toHaveValue('2');
  await field.fill('3');
  await expect(panel.getByRole('button', { name: 'Verify on 3 workers' })).toBeVisible();
});
