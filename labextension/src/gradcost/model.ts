import { JSONObject } from '@lumino/coreutils';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { Undo } from './change';
import { IChange, IReport, isReport, ITaken } from './report';

/** The kernel's side of a panel, as the model needs it. */
export interface ILink extends IDisposable {
  readonly state: 'none' | 'connecting' | 'live' | 'gone';
  readonly received: ISignal<unknown, JSONObject>;
  readonly stateChanged: ISignal<unknown, void>;
  ask(message: JSONObject): void;
}

export interface IProgress {
  done: number;
  total: number;
}

/** How long figures rest before the notebook keeps them, in ms. */
const REST = 500;

/** How long the kernel may take to answer before it is said to be busy, in ms. */
const PATIENCE = 1500;

/** What a message has in it that answers a wish. */
const ANSWERS = ['progress', 'checking', 'accepted'];

/** A panel: its last report, and what is on the way. */
export class PanelModel implements IDisposable {
  constructor(
    report: IReport | null,
    readonly link: ILink,
    private _keep: ((bundle: JSONObject) => void) | null = null,
    private _put: (change: IChange) => Undo | string = () => ''
  ) {
    this._report = report;
    link.received.connect(this._onMessage, this);
    link.stateChanged.connect(this._onState, this);
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get report(): IReport | null {
    return this._report;
  }

  /** What went wrong with the last wish; the figures are still those before it. */
  get error(): string {
    return this._error;
  }

  get progress(): IProgress | null {
    return this._progress;
  }

  /** The advice that the kernel is checking; null where there is none. */
  get accepting(): number | null {
    return this._accepting;
  }

  /** The change that was put into its cell last. */
  get taken(): ITaken | null {
    return this._taken;
  }

  /** Whether the kernel has not answered for a while: it runs a cell. */
  get isLate(): boolean {
    return this._late;
  }

  /** Whether the kernel has not answered yet. */
  get isPending(): boolean {
    return this._sent !== null;
  }

  get isLive(): boolean {
    return this.link.state === 'live';
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** A report from the notebook: another front end may have changed it. */
  set saved(report: IReport) {
    if (!this.isLive && report.id === this._report?.id) {
      this._report = report;
      this._changed.emit();
    }
  }

  /** Move sizes. The kernel is asked again as soon as it has answered, with the newest wish. */
  resize(sizes: Record<string, number>): void {
    this._wish = { ...this._wish, ...sizes };
    this._next();
  }

  /** Ask for something that is answered by another report. */
  ask(message: JSONObject): void {
    this._error = '';
    this.link.ask(message);
  }

  /** Measure something; there is one measurement at a time. */
  measure(message: JSONObject): void {
    if (this.isLive && this._progress === null) {
      this._progress = { done: 0, total: 1 };
      this._error = '';
      this._await(message);
      this._changed.emit();
    }
  }

  /** Put what some advice says into its cell, where the kernel finds it equal and cheaper. */
  accept(way: number): void {
    if (this.isLive && this._accepting === null) {
      this._accepting = way;
      this._taken = null;
      this._error = '';
      this._await({ do: 'accept', way });
      this._changed.emit();
    }
  }

  /** Take the change back that was put into its cell last. */
  takeBack(): void {
    if (this._taken && this._undo) {
      this._error = this._undo();
      this._taken = this._error ? this._taken : null;
      this._changed.emit();
    }
  }

  cancel(): void {
    this.link.ask({ do: 'cancel' });
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      clearTimeout(this._timer);
      clearTimeout(this._waiting);
      this.link.dispose();
      Signal.clearData(this);
    }
  }

  private _next(): void {
    if (this._sent !== null || this._wish === null || !this.isLive) {
      return;
    }
    this._sent = ++this._count;
    this._await({ do: 'sizes', sizes: this._wish, seq: this._sent });
    this._wish = null;
    this._changed.emit();
  }

  /** Ask for something, and say so where the answer is long in coming. */
  private _await(message: JSONObject): void {
    this.link.ask(message);
    clearTimeout(this._waiting);
    this._waiting = setTimeout(() => {
      this._late = true;
      this._changed.emit();
    }, PATIENCE);
  }

  private _answered(): void {
    clearTimeout(this._waiting);
    this._late = false;
  }

  private _onMessage(_: unknown, message: JSONObject): void {
    // What a thread of the kernel's tells by itself is no answer.
    if (message.seq || ANSWERS.some(name => name in message)) {
      this._answered();
    }
    if (message.seq && message.seq === this._sent) {
      this._sent = null;
    }
    if (isReport(message.report)) {
      const first = this._report === null || this._report.id !== message.report.id;
      if (this._report?.function !== message.report.function) {
        this._taken = null;
      }
      this._report = message.report;
      // Without a number it is no answer: an estimate of XLA's that arrives leaves what went wrong on display.
      if (message.seq) {
        this._error = '';
      }
      // Of several who look on, one keeps the figures.
      if (message.keep === false) {
        clearTimeout(this._timer);
      } else if (!first && this._attached) {
        this._rest();
      }
      this._attached = true;
    }
    if (typeof message.error === 'string') {
      this._error = message.error;
    }
    if (typeof message.accepted === 'number') {
      this._accepting = null;
      if (message.change) {
        const change = message.change as unknown as IChange;
        const put = this._put(change);
        const refused = typeof put === 'string';
        this._error = refused ? put : '';
        this._taken = refused ? null : { way: message.accepted, change };
        this._undo = refused ? null : put;
      }
    }
    if ('progress' in message) {
      this._progress = message.progress as unknown as IProgress | null;
    }
    if (message.bundle) {
      this._keep?.(message.bundle as JSONObject);
    }
    this._changed.emit();
    this._next();
  }

  /** When the figures have come to rest: the notebook keeps them, XLA is asked about them. */
  private _rest(): void {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => {
      const pending = this._report?.pending;
      if (pending && this._estimated !== pending) {
        this._estimated = pending;
        this.link.ask({ do: 'estimate' });
      }
      if (this._keep) {
        this.link.ask({ do: 'save' });
      }
    }, REST);
  }

  private _onState(): void {
    if (!this.isLive) {
      this._sent = null;
      this._wish = null;
      this._progress = null;
      this._accepting = null;
      this._attached = false;
      this._answered();
    }
    this._changed.emit();
  }

  private _report: IReport | null;
  private _error = '';
  private _progress: IProgress | null = null;
  private _accepting: number | null = null;
  private _taken: ITaken | null = null;
  private _undo: Undo | null = null;
  private _late = false;
  private _waiting: ReturnType<typeof setTimeout> | undefined;
  private _wish: Record<string, number> | null = null;
  private _sent: number | null = null;
  private _count = 0;
  private _attached = false;
  private _estimated = '';
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isDisposed = false;
  private _changed = new Signal<this, void>(this);
}
