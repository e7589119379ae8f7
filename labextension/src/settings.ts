import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ISignal } from '@lumino/signaling';

import { Options } from './conversion';

/** What the accept key does with the accepted changes. */
export type Action = 'notebook' | 'copy' | 'script';

/** How the two texts of a diff stand: by the room that there is, in one column, or side by side. */
export const LAYOUTS = ['auto', 'unified', 'split'] as const;
export type Layout = (typeof LAYOUTS)[number];

/** The user's settings, by their documented defaults where there are none. */
export class Settings {
  constructor(private _settings: ISettingRegistry.ISettings | null) {}

  get ranks(): number {
    return (this._settings?.composite.ranks as number | undefined) ?? 2;
  }

  get action(): Action {
    return (this._settings?.composite.action as Action | undefined) ?? 'notebook';
  }

  /** Whether long lines of a diff go on in the next line. */
  get wrap(): boolean {
    return (this._settings?.composite.wrap as boolean | undefined) ?? true;
  }

  async setWrap(wrap: boolean): Promise<void> {
    await this._settings?.set('wrap', wrap);
  }

  get layout(): Layout {
    return (this._settings?.composite.layout as Layout | undefined) ?? 'auto';
  }

  async setLayout(layout: Layout): Promise<void> {
    await this._settings?.set('layout', layout);
  }

  /** Emitted when the user has set something. */
  get changed(): ISignal<unknown, void> | undefined {
    return this._settings?.changed;
  }

  /** What is set here; the server knows the rest, from the project. */
  get options(): Options {
    const chosen: Options = {};
    for (const name of ['select', 'ignore'] as const) {
      const codes = this._settings?.composite[name] as string[] | undefined;
      if (codes?.length) {
        chosen[name] = codes;
      }
    }
    if (this._settings?.composite.guard === false) {
      chosen.guard = false;
    }
    return chosen;
  }
}
