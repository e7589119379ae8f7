import { expect } from '@playwright/test';

import { test } from './fixtures';
import { Lab, notebook, picture } from './lab';
import { CLASSIFIER, DISTRIBUTED, FITTED, IMPORTS, LOOP, MODEL } from './notebooks';

/** For what starts TensorFlow, several times over. */
const patient = { timeout: 120_000 };

test(
  'menu, diff, leave a change, apply, run, undo',
  { tag: '@installed' },
  async ({ page, request }) => {
    const lab = await Lab.open(page, request, 'apply.ipynb', CLASSIFIER, {
      ownKernel: true
    });
    const before = await lab.sources();
    await page.getByRole('menuitem', { name: 'Edit' }).click();
    await page.getByRole('menuitem', { name: 'Convert Notebook to Horovod' }).click();
    await expect(lab.diff.getByText('jhvd.start_shared()')).toBeVisible();
    await picture(page, 'diff');
    const wrapped = lab.diff.locator('.cm-lineWrapping');
    await expect(wrapped.first()).toBeVisible();
    await lab.execute('jupyter-hvd:toggle-wrap');
    await expect(wrapped).toHaveCount(0);
    await lab.execute('jupyter-hvd:toggle-wrap');
    await expect(wrapped.first()).toBeVisible();

    const loop = await lab.cell(9);
    await (await lab.choice('Reject', 'HVD601', 9)).click();
    await expect(loop.locator('.cm-line', { hasText: 'hvd.rank()' })).toHaveCount(0);
    await expect(lab.diff.getByText(/\d accepted/)).toBeVisible();

    await page.getByRole('button', { name: 'Apply to Notebook' }).click();
    await expect(lab.diff.getByText('The changes are in the notebook.')).toBeVisible();
    const after = await lab.sources();
    expect(after[1]).toContain('jhvd.start_shared()');
    expect(after[5]).toContain('hvd.size()');
    expect(after[8]).toContain('    print(f"epoch');
    expect(after[8]).not.toContain('hvd.rank()');
    await picture(page, 'applied');

    await lab.run(1);
    expect(await lab.errorsOf(1)).toEqual([]);
    await lab.execute('notebook:undo-cell-action');
    expect(await lab.sources()).toEqual(before);
  }
);

test('the unsaved text is converted; an edited notebook is converted anew', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'stale.ipynb', CLASSIFIER);
  await lab.setSource(8, LOOP.replace('loss {', 'unsaved {'));
  await lab.convert();
  await lab.shows(9, 'unsaved');
  await (await lab.choice('Reject', 'HVD601', 9)).click();

  await lab.setSource(5, MODEL.replace('1e-3', '5e-4'));
  await expect(lab.diff.getByText('The diff is up to date')).toBeVisible();
  await lab.shows(6, '5e-4 * hvd.size()');
  await expect(
    await lab.choice('Restore', 'HVD601', 9),
    'what was left out stays left out'
  ).toBeVisible();

  await lab.inNotebook(panel =>
    panel.content.model.sharedModel.cells[5].setSource('x = 1')
  );
  await lab.execute('jupyter-hvd:apply');
  expect((await lab.sources())[5], 'nothing is applied that was not looked at').toBe(
    'x = 1'
  );
});

test('save as copy, export script', async ({ page, request }) => {
  const lab = await Lab.open(page, request, 'save.ipynb', CLASSIFIER);
  const before = await lab.sources();
  await lab.convert();
  await page.getByRole('button', { name: 'Save as Copy' }).click();
  await expect(page.getByRole('tab', { name: /save_hvd\.ipynb/ }).first()).toBeVisible();
  const copy = await (await request.get('api/contents/save_hvd.ipynb')).json();
  expect(copy.content.cells[1].source).toContain('jhvd.start_shared()');
  expect(copy.content.cells[0].source).toBe(before[0]);

  await lab.convert();
  await page.getByRole('button', { name: 'Export Script' }).click();
  await expect(page.getByRole('tab', { name: /save_hvd\.py/ }).first()).toBeVisible();
  const script = await (await request.get('api/contents/save_hvd.py')).json();
  expect(script.content).toContain(
    '# %%\nimport jupyter_hvd.runtime as jhvd\njhvd.start_shared()'
  );
  expect(await lab.sources()).toEqual(before);

  await lab.convert();
  await page.getByRole('button', { name: 'Save as Copy' }).click();
  await expect(
    page.getByRole('tab', { name: /save_hvd-1\.ipynb/ }).first(),
    'a file that is there is not written over'
  ).toBeVisible();
});

test('a notebook that cannot be converted says why, and where', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'refused.ipynb', DISTRIBUTED);
  await lab.convert();
  await expect(lab.diff.getByText('This notebook is not converted')).toBeVisible();
  await expect(lab.diff.locator('.jp-hvd-margin .jp-hvd-mod-error')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Apply to Notebook' })).toBeDisabled();
  await lab.diff.getByRole('button', { name: 'cell 3, line 1' }).click();
  await expect(lab.diff.locator('.jp-hvd-lit')).toContainText(
    'MultiWorkerMirroredStrategy'
  );
  await picture(page, 'refused');

  await lab.diff.getByRole('button', { name: 'HVD902' }).click();
  const page902 = page.getByRole('dialog');
  await expect(page902).toContainText('HVD902: other distribution');
  await expect(page902).toContainText('tf.distribute');
  await picture(page, 'rule');
  await page902.getByRole('button', { name: 'Close' }).click();
});

test('nothing to convert, broken syntax, no server part', async ({ page, request }) => {
  const lab = await Lab.open(
    page,
    request,
    'states.ipynb',
    notebook('x = 1', 'print(x)')
  );
  await lab.convert();
  await expect(lab.diff.getByText('Nothing to convert')).toBeVisible();
  await lab.setSource(0, 'x = = 1');
  await expect(lab.diff.getByText('It is not valid Python')).toBeVisible();

  await page.route('**/jupyter-hvd/convert*', route =>
    route.fulfill({ status: 500, json: { message: 'the converter broke down' } })
  );
  await lab.setSource(0, 'x = 1');
  await expect(lab.diff.getByRole('alert')).toContainText('the converter broke down');
  await page.unroute('**/jupyter-hvd/convert*');
  await lab.diff.getByRole('button', { name: 'Try again' }).click();
  await expect(lab.diff.getByText('Nothing to convert')).toBeVisible();
});

test(
  'verify live, and cancel',
  { tag: ['@installed', '@long'] },
  async ({ page, request }) => {
    const lab = await Lab.open(page, request, 'verify.ipynb', CLASSIFIER);
    await lab.convert();
    const panel = lab.diff.locator('.jp-hvd-verification');
    await panel.getByRole('button', { name: 'Verify on 2 workers' }).click();
    await expect(panel.getByRole('row', { name: /passed one process \d/ })).toBeVisible(
      patient
    );
    await panel.getByRole('button', { name: 'Cancel' }).click();
    await expect(panel.getByText('Cancelled.')).toBeVisible();

    // The server ends the processes of the first before it starts a second.
    await panel.getByRole('button', { name: 'Verify on 2 workers' }).click();
    await expect(
      panel.getByRole('row', { name: /passed scaled to 2: rates 0.001 → 0.002/ })
    ).toBeVisible(patient);
    await picture(page, 'verifying');
    await expect(
      panel.getByText(/^On 2 ranks the scaled program gives the results of one process/)
    ).toBeVisible(patient);
    await panel.evaluate(node => node.scrollIntoView());
    const beyond = await panel
      .getByRole('table')
      .evaluate(
        node => node.getBoundingClientRect().width - node.parentElement!.clientWidth
      );
    expect(beyond, 'what the checks say is not cut off').toBeLessThanOrEqual(0);
    await picture(page, 'verified');
  }
);

test('cost: parameters from source and kernel, entered step time, sliders', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'cost.ipynb', CLASSIFIER, {
    ownKernel: true
  });
  await lab.convert();
  const cost = lab.diff.locator('.jp-hvd-cost');
  await cost.getByText('Assumptions').click();
  await expect(cost.getByText('counted from the source of model')).toBeVisible();
  await expect(cost.getByLabel('Parameters')).toHaveValue('693962');

  await cost.getByLabel('Step time, ms').fill('5');
  await expect(
    cost.getByRole('img', { name: /^Estimated speed-up over 1 to 64 workers/ })
  ).toBeVisible();
  await cost.getByRole('slider', { name: 'Workers' }).fill('16');
  await expect(cost.locator('.jp-hvd-hint')).toContainText(
    /^Worth it\. 16 workers train/
  );
  await expect(
    cost.getByText(/^Beyond \d+ workers, communication takes over half/)
  ).toBeVisible();
  await cost.getByLabel('Where').selectOption('NVLink 4');
  await expect(cost.getByText(/^Up to 64 workers, communication/)).toBeVisible();
  await cost.getByLabel('Parameters').fill('60000000');
  await expect(cost.getByText('240 MB')).toBeVisible();

  await cost.getByRole('button', { name: 'Measure' }).click();
  await expect(cost.getByText(/there are no ranks/)).toBeVisible();

  await lab.run(1);
  await lab.run(5);
  await lab.convert();
  await cost.getByLabel('Parameters').fill('');
  await expect(cost.getByLabel('Parameters')).toHaveValue('');
  await page.keyboard.press('Tab');
  await expect(cost.getByText('read from model in the running kernel')).toBeVisible();
  await expect(cost.getByLabel('Parameters')).toHaveValue('693962');
});

test('applied changes are told as such, however long the next conversion takes', async ({
  page,
  request
}) => {
  const lab = await Lab.open(page, request, 'slow.ipynb', CLASSIFIER);
  await lab.convert();
  await page.route('**/jupyter-hvd/convert*', async route => {
    await new Promise(resolve => setTimeout(resolve, 1500));
    await route.continue();
  });
  const asked: string[] = [];
  page.on('request', sent => void (/hvd.convert/.test(sent.url()) && asked.push('')));
  await page.getByRole('button', { name: 'Apply to Notebook' }).click();
  await expect(lab.diff.getByText('The changes are in the notebook.')).toBeVisible();
  expect(asked.length, 'once is enough').toBe(1);
});

test(
  'options are kept in the notebook, for conversion and verification',
  { tag: '@long' },
  async ({ page, request }) => {
    const content = structuredClone(FITTED);
    content.cells[3].source = content.cells[3].source.replace('epochs=4', 'epochs=1');
    const lab = await Lab.open(page, request, 'options.ipynb', content);
    await lab.convert();
    const options = lab.diff.locator('.jp-hvd-options');
    await options.getByLabel('Warm-up epochs').fill('3');
    await page.keyboard.press('Enter');
    await expect
      .poll(() => lab.diff.getByText(/warmup/).count(), 'the warm-up is in the program')
      .toBeGreaterThan(0);
    await options.getByLabel('Guard').selectOption('no');
    await lab.shows(1, 'guard=False');
    await picture(page, 'options');

    const verified = page.waitForRequest('**/jupyter-hvd/verify*');
    await lab.diff.getByRole('button', { name: 'Verify on 2 workers' }).click();
    const chosen = {
      warmup_epochs: 3,
      guard: false
    };
    expect((await verified).postDataJSON().options).toEqual(chosen);
    await lab.diff.getByRole('button', { name: 'Cancel' }).click();
    await expect(lab.diff.getByText('Cancelled.')).toBeVisible();

    await options.getByRole('button', { name: 'Reset to defaults' }).click();
    await lab.diff.getByRole('radio', { name: 'Same result (global)' }).check();
    await lab.shows(1, 'start_shared()');
    const panel = lab.diff.locator('.jp-hvd-verification');
    await panel.getByRole('button', { name: 'Verify on 2 workers' }).click();
    await expect(panel.getByRole('row', { name: /passed 2 ranks: losses/ })).toBeVisible(
      patient
    );
    await expect(
      panel.getByText(/On 2 ranks the program gives one process's results/)
    ).toBeVisible(patient);
    await panel.evaluate(node => node.scrollIntoView());
    await picture(page, 'verified-global');

    await lab.execute('docmanager:open', { path: 'options.ipynb' });
    await lab.execute('docmanager:save');
    const saved = await (await request.get('api/contents/options.ipynb')).json();
    expect(saved.content.metadata.jupyter_hvd).toEqual({ options: { batch: 'global' } });
  }
);

test('options of a notebook that is opened; wrong ones; none', async ({
  page,
  request
}) => {
  const content = {
    ...FITTED,
    metadata: {
      ...FITTED.metadata,
      jupyter_hvd: { options: { warmup_epochs: 3 } }
    }
  };
  const lab = await Lab.open(page, request, 'opened.ipynb', content);
  await lab.convert();
  const options = lab.diff.locator('.jp-hvd-options');
  await expect(options.getByLabel('Warm-up epochs')).toHaveValue('3');

  await options.getByLabel('Warm-up epochs').fill('1.5');
  await page.keyboard.press('Enter');
  await expect(options.getByRole('alert')).toHaveText('A whole number, 0 or more.');
  await picture(page, 'options-wrong');
  await lab.diff.getByRole('button', { name: 'Reset to defaults' }).click();
  await lab.shows(1, 'jhvd.start_shared()');
  await expect(options.getByLabel('Warm-up epochs')).toHaveValue('');
});

test('the diff comes back after a reload', async ({ page, request }) => {
  const lab = await Lab.open(page, request, 'reload-diff.ipynb', CLASSIFIER);
  await lab.convert();
  await lab.kept(request, /jupyter-hvd:reload-diff/);
  await lab.reload();
  await expect(lab.diff.locator('.jp-hvd-columns')).toBeVisible();
});

test('dark theme', async ({ page, request }) => {
  const lab = await Lab.open(page, request, 'dark.ipynb', CLASSIFIER);
  await lab.convert();
  await lab.diff.getByLabel('Step time, ms').fill('20');
  await lab.execute('apputils:change-theme', { theme: 'JupyterLab Dark' });
  await expect(page.locator('body')).toHaveAttribute('data-jp-theme-light', 'false');
  await expect(lab.diff.getByText('jhvd.start_shared()')).toBeVisible();
  const colour = await lab.diff
    .locator('.cm-editor')
    .first()
    .evaluate(node => getComputedStyle(node).backgroundColor);
  expect(Math.max(...colour.match(/\d+/g)!.slice(0, 3).map(Number))).toBeLessThan(80);
  await picture(page, 'dark');
  await lab.execute('apputils:change-theme', { theme: 'JupyterLab Light' });
  await expect(page.locator('body')).toHaveAttribute('data-jp-theme-light', 'true');
});

test('by palette, toolbar, file browser and keyboard', async ({ page, request }) => {
  const lab = await Lab.open(page, request, 'keys.ipynb', CLASSIFIER);
  await page.getByRole('button', { name: /Preview the changes/ }).click();
  await expect(lab.diff.locator('.jp-hvd-columns')).toBeVisible();
  await lab.diff.getByText('Handwritten digits').click();
  await expect(lab.diff.locator('.jp-RenderedMarkdown h1')).toHaveText(
    /Handwritten digits/
  );
  await lab.diff.locator('.jp-hvd-fold > button').first().click();
  await expect(lab.diff.locator('.jp-RenderedMarkdown h1')).toHaveCount(0);

  await page.keyboard.press('Alt+ArrowDown');
  const first = lab.diff.locator('.jp-hvd-choice').first();
  await expect(first).toBeFocused();
  await page.keyboard.press('Space');
  await expect(first).toHaveText('Restore');
  await page.keyboard.press('Alt+ArrowDown');
  await expect(lab.diff.locator('.jp-hvd-choice').nth(1)).toBeFocused();
  await page.keyboard.press('Alt+ArrowUp');
  await page.keyboard.press('Space');
  await page.keyboard.press('Control+Enter');
  await expect(lab.diff.getByText('The changes are in the notebook.')).toBeVisible();
  await lab.diff.getByRole('button', { name: 'Undo' }).click();
  await expect(lab.diff.getByText('jhvd.start_shared()')).toBeVisible();

  await page
    .getByRole('tab', { name: /Horovod/ })
    .locator('.lm-TabBar-tabCloseIcon')
    .click();
  await expect(lab.diff).toHaveCount(0);
  await page
    .locator('.jp-DirListing-item', { hasText: 'keys.ipynb' })
    .click({ button: 'right' });
  await page.getByRole('menuitem', { name: 'Convert Notebook to Horovod' }).click();
  await expect(lab.diff.getByText('jhvd.start_shared()')).toBeVisible();

  await lab.execute('apputils:activate-command-palette');
  await page.locator('.lm-CommandPalette-input:visible').fill('Convert Notebook to');
  await expect(
    page.locator('.lm-CommandPalette-item', { hasText: 'Convert Notebook to Horovod' })
  ).toBeVisible();
});

test('300 cells', async ({ page, request }) => {
  const middle = Array.from({ length: 297 }, (_, i) =>
    i % 3
      ? `print("step ${i}", np.sum(np.arange(${i})))\nvalue_${i} = ${i}`
      : `## Part ${i}`
  );
  const content = notebook(IMPORTS, ...middle, MODEL, 'model.compile("adam", "mse")');
  const training = `model.fit(np.zeros((64, 28, 28, 1)), np.zeros((64, 10)))`;
  content.cells[299].source += `\n${training}`;
  const lab = await Lab.open(page, request, 'long.ipynb', content);
  await lab.convert(); // The worker is warm from here on, as it is for a user's second look.
  await page
    .getByRole('tab', { name: /Horovod/ })
    .locator('.lm-TabBar-tabCloseIcon')
    .click();
  const [opened, answered] = await page.evaluate(async () => {
    const start = performance.now();
    await window.jupyterapp.commands.execute('jupyter-hvd:convert');
    while (!document.querySelector('.jp-hvd-Conversion .cm-merge-b')) {
      await new Promise(requestAnimationFrame);
    }
    const asked = performance
      .getEntriesByType('resource')
      .filter(entry => /jupyter-hvd.convert/.test(entry.name));
    return [performance.now() - start, asked.at(-1)!.duration];
  });
  const last = lab.diff.getByRole('region', { name: 'Cell 300', exact: true });
  await last.waitFor({ state: 'attached' }); // What is below the screen comes after it.
  const frames = await page.evaluate(async () => {
    const main = document.querySelector('.jp-hvd-main')!;
    const times: number[] = [];
    let last = performance.now();
    while (times.length < 100) {
      main.scrollTop += 120;
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      times.push(now - last);
      last = now;
    }
    main.scrollTop = main.scrollHeight;
    return times.sort((a, b) => a - b);
  });
  const [median, most] = [0.5, 0.99].map(
    q => frames[Math.floor(q * (frames.length - 1))]
  );
  console.log(
    `300 cells: diff after ${opened.toFixed(0)} ms (server ${answered.toFixed(0)} ms); ${frames.length} frames while scrolling, ` +
      `median ${median.toFixed(0)} ms, 99 % within ${most.toFixed(0)} ms`
  );
  await lab.shows(300, 'model.fit');
});
