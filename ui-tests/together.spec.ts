import { expect, Locator, Page } from '@playwright/test';

import { test } from './fixtures';
import { Lab, notebook, picture } from './lab';
import { CLASSIFIER } from './notebooks';

const TENSOR = `\
%%tensor
def square(x):
    return sum(x[i] * x[i] for i in range(len(x)))

def fourth(x):
    return sum(x[i] ** 4 for i in range(len(x)))`;

const total = (page: Page): Locator =>
  page
    .locator('.jp-hvd-GradCost:visible')
    .getByRole('row', { name: /^Value / })
    .locator('.jp-hvd-gc-total');

test(
  'two pages with one notebook: what one applies, the other has, and its diff goes on',
  { tag: '@long' },
  async ({ page, request }) => {
    const lab = await Lab.open(page, request, 'together.ipynb', CLASSIFIER);
    const other = await Lab.beside(lab);
    try {
      await lab.convert();
      await other.convert();
      await (await lab.choice('Reject', 'HVD601', 9)).click();
      await other.setSource(
        8,
        (await other.sources())[8].replace('range(2)', 'range(3)')
      );
      await lab.follow(other);
      await lab.shows(9, 'range(3)');
      await expect(
        await lab.choice('Restore', 'HVD601', 9),
        'what one leaves out stays left out when the other edits'
      ).toBeVisible();

      await page.getByRole('button', { name: 'Apply to Notebook' }).click();
      await expect(lab.diff.getByText('The changes are in the notebook.')).toBeVisible();
      await other.follow(lab);
      const sources = await other.sources();
      expect(sources, 'nothing is lost or there twice').toEqual(await lab.sources());
      expect(sources[1].match(/jhvd\.start_shared\(\)/g)).toHaveLength(1);
      expect(sources[8]).toMatch(/range\(3\)[^]*\n {4}print\(f"epoch/);
      await expect(
        other.diff.getByText('this program is converted already').first()
      ).toBeVisible();
      await picture(other.page, 'together');
    } finally {
      await other.page.close();
    }
  }
);

test(
  'two pages with one gradient panel: sizes, comparison and measurement are one',
  { tag: '@long' },
  async ({ page, request }) => {
    const lab = await Lab.open(
      page,
      request,
      'together-cost.ipynb',
      notebook(
        '%load_ext jupyter_hvd',
        TENSOR,
        'import numpy as np\nsquare(np.ones(64)), fourth(np.ones(64))',
        '%gradcost square --wrt x'
      )
    );
    for (let i = 0; i < 4; i++) {
      await lab.run(i);
    }
    await expect(total(page)).toHaveAttribute('value', '127');
    const other = await Lab.beside(lab);
    await other.follow(lab);
    const there = other.page.locator('.jp-hvd-GradCost:visible');
    await expect(there.getByRole('slider')).toBeEnabled();

    await page.getByRole('slider').focus();
    await page.keyboard.press('PageUp');
    await expect(total(page)).toHaveAttribute('value', '255');
    await expect(total(other.page)).toHaveAttribute('value', '255');
    // Where the notebook is shared, the panel comes anew with the figures that the other page keeps.
    await expect.poll(() => lab.output(3, 'text/plain')).toContain('x_0 = 128');
    await expect(() =>
      there.getByRole('checkbox', { name: 'fourth' }).check({ timeout: 5000 })
    ).toPass();
    await expect(
      page.getByRole('img', { name: /^Operations of square, fourth over x_0/ })
    ).toBeVisible();
    await there.getByRole('button', { name: 'Measure', exact: true }).click();
    await page
      .locator('.jp-hvd-GradCost:visible')
      .getByRole('button', { name: 'Cancel' })
      .click();
    await expect(
      there.getByRole('button', { name: 'Measure', exact: true })
    ).toBeEnabled();

    await expect(page.locator('.jp-hvd-GradCost:visible')).toHaveCount(1);
    await other.page.close();
    await page.keyboard.press('Escape');
    await page.getByRole('slider').focus();
    await page.keyboard.press('PageUp');
    await expect(total(page), 'the panel that is left goes on').toHaveAttribute(
      'value',
      '511'
    );
  }
);
