import { APIRequestContext, Page, test as base } from '@playwright/test';

import { KEPT } from './lab';
import { urlOf } from './server';

/**
 * Tests that take a page, a server and a kernel from one another.
 *
 * Loading JupyterLab and starting a kernel take longer than most tests. A worker keeps one of each, and
 * every test leaves them as it found them: nothing open, no file, no route, the light theme.
 */
export const test = base.extend<{ tidy: null }, { kept: Page }>({
  // eslint-disable-next-line no-empty-pattern -- Playwright reads from it what a fixture needs
  baseURL: async ({}, use, { parallelIndex }) => use(urlOf(parallelIndex)),
  kept: [
    async ({ browser }, use, { parallelIndex, project }) => {
      const { extraHTTPHeaders, viewport } = project.use;
      const baseURL = urlOf(parallelIndex);
      const context = await browser.newContext({ baseURL, extraHTTPHeaders, viewport });
      await use(await context.newPage());
      await context.close();
    },
    { scope: 'worker' }
  ],
  page: async ({ kept }, use) => use(kept),
  tidy: [
    async ({ page, request }, use, info) => {
      await use(null);
      await page.unrouteAll({ behavior: 'ignoreErrors' });
      const failed = info.status !== info.expectedStatus;
      if (!failed) {
        await close(page);
      }
      // The kernel before the page: what a test waits for in it would fail with the page, and the worker with that.
      await end(request, failed);
      if (failed) {
        await page.goto('about:blank');
      }
    },
    { auto: true }
  ]
});

/** Close all that is open. */
async function close(page: Page): Promise<void> {
  await page.keyboard.press('Escape');
  await page.evaluate(async () => {
    const { jupyterapp: app } = window;
    // What one test was told of belongs on no picture of the next.
    if (app?.commands.hasCommand('apputils:dismiss-notification')) {
      await app.commands.execute('apputils:dismiss-notification');
    }
    for (const widget of [...(app?.shell.widgets('main') ?? [])]) {
      widget.dispose();
    }
    // The folder that is shown may be a test's own, which goes.
    if (app?.commands.hasCommand('filebrowser:go-to-path')) {
      await app.commands.execute('filebrowser:go-to-path', { path: '/' });
    }
    if (document.body.dataset.jpThemeLight === 'false') {
      await app.commands.execute('apputils:change-theme', { theme: 'JupyterLab Light' });
    }
  });
}

/** End the kernels but the one that is kept, and remove the files. */
async function end(request: APIRequestContext, all: boolean): Promise<void> {
  for (const { id, name } of await (await request.get('api/sessions')).json()) {
    if (all || name !== KEPT) {
      await request.delete(`api/sessions/${id}`);
    }
  }
  const { content } = await (await request.get('api/contents/')).json();
  for (const { path } of content) {
    await request.delete(`api/contents/${path}`);
  }
}
