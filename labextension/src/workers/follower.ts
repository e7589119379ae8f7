import { Kernel } from '@jupyterlab/services';
import { ISignal, Signal } from '@lumino/signaling';

import { ILook, IQuestion, IVariable } from './look';

/** What a follower uses of a notebook's session. */
export interface ISession {
  session: { kernel: Kernel.IKernelConnection | null } | null;
  statusChanged: ISignal<unknown, unknown>;
  kernelChanged: ISignal<unknown, unknown>;
}

/** Asks a kernel. */
export type Ask = (
  kernel: Kernel.IKernelConnection,
  question: IQuestion
) => Promise<ILook | null>;

/** Seconds between two questions while a cell runs, and while none does. */
const BUSY = 1;
const IDLE = 5;
/** While a cell runs, comparing variables may take one second of so many. */
const SHARE = 10;
/** Seconds between two comparisons at least. */
const PAUSE = 2;

/** What a panel shows of the workers of a notebook, followed for as long as the panel is seen. */
export class Follower {
  constructor(
    private _session: ISession,
    private _ask: Ask
  ) {
    _session.statusChanged.connect(this._onStatus, this);
    _session.kernelChanged.connect(this._onStatus, this);
  }

  /** The last answer; null where the kernel knows no workers. */
  look: ILook | null = null;

  /** The variables as they were last compared. */
  variables: IVariable[] | null = null;

  /** Whether the kernel has been asked at all. */
  hasAsked = false;

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The worker whose tab is open; null for the tab of all. */
  get rank(): number | null {
    return this._rank;
  }

  show(rank: number | null): void {
    this._rank = rank;
    this._changed.emit();
    void this.ask();
  }

  /** Follow, or do not: a panel that nobody sees asks nothing. */
  follow(isSeen: boolean): void {
    this._isSeen = isSeen;
    clearTimeout(this._timer);
    if (isSeen) {
      void this.ask(true);
    }
  }

  /** Ask now, and again and again while the panel is seen. */
  async ask(variables = this._isDue): Promise<void> {
    this._wanted ||= variables;
    if (this._isAsking || this._isDisposed || !this._isSeen) {
      this._again ||= this._isAsking;
      return;
    }
    clearTimeout(this._timer);
    this._isAsking = true;
    const started = performance.now();
    const asksVariables = this._wanted;
    this._wanted = false;
    const question = { rank: this._rank, variables: asksVariables };
    const kernel = this._session.session?.kernel;
    const look = kernel ? await this._ask(kernel, question).catch(() => null) : null;
    this._isAsking = false;
    if (this._isDisposed) {
      return;
    }
    this.hasAsked = true;
    if (look?.output === undefined && look && this._rank === question.rank) {
      look.output = this.look?.output;
    }
    this.look = look;
    if (!look?.ranks.length) {
      this.variables = null;
    }
    if (look?.variables) {
      this.variables = look.variables;
      const seconds = (performance.now() - started) / 1000;
      this._dueAt = performance.now() + 1000 * Math.max(PAUSE, SHARE * seconds);
    }
    this._changed.emit();
    const soon = this._again || this._wanted;
    this._again = false;
    const seconds = soon ? 0 : look?.running ? BUSY : IDLE;
    this._timer = setTimeout(() => void this.ask(), seconds * 1000);
  }

  dispose(): void {
    this._isDisposed = true;
    clearTimeout(this._timer);
    Signal.clearData(this);
  }

  /** Variables change while a cell runs; when it has ended, its kernel's status tells. */
  private get _isDue(): boolean {
    return !!this.look?.running && performance.now() >= this._dueAt;
  }

  private _onStatus(): void {
    const isIdle = this._session.session?.kernel?.status === 'idle';
    void this.ask(isIdle);
  }

  private _rank: number | null = null;
  private _isSeen = false;
  private _isAsking = false;
  private _isDisposed = false;
  private _again = false;
  private _wanted = false;
  private _dueAt = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _changed = new Signal<this, void>(this);
}
