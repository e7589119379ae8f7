/** The servers of the tests: one a worker, since a server verifies one notebook at a time and has one theme. */

export const TOKEN = 'ui-tests';
export const HEADERS = { Authorization: `token ${TOKEN}` };

/** Where a server is found on its port: as JupyterHub has each user's. `HVD_UI_BASE=/` is JupyterLab's own. */
export const BASE = process.env.HVD_UI_BASE ?? '/user/ada/';

export function portOf(worker: number): number {
  return Number(process.env.HVD_UI_PORT ?? 8899) + worker;
}

export function urlOf(worker: number): string {
  return `http://127.0.0.1:${portOf(worker)}${BASE}`;
}
