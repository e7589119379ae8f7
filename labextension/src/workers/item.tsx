import { ReactWidget } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { ISignal, Signal } from '@lumino/signaling';
import React from 'react';

import { CommandIDs } from '../ids';

/** The line of a cell that runs on workers, or looks after them. */
const MAGIC = /^(%%distribute|%%rank|%hvd)\b/m;

/** In the status bar, or a notebook's toolbar: opens the panel of a notebook's workers. */
export class WorkersItem extends ReactWidget {
  constructor(
    private _notebooks: INotebookTracker,
    private _commands: CommandRegistry,
    private _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-hvd-workers');
    _notebooks.currentChanged.connect(this._follow, this);
    this._follow();
  }

  /** Whether the notebook in front has cells for workers. */
  get isWanted(): boolean {
    return this._isWanted;
  }

  get wantedChanged(): ISignal<this, void> {
    return this._wantedChanged;
  }

  dispose(): void {
    Signal.clearData(this);
    super.dispose();
  }

  protected render(): JSX.Element {
    return (
      <button
        type="button"
        title={this._commands.caption(CommandIDs.where)}
        onClick={() => void this._commands.execute(CommandIDs.where)}
      >
        {this._trans.__('Workers')}
      </button>
    );
  }

  private _follow(): void {
    const notebook = this._notebooks.currentWidget;
    if (notebook !== this._notebook) {
      this._notebook?.sessionContext.statusChanged.disconnect(this._look, this);
      this._notebook = notebook;
      notebook?.sessionContext.statusChanged.connect(this._look, this);
    }
    this._look();
  }

  /** Cells are looked at when some run, not at each key. */
  private _look(): void {
    const cells = this._notebook?.content.model?.sharedModel?.cells ?? [];
    const isWanted = cells.some(cell => MAGIC.test(cell.getSource()));
    if (isWanted !== this._isWanted) {
      this._isWanted = isWanted;
      this._wantedChanged.emit();
    }
  }

  private _notebook: NotebookPanel | null = null;
  private _isWanted = false;
  private _wantedChanged = new Signal<this, void>(this);
}
