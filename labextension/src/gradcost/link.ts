import { ISessionContext } from '@jupyterlab/apputils';
import { Kernel, KernelMessage } from '@jupyterlab/services';
import { JSONObject } from '@lumino/coreutils';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { TARGET } from './report';

/**
 * How a panel stands to its kernel: `none` there is no kernel, `gone` the kernel does not know the
 * panel any more.
 */
export type LinkState = 'none' | 'connecting' | 'live' | 'gone';

/** A panel's connection to the kernel of its notebook. */
export class PanelLink implements IDisposable {
  constructor(
    private _session: ISessionContext,
    private _request: JSONObject
  ) {
    _session.kernelChanged.connect(this._onKernelChanged, this);
    _session.statusChanged.connect(this._onStatusChanged, this);
    this.connect();
  }

  get state(): LinkState {
    return this._state;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** What the kernel's side of the panel says. */
  get received(): ISignal<this, JSONObject> {
    return this._received;
  }

  get stateChanged(): ISignal<this, void> {
    return this._stateChanged;
  }

  /** Connect to the kernel as it is now, with another request if one is given. */
  connect(request?: JSONObject): void {
    this._request = request ?? this._request;
    this._drop();
    const kernel = this._session.session?.kernel;
    if (!kernel || kernel.status === 'dead') {
      this._become('none');
      return;
    }
    this._become('connecting');
    const comm = kernel.createComm(TARGET);
    this._comm = comm;
    comm.onMsg = message => this._onMessage(comm, message);
    comm.onClose = () => {
      if (this._comm === comm) {
        this._comm = null;
        this._become('gone');
      }
    };
    comm.open(this._request);
  }

  /** Ask the kernel for something; nothing happens where it does not listen. */
  ask(message: JSONObject): void {
    if (this._state === 'live') {
      this._comm?.send(message);
    }
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this._drop();
      Signal.clearData(this);
    }
  }

  private _onMessage(comm: Kernel.IComm, message: KernelMessage.ICommMsgMsg): void {
    if (this._comm !== comm) {
      return;
    }
    const data = message.content.data as JSONObject;
    this._become(data.gone ? 'gone' : 'live');
    this._received.emit(data);
  }

  private _onKernelChanged(
    _: ISessionContext,
    change: { newValue: Kernel.IKernelConnection | null }
  ): void {
    if (change.newValue) {
      void change.newValue.info.then(() => !this._isDisposed && this.connect());
    } else {
      this._drop();
      this._become('none');
    }
  }

  private _onStatusChanged(_: ISessionContext, status: Kernel.Status): void {
    if (status === 'restarting' || status === 'autorestarting') {
      this._drop();
      this._become('gone');
    } else if (status === 'dead' || status === 'terminating') {
      this._drop();
      this._become('none');
    }
  }

  private _drop(): void {
    const comm = this._comm;
    this._comm = null;
    if (comm && !comm.isDisposed && this._state === 'live') {
      // A kernel that is restarting needs no word.
      const status = this._session.session?.kernel?.status;
      if (status === 'idle' || status === 'busy') {
        comm.close();
      }
    }
  }

  private _become(state: LinkState): void {
    if (this._state !== state) {
      this._state = state;
      this._stateChanged.emit();
    }
  }

  private _comm: Kernel.IComm | null = null;
  private _state: LinkState = 'none';
  private _isDisposed = false;
  private _received = new Signal<this, JSONObject>(this);
  private _stateChanged = new Signal<this, void>(this);
}
