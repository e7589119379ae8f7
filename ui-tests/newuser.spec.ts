import { expect, Locator, Page } from '@playwright/test';

import { test } from './fixtures';
import { byPalette, tabTo } from './keys';
import { Lab, notebook, picture } from './lab';

/** For what starts TensorFlow, several times over, on a machine that does something else. */
const patient = { timeout: 240_000 };

const SMALL = notebook(
  'import numpy as np\nimport tensorflow as tf',
  'x = np.linspace(0, 1, 64, dtype="float32")[:, None]\ny = 3 * x + 1',
  `\
model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.SGD(0.1), "mse")`,
  'history = model.fit(x, y, batch_size=16, epochs=2, verbose=2)'
);

/** All that a terminal has shown; nothing until there is one. */
function terminalText(page: Page): Promise<string> {
  return page.evaluate(() => {
    const terminal = window.jupyterapp.shell.currentWidget as unknown as {
      content: {
        _term?: {
          buffer: {
            active: {
              length: number;
              getLine(row: number): { translateToString(trim: boolean): string };
            };
          };
        };
      };
    };
    const active = terminal.content._term?.buffer.active;
    if (!active) {
      return '';
    }
    return Array.from({ length: active.length }, (_, row) =>
      active.getLine(row).translateToString(true)
    ).join('\n');
  });
}

async function press(page: Page, control: Locator): Promise<void> {
  await tabTo(page, control);
  await page.keyboard.press('Enter');
}

test(
  'convert, verify, apply and run on 2 workers, by keyboard alone',
  { tag: '@installed' },
  async ({ page, request }) => {
    test.setTimeout(900_000);
    const lab = await Lab.open(page, request, 'my nets/first.ipynb', SMALL);
    await byPalette(page, 'Convert Notebook to Horovod');
    await expect(lab.diff.locator('.jp-hvd-steps')).toBeVisible(patient);
    await picture(page, 'walk-1-review');

    await page.keyboard.press('Control+Shift+Enter');
    await expect(
      lab.diff.getByText(/holds on 2 workers|as far as they were observed/).first()
    ).toBeVisible(patient);
    await picture(page, 'walk-2-verified');

    await page.keyboard.press('Control+Enter');
    await expect(lab.diff.getByText('The changes are in the notebook.')).toBeVisible(
      patient
    );
    await picture(page, 'walk-3-applied');

    await press(page, lab.diff.getByRole('button', { name: 'Run in a Terminal' }));
    await expect
      .poll(() => terminalText(page), patient)
      .toMatch(/jupyter-hvd run first\.ipynb -n 2/);
    await picture(page, 'walk-4-typed');
    await page.keyboard.press('Enter');
    await expect
      .poll(() => terminalText(page), patient)
      .toMatch(/Epoch 2\/2[^]*loss: [\d.e-]+/);
    await picture(page, 'walk-5-run');
  }
);

test(
  '%%distribute by keyboard alone: the training cell runs on 2 workers',
  { tag: ['@installed', '@long'] },
  async ({ page, request }) => {
    test.setTimeout(900_000);
    const lab = await Lab.open(page, request, 'cell.ipynb', SMALL, { ownKernel: true });
    await byPalette(page, 'Convert Notebook to Horovod');
    await expect(lab.diff.locator('.jp-hvd-steps')).toBeVisible(patient);
    await press(page, lab.diff.getByRole('button', { name: 'Use %%distribute' }));
    await expect(lab.diff.getByText(/%%distribute is on cell 5/)).toBeVisible(patient);
    await picture(page, 'walk-6-distribute');
    await byPalette(page, 'Activate Previous Tab');
    await byPalette(page, 'Run All Cells');
    await expect
      .poll(
        () =>
          lab.inNotebook(panel =>
            JSON.stringify(panel.content.model.sharedModel.cells[4].toJSON().outputs)
          ),
        patient
      )
      .toMatch(/Epoch 2\/2[^]*loss: [\d.e-]+/);
    await picture(page, 'walk-7-distributed');
  }
);
