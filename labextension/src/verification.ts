import { ISignal, Signal } from '@lumino/signaling';

import { VerifyCheck, VerifyEnd } from './conversion';
import { Mode } from './training';

export type VerificationState =
  | 'idle'
  | 'waiting'
  | 'running'
  | 'holds'
  | 'fails'
  | 'undecided'
  | 'confirm'
  | 'cancelled'
  | 'error';

/** What a verification is about. */
export interface ISubject {
  /** Tells the code, the changes that are made, and the options from all others. */
  key: string;
  ranks: number;
  mode: Mode;
}

/** A verdict as it is kept: all that is needed to show it again. */
export interface IVerdict {
  subject: ISubject;
  state: 'holds' | 'fails';
  checks: VerifyCheck[];
  /** In words, where the checks have some of their own. */
  message: string;
  /** When it was reached, in milliseconds since 1970. */
  time: number;
}

/** A text with its cells counted from 1, as the panel counts them; the server counts from 0. */
export function cellsFromOne(text: string): string {
  return text.replace(
    /\bcell (\d+)(?=, line \d|:\n)/g,
    (_, index) => `cell ${Number(index) + 1}`
  );
}

/** A verification as it goes on: the latest word on each check, and the verdict. */
export class VerificationModel {
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get state(): VerificationState {
    return this._state;
  }

  get checks(): readonly VerifyCheck[] {
    return [...this._checks.values()];
  }

  /** The verdict in the server's words, why there is none, or the question that is to be answered first. */
  get message(): string {
    return this._message;
  }

  /** What is verified, or was. */
  get subject(): ISubject | null {
    return this._subject;
  }

  /** The verdict, where there is one. */
  get verdict(): IVerdict | null {
    const state = this._state;
    return this._subject && (state === 'holds' || state === 'fails')
      ? {
          subject: this._subject,
          state,
          checks: [...this.checks],
          message: this._message,
          time: this._time
        }
      : null;
  }

  /** Show a verdict that was reached before. */
  restore({ subject, state, checks, message, time }: IVerdict): void {
    this._subject = subject;
    this._checks = new Map(checks.map(check => [check.check, check]));
    this._time = time;
    this._set(state, message);
  }

  /** The conversion that was verified is the notebook's text now, and has another key. */
  carry(key: string): void {
    if (this._subject) {
      this._subject = { ...this._subject, key };
      this._changed.emit();
    }
  }

  /** Whether a verification runs, or waits for another one to end. */
  get isBusy(): boolean {
    return this._state === 'running' || this._state === 'waiting';
  }

  /**
   * Follow the events of a verification to their end; those of an earlier one are dropped.
   *
   * The server verifies one notebook at a time: a second one waits for its turn.
   */
  async run(
    subject: ISubject,
    start: (signal: AbortSignal) => AsyncIterable<VerifyCheck | VerifyEnd>
  ): Promise<void> {
    this.cancel();
    const controller = new AbortController();
    this._controller = controller;
    this._subject = subject;
    this._checks.clear();
    this._set('waiting');
    const before = VerificationModel._last;
    const turn = before.then(() => this._follow(controller, start));
    VerificationModel._last = turn;
    await turn;
  }

  private async _follow(
    controller: AbortController,
    start: (signal: AbortSignal) => AsyncIterable<VerifyCheck | VerifyEnd>
  ): Promise<void> {
    if (controller.signal.aborted) {
      return;
    }
    this._set('running');
    try {
      for await (const event of start(controller.signal)) {
        if (controller.signal.aborted) {
          return;
        }
        this._take(event);
      }
      if (this._state === 'running') {
        this._set('error', 'The verification ended without a verdict.');
      }
    } catch (error) {
      if (!controller.signal.aborted) {
        this._set('error', error instanceof Error ? error.message : String(error));
      }
    }
  }

  cancel(): void {
    if (this.isBusy) {
      this._controller?.abort();
      this._set('cancelled');
    }
  }

  private _take(event: VerifyCheck | VerifyEnd): void {
    if ('check' in event) {
      this._dropRunning(event.check);
      this._checks.set(event.check, { ...event, detail: cellsFromOne(event.detail) });
      this._changed.emit();
      return;
    }
    this._dropRunning();
    if (event.confirm) {
      this._set('confirm', event.confirm);
    } else if (event.message || !this._checks.size) {
      this._set('error', event.message ?? 'There is no conversion to verify.');
    } else {
      const fails = this.checks.some(check => check.status === 'fail');
      const undecided = event.verdict !== undefined && !fails;
      this._time = Date.now();
      const state = event.holds ? 'holds' : undecided ? 'undecided' : 'fails';
      this._set(state, cellsFromOne(event.verdict ?? ''));
    }
  }

  /** Runs go on one after another, and one that is over may end without a check of its name. */
  private _dropRunning(except?: string): void {
    for (const [name, { status }] of this._checks) {
      if (status === 'running' && name !== except) {
        this._checks.delete(name);
      }
    }
  }

  private _set(state: VerificationState, message = ''): void {
    this._state = state;
    this._message = message;
    this._changed.emit();
  }

  private _state: VerificationState = 'idle';
  private _message = '';
  private _checks = new Map<string, VerifyCheck>();
  private _subject: ISubject | null = null;
  private _time = 0;
  /** The end of the verification that was asked for last, by whichever notebook. */
  private static _last: Promise<void> = Promise.resolve();
  private _controller?: AbortController;
  private _changed = new Signal<this, void>(this);
}
