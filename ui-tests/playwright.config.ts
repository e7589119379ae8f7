import { cpus } from 'node:os';

import { defineConfig } from '@playwright/test';

import { BASE, HEADERS, portOf, TOKEN, urlOf } from './server';

/** Two at a time: what starts TensorFlow waits for the other now and then. */
const workers = Math.min(2, cpus().length);

/** The tests of the extension in a real browser; Chromium is the system's own. */
export default defineConfig({
  testDir: '.',
  outputDir: '../build/ui-tests',
  reporter: [['list']],
  workers,
  fullyParallel: true,
  // A test may find a machine that does something else for some minutes. What passes at its second or third
  // turn is told as flaky, at the end and by name.
  retries: 2,
  timeout: 300_000,
  expect: { timeout: 30_000 },
  use: {
    extraHTTPHeaders: HEADERS,
    viewport: { width: 1440, height: 900 },
    video: 'off',
    // What is recorded of every turn would be looked at of none.
    trace: 'on-first-retry',
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: [
        '--headless',
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync'
      ]
    }
  },
  webServer: Array.from({ length: workers }, (_, worker) => ({
    command: `jupyter lab --config ui-tests/jupyter_server_config.py --ServerApp.port=${portOf(worker)} --ServerApp.base_url=${BASE}`,
    cwd: '..',
    // Where the wheel is tried, the server's commands are those of its environment.
    env: { PATH: process.env.HVD_UI_PATH ?? process.env.PATH ?? '' },
    stderr: 'ignore',
    url: `${urlOf(worker)}api/status?token=${TOKEN}`,
    timeout: 180_000,
    gracefulShutdown: { signal: 'SIGTERM', timeout: 5000 }
  }))
});
