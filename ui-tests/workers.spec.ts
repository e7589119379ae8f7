import { expect } from '@playwright/test';

import { violations } from './axe';
import { test } from './fixtures';
import { Lab, notebook, picture, uncovered } from './lab';

// Ranks import TensorFlow, which takes minutes on a crowded machine.
test.setTimeout(900_000);

const LOAD = '%load_ext jupyter_hvd\nimport numpy as np';
/** Ranks that differ in one number, print, and then wait for one another in different lines. */
const HANGING = `%%distribute -n 2
import horovod.tensorflow as hvd, numpy as np, tensorflow as tf, time
table = np.zeros((3, 2))
if hvd.rank() == 1:
    table[2, 1] = 7
print('rank', hvd.rank(), 'has begun', flush=True)
if hvd.rank() == 0:
    hvd.allreduce(tf.constant(1.0), name='loss')
while True:
    time.sleep(0.1)`;

test(
  'the workers while a cell hangs: lines, output, variables; interrupt; restart',
  { tag: '@long' },
  async ({ page, request }) => {
    const content = notebook(LOAD, HANGING);
    const lab = await Lab.open(page, request, 'hangs.ipynb', content, {
      ownKernel: true
    });
    const item = page.getByRole('button', { name: 'Workers', exact: true });
    const panel = page.locator('.jp-hvd-WorkersPanel:visible');
    const tab = (name: RegExp | string) => panel.getByRole('tab', { name });
    const patient = { timeout: 300_000 };

    await lab.run(0);
    await item.click();
    await expect(panel.getByText(/no cell with %%distribute has run/)).toBeVisible();
    const interrupted = lab.run(1);
    const rows = panel.getByRole('table', { name: 'Where they are' }).getByRole('row');
    await expect(rows.nth(1)).toContainText('waits in allreduce of loss', patient);
    await expect(rows.nth(1)).toContainText(/In\[2\], line 8/);
    await expect(rows.nth(2)).toContainText(
      /In\[2\], line (9|10).*time\.sleep|while True/
    );
    await expect(rows.nth(2)).toContainText(/\d+ MB/);
    await expect(panel.getByRole('status').first()).toHaveText('In[2] runs.');
    await expect(panel.getByText('Rank 0 waits for rank 1.')).toBeVisible(patient);
    const table = panel.locator('table.jp-hvd-variables');
    await expect(table).toContainText(
      'differs from rank 0: [2, 1]: 7.0 instead of 0.0, largest difference 7, 1 of 6 entries'
    );
    await expect(table.getByRole('row').nth(1)).toContainText('table');
    expect(await violations(page, '.jp-hvd-WorkersPanel')).toEqual([]);
    await picture(page, 'workers');

    // By keyboard: from the tab of all to the second worker's, which is marked.
    await tab('All').focus();
    await page.keyboard.press('End');
    await expect(tab(/^Rank 1/)).toBeFocused();
    await expect(tab(/^Rank 1/)).toHaveAttribute('aria-selected', 'true');
    await expect(tab(/1 variable differs/)).toHaveCount(1);
    const output = panel.getByRole('region', { name: 'Output of rank 1' });
    await expect(output).toHaveText('rank 1 has begun');
    await expect(panel.getByRole('tabpanel')).toContainText('sleeps');
    await panel.getByRole('searchbox', { name: 'Name' }).fill('table');
    await expect(table.getByRole('row')).toHaveCount(2);
    await expect(table).toContainText('[2, 1]: 7.0 instead of 0.0');
    expect(await violations(page, '.jp-hvd-WorkersPanel')).toEqual([]);
    await picture(page, 'workers-rank');
    await tab(/^Rank 1/).focus();
    await page.keyboard.press('ArrowRight');
    await expect(tab('All')).toBeFocused();
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('ArrowLeft');
    await expect(tab(/^Rank 0/)).toBeFocused();
    await expect(panel.getByText('differs on rank 1')).toBeVisible();

    await page.emulateMedia({ forcedColors: 'active' });
    expect(await violations(page, '.jp-hvd-WorkersPanel')).toEqual([]);
    await picture(page, 'workers-forced-colours');
    await page.emulateMedia({ forcedColors: 'none' });
    await lab.execute('apputils:change-theme', { theme: 'JupyterLab Dark' });
    await expect(page.locator('body')).toHaveAttribute('data-jp-theme-light', 'false');
    await uncovered(page);
    expect(await violations(page, '.jp-hvd-WorkersPanel')).toEqual([]);
    await picture(page, 'workers-dark');

    await panel.getByRole('button', { name: 'Interrupt' }).click();
    await interrupted;
    expect(JSON.stringify(await lab.errorsOf(1))).toContain('KeyboardInterrupt');
    await expect(panel.getByText('No cell runs on the workers.')).toBeVisible(patient);

    await panel.getByRole('button', { name: 'Restart Kernel…' }).click();
    await page.getByRole('button', { name: 'Confirm Kernel Restart' }).click();
    await expect(panel.getByText(/This kernel has no workers/)).toBeVisible(patient);
  }
);

test(
  'the panel follows cells, and asks nothing while nobody sees it',
  { tag: '@long' },
  async ({ page, request }) => {
    const content = notebook(
      LOAD,
      '%%distribute -n 2\ncount = 1',
      '%%rank 1\ncount = 5',
      '%%rank 0\nraise ValueError("planted")'
    );
    const lab = await Lab.open(page, request, 'follows.ipynb', content, {
      ownKernel: true
    });
    const panel = page.locator('.jp-hvd-WorkersPanel:visible');
    await lab.run(0);
    await lab.run(1);
    await lab.execute('jupyter-hvd:where');
    await expect(panel.getByText('0 differ, ')).toBeVisible();
    await lab.run(2);
    await expect(panel.getByText('5 instead of 1, a difference of 4')).toBeVisible();
    await lab.run(3).catch(() => undefined);
    await expect(panel.getByText('1 differ, ')).toBeVisible();

    // A question is a message to the kernel on its websocket.
    await page.evaluate(() => {
      const { send } = WebSocket.prototype;
      window.hvdAsked = 0;
      WebSocket.prototype.send = function (data) {
        const text =
          typeof data === 'string' ? data : new TextDecoder().decode(data as ArrayBuffer);
        window.hvdAsked! += Number(text.includes('hvd_look_request'));
        return send.call(this, data);
      };
    });
    const asked = (): Promise<number> => page.evaluate(() => window.hvdAsked!);
    await panel.getByRole('button', { name: 'Refresh' }).click();
    await expect.poll(asked).toBeGreaterThan(0);
    await page
      .getByRole('tab', { name: /Workers of follows/ })
      .getByTitle('Close')
      .first()
      .click();
    const before = await asked();
    await lab.run(2);
    expect(await asked()).toBe(before);
  }
);

test(
  'a breakpoint on one worker: its debugger in the notebook, and why the others wait',
  { tag: '@long' },
  async ({ page, request }) => {
    const stops = `%%distribute -n 2
import horovod.tensorflow as hvd, tensorflow as tf
total = 40
breakpoint()
total += 2
hvd.allreduce(tf.constant(1.0), name='loss')
print('total', total)`;
    const lab = await Lab.open(page, request, 'stops.ipynb', notebook(LOAD, stops), {
      ownKernel: true
    });
    const panel = page.locator('.jp-hvd-WorkersPanel:visible');
    const input = page.locator('.jp-Stdin-input');
    await lab.run(0);
    const ended = lab.run(1);
    await expect(input).toBeVisible({ timeout: 600_000 });
    await lab.execute('jupyter-hvd:where');
    await expect(
      panel.getByText(
        /Rank 1 waits for rank 0, which stands at a breakpoint \(In\[2\], line 4\)/
      )
    ).toBeVisible();
    await expect(panel.getByRole('row').nth(1)).toContainText('stands at a breakpoint');
    await picture(page, 'workers-breakpoint');
    const output = page.locator('.jp-OutputArea');
    // Each question has a field of its own.
    for (const [command, answer] of [
      ['n', '-> total += 2'],
      ['p total', '40'],
      ['c', 'total 42']
    ]) {
      await expect(input).toHaveCount(1);
      await input.fill(command);
      await input.press('Enter');
      await expect(
        output.getByText(answer).filter({ visible: true }).first()
      ).toBeVisible();
    }
    await ended;
    await expect(input).toHaveCount(0);
  }
);

declare global {
  interface Window {
    hvdAsked?: number;
  }
}
