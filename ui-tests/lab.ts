import { APIRequestContext, expect, Locator, Page } from '@playwright/test';

import { BASE, TOKEN } from './server';

/** What the tests use of the JupyterLab application that the page exposes. */
interface ILab {
  restored: Promise<void>;
  commands: {
    execute(id: string, args?: object): Promise<unknown>;
    hasCommand(id: string): boolean;
  };
  shell: { currentWidget: INotebook; widgets(area: string): Iterable<INotebook> };
}

interface INotebook {
  context: { path: string; revert(): Promise<void>; save(): Promise<void> };
  dispose(): void;
  revealed: Promise<void>;
  sessionContext: {
    ready: Promise<void>;
    session: { kernel: { info: Promise<unknown>; status: string } };
    restartKernel(): Promise<void>;
    shutdown(): Promise<void>;
  };
  content: {
    activeCellIndex: number;
    model: {
      sharedModel: { cells: ICell[] };
    };
  };
}

interface ICell {
  getSource(): string;
  setSource(text: string): void;
  toJSON(): {
    execution_count?: number | null;
    outputs?: { output_type: string; text?: string; data?: Record<string, unknown> }[];
  };
}

declare global {
  interface Window {
    jupyterapp: ILab;
  }
}

export interface INotebookFile {
  nbformat: number;
  nbformat_minor: number;
  metadata: object;
  cells: { cell_type: string; source: string }[];
}

/** A notebook as JSON: a string is a code cell, one that starts with `#` is markdown. */
export function notebook(...sources: string[]): INotebookFile {
  const cells = sources.map((source, i) =>
    source.startsWith('#')
      ? { cell_type: 'markdown', id: `c${i}`, metadata: {}, source }
      : {
          cell_type: 'code',
          id: `c${i}`,
          metadata: {},
          source,
          outputs: [],
          execution_count: null
        }
  );
  const kernelspec = { name: 'python3', display_name: 'Python 3', language: 'python' };
  return { nbformat: 4, nbformat_minor: 5, metadata: { kernelspec }, cells };
}

/** Wait until nothing lies over the page: JupyterLab's splash does, while a theme is loaded. */
export async function uncovered(page: Page): Promise<void> {
  await expect(page.locator('#jupyterlab-splash')).toHaveCount(0);
}

/** Where screenshots go: for people to look at, not to compare. */
export async function picture(page: Page, name: string): Promise<void> {
  await uncovered(page);
  await page.screenshot({ path: `build/screenshots/${name}.png` });
}

/** The name of the session whose kernel goes from test to test. */
export const KEPT = 'kept';

interface IOpening {
  /** Whether the test needs a kernel that has run nothing. */
  ownKernel?: boolean;
  /** Notebook 7 shows one notebook a page. */
  frontEnd?: 'JupyterLab' | 'Notebook 7';
}

/** JupyterLab, or Notebook 7, with one notebook open in it. */
export class Lab {
  constructor(
    readonly page: Page,
    readonly name: string
  ) {}

  static async open(
    page: Page,
    request: APIRequestContext,
    name: string,
    content: object,
    { ownKernel = false, frontEnd = 'JupyterLab' }: IOpening = {}
  ): Promise<Lab> {
    const [folder] = name.split('/').slice(0, -1);
    if (folder) {
      await request.put(`api/contents/${folder}`, { data: { type: 'directory' } });
    }
    const saved = await request.put(`api/contents/${name}`, {
      data: { type: 'notebook', format: 'json', content }
    });
    expect(saved.ok()).toBe(true);
    if (!ownKernel) {
      await lendKernel(request, name);
    }
    const lab = new Lab(page, name);
    if (frontEnd === 'Notebook 7') {
      await lab.load(() => page.goto(`notebooks/${name}?token=${TOKEN}`));
    } else {
      await lab.open();
    }
    return lab;
  }

  /** The notebook of a page in a second one, as another person has it, with a workspace of its own. */
  static async beside(first: Lab): Promise<Lab> {
    const page = await first.page.context().newPage();
    const lab = new Lab(page, first.name);
    await lab.load(() =>
      page.goto(`lab/workspaces/beside/tree/${first.name}?reset&token=${TOKEN}`)
    );
    return lab;
  }

  /** Wait until the notebook is as another page has it. Without jupyter-collaboration, that is by the file. */
  async follow(other: Lab): Promise<void> {
    if (process.env.HVD_UI_COLLABORATION) {
      const wanted = await other.sources();
      await expect.poll(() => this.sources()).toEqual(wanted);
    } else {
      await other.inNotebook(panel => panel.context.save());
      await this.inNotebook(panel => panel.context.revert());
    }
  }

  /** Open the notebook alone, in the page that is there, or in a new one. */
  private async open(): Promise<void> {
    if (!new URL(this.page.url()).pathname.startsWith(`${BASE}lab`)) {
      return this.load(() =>
        this.page.goto(`lab/tree/${this.name}?reset&token=${TOKEN}`)
      );
    }
    await this.execute('filebrowser:refresh');
    await this.execute('docmanager:open', { path: this.name });
    await this.ready();
    await this.page.evaluate(path => {
      // JupyterLab's launcher, which comes where nothing is open.
      for (const widget of [...window.jupyterapp.shell.widgets('main')]) {
        if (widget.context?.path !== path) {
          widget.dispose();
        }
      }
    }, this.name);
  }

  /** Wait until the server has the layout with some tab in it, which is saved a while after it has changed. */
  async kept(request: APIRequestContext, tab: RegExp): Promise<void> {
    await this.execute('docmanager:save');
    await expect
      .poll(async () => (await request.get('lab/api/workspaces/default')).text())
      .toMatch(tab);
  }

  /** Load the page again, as it was. */
  reload(): Promise<void> {
    return this.load(() => this.page.reload());
  }

  /** Load a page, and wait for its notebook; one that does not come in a minute is loaded again, as people do. */
  private load(page: () => Promise<unknown>): Promise<void> {
    return expect(async () => {
      await page();
      await this.ready();
    }).toPass();
  }

  /** Wait until the notebook is shown and its kernel answers; what is missing after a minute is named. */
  private async ready(): Promise<void> {
    await this.page.evaluate(async path => {
      let missing = 'the application';
      const late = new Promise<never>((_, reject) => {
        setTimeout(() => reject(new Error(`${missing} does not come`)), 60_000);
      });
      const until = async <T>(find: () => T | undefined): Promise<T> => {
        for (;;) {
          const found = find();
          if (found) {
            return found;
          }
          await Promise.race([late, new Promise(resolve => setTimeout(resolve, 50))]);
        }
      };
      const app = await until(() => window.jupyterapp);
      missing = 'its layout';
      await Promise.race([late, app.restored]);
      missing = path;
      const panel = await until(() =>
        [...app.shell.widgets('main')].find(widget => widget.context?.path === path)
      );
      await Promise.race([late, panel.revealed]);
      missing = 'its session';
      await Promise.race([late, panel.sessionContext.ready]);
      const kernel = await until(() => panel.sessionContext.session?.kernel);
      missing = 'its kernel';
      await Promise.race([late, kernel.info]);
    }, this.name);
  }

  get diff(): Locator {
    return this.page.locator('.jp-hvd-Conversion:visible');
  }

  /** What has the focus in the tab of the diff. */
  get focused(): Locator {
    // A button of the toolbar is two elements.
    return this.page.locator('.jp-hvd-tab:visible :focus').first();
  }

  /** A cell of the diff, scrolled to. */
  async cell(number: number): Promise<Locator> {
    const cell = this.diff.getByRole('region', { name: `Cell ${number}`, exact: true });
    // A new conversion puts another in its place.
    await expect(() => cell.scrollIntoViewIfNeeded({ timeout: 2000 })).toPass();
    return cell;
  }

  /** The button that rejects a rule's first change in a cell of the diff, or restores it. */
  async choice(
    verb: 'Reject' | 'Restore',
    rule: string,
    number: number
  ): Promise<Locator> {
    const name = new RegExp(`^${verb} ${rule}`);
    return (await this.cell(number)).getByRole('button', { name }).first();
  }

  /** Wait until a cell of the diff shows a text: what is far from the screen has no editor. */
  async shows(number: number, text: string): Promise<void> {
    await expect(async () => {
      const cell = await this.cell(number);
      await expect(cell.getByText(text).first()).toBeVisible({ timeout: 1000 });
    }).toPass();
  }

  execute(command: string, args: object = {}): Promise<unknown> {
    return this.page.evaluate(
      async ([id, given]) => void (await window.jupyterapp.commands.execute(id, given)),
      [command, args] as const
    );
  }

  /** Open the diff of the notebook, and wait until it shows. */
  async convert(): Promise<void> {
    await this.execute('jupyter-hvd:convert', { path: this.name });
    await this.diff.locator('.jp-hvd-columns').waitFor();
  }

  /** The texts of the notebook's cells. */
  sources(): Promise<string[]> {
    return this.inNotebook(panel =>
      panel.content.model.sharedModel.cells.map(cell => cell.getSource())
    );
  }

  setSource(index: number, text: string): Promise<void> {
    return this.inNotebook(
      (panel, [i, source]) => panel.content.model.sharedModel.cells[i].setSource(source),
      [index, text] as const
    );
  }

  /** Run a cell by command, and wait for its end. */
  async run(index: number): Promise<void> {
    await this.execute('docmanager:open', { path: this.name });
    await this.inNotebook((panel, i) => {
      panel.content.activeCellIndex = i;
    }, index);
    await this.execute('notebook:run-cell');
  }

  /** A cell's first output of a kind, as the notebook would save it now. */
  output(index: number, mime: string): Promise<string> {
    return this.inNotebook(
      (panel, [i, kind]) => {
        const outputs = panel.content.model.sharedModel.cells[i].toJSON().outputs ?? [];
        const found = outputs.find(output => output.data && kind in output.data);
        return String(found?.data?.[kind] ?? '');
      },
      [index, mime] as const
    );
  }

  /** The number at which a cell ran last. */
  executionCount(index: number): Promise<number> {
    return this.inNotebook(
      (panel, i) =>
        panel.content.model.sharedModel.cells[i].toJSON().execution_count ?? 0,
      index
    );
  }

  /** Restart the notebook's kernel, and wait until it answers. */
  async restart(): Promise<void> {
    await this.inNotebook(panel => panel.sessionContext.restartKernel());
    await this.inNotebook(panel => panel.sessionContext.session.kernel.info);
  }

  async shutDown(): Promise<void> {
    await this.inNotebook(panel => panel.sessionContext.shutdown());
  }

  /** Close the saved notebook, and open it again from its file, with or without a kernel. */
  async reopen(shouldStart: boolean): Promise<void> {
    await this.inNotebook(panel => panel.dispose());
    await this.execute('docmanager:open', { path: this.name, kernel: { shouldStart } });
  }

  /** What a cell says went wrong. */
  errorsOf(index: number): Promise<unknown[]> {
    return this.inNotebook(
      (panel, i) =>
        (panel.content.model.sharedModel.cells[i].toJSON().outputs ?? []).filter(
          output => output.output_type === 'error'
        ),
      index
    );
  }

  inNotebook<T, A>(work: (panel: INotebook, argument: A) => T, argument?: A): Promise<T> {
    return this.page.evaluate(
      ([path, source, given]) => {
        const panel = [...window.jupyterapp.shell.widgets('main')].find(
          widget => widget.context?.path === path
        );
        // The function travels as text.
        return new Function(`return (${source})`)()(panel, given);
      },
      [this.name, work.toString(), argument] as const
    );
  }
}

/** Give the kept kernel to a notebook that is opened next; it is started where there is none. */
async function lendKernel(request: APIRequestContext, path: string): Promise<void> {
  const running: { id: string; name: string }[] = await (
    await request.get('api/sessions')
  ).json();
  const kept = running.find(({ name }) => name === KEPT);
  const data = { path, name: KEPT, type: 'notebook' };
  const answer = kept
    ? await request.patch(`api/sessions/${kept.id}`, { data })
    : await request.post('api/sessions', {
        data: { ...data, kernel: { name: 'python3' } }
      });
  expect(answer.ok()).toBe(true);
}
