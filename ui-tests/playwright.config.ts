import { defineConfig } from '@playwright/test';

const port = process.env.HVD_UI_PORT ?? '8899';

/** The tests of the extension in a real browser; Chromium is the system's own. */
export default defineConfig({
  testDir: '.',
  outputDir: '../build/ui-tests',
  reporter: [['list']],
  workers: 1,
  timeout: 90_000,
  expect: { timeout: 15_000 },
  use: {
    baseURL: `http://127.0.0.1:${port}`,
    extraHTTPHeaders: { Authorization: 'token ui-tests' },
    viewport: { width: 1440, height: 900 },
    video: 'off',
    trace: 'retain-on-failure',
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
  webServer: {
    command: `jupyter lab --config ui-tests/jupyter_server_config.py --ServerApp.port=${port}`,
    cwd: '..',
    stderr: 'ignore',
    url: `http://127.0.0.1:${port}/api/status?token=ui-tests`,
    timeout: 60_000,
    gracefulShutdown: { signal: 'SIGTERM', timeout: 5000 }
  }
});
