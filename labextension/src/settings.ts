import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { Options } from './conversion';

/** What the accept key does with the accepted changes. */
export type Action = 'notebook' | 'copy' | 'script';

/** The user's settings, by their documented defaults where there are none. */
export class Settings {
  constructor(private _settings: ISettingRegistry.ISettings | null) {}

  get ranks(): number {
    return (this._settings?.composite.ranks as number | undefined) ?? 2;
  }

  get action(): Action {
    return (this._settings?.composite.action as Action | undefined) ?? 'notebook';
  }

  get options(): Options {
    const target = this._settings?.composite.target as Options['target'];
    return {
      select: this._codes('select'),
      ignore: this._codes('ignore'),
      target: target ?? 'keras2'
    };
  }

  private _codes(name: 'select' | 'ignore'): string[] {
    return (this._settings?.composite[name] as string[] | undefined) ?? [];
  }
}
