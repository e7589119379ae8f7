import { expect } from '@playwright/test';

import { violations } from './axe';
import { test } from './fixtures';
import { Lab, notebook, picture } from './lab';

const HANGING = '%%distribute -n 2\nimport time\nwhile True:\n    time.sleep(0.1)';

test('where the workers are, while a cell hangs; interrupt; restart', async ({
  page,
  request
}) => {
  const content = notebook('%load_ext jupyter_hvd', HANGING);
  const lab = await Lab.open(page, request, 'hangs.ipynb', content, { ownKernel: true });
  const item = page.getByRole('button', { name: 'Workers', exact: true });
  const dialog = page.getByRole('dialog');
  const shows = (text: RegExp): Promise<void> =>
    expect(async () => {
      if (await dialog.isVisible()) {
        await page.keyboard.press('Escape');
      }
      await item.click();
      await expect(dialog).toContainText(text, { timeout: 12_000 });
    }).toPass({ timeout: 120_000 });

  await lab.run(0);
  const interrupted = lab.run(1);
  await shows(/In\[\d+\], line [34]/);
  expect(await violations(page, '.jp-Dialog-content')).toEqual([]);
  await picture(page, 'workers');
  await dialog.getByRole('button', { name: 'Interrupt' }).click();
  await interrupted;
  expect(JSON.stringify(await lab.errorsOf(1))).toContain('KeyboardInterrupt');

  const restarted = lab.run(1).catch(() => undefined);
  await shows(/In\[\d+\], line [34]/);
  await dialog.getByRole('button', { name: 'Restart Kernel' }).click();
  await restarted;
  await shows(/This kernel has no workers/);
  await dialog.getByRole('button', { name: 'Close' }).click();
});
