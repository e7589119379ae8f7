import { expect } from '@playwright/test';

import { violations } from './axe';
import { test } from './fixtures';
import { Lab, notebook, picture } from './lab';

const HANGING = '%%distribute -n 2\nimport time\nwhile True:\n    time.sleep(0.1)';

test('where the workers are, while a cell hangs; interrupt', async ({
  page,
  request
}) => {
  const content = notebook('%load_ext jupyter_hvd', HANGING);
  const lab = await Lab.open(page, request, 'hangs.ipynb', content, { ownKernel: true });
  await lab.run(0);
  const hanging = lab.run(1);
  const item = page.getByRole('button', { name: 'Workers', exact: true });
  await expect(item).toBeVisible();
  const dialog = page.getByRole('dialog');
  await expect(async () => {
    if (await dialog.isVisible()) {
      await page.keyboard.press('Escape');
    }
    await item.click();
    await expect(dialog).toContainText(/In\[\d+\], line [34]/, { timeout: 5000 });
  }, 'once the workers have started').toPass({ timeout: 100_000 });
  expect(await violations(page, '.jp-Dialog-content')).toEqual([]);
  await picture(page, 'workers');
  await dialog.getByRole('button', { name: 'Interrupt' }).click();
  await hanging;
  expect(JSON.stringify(await lab.errorsOf(1))).toContain('KeyboardInterrupt');
});
