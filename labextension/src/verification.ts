import { ISignal, Signal } from '@lumino/signaling';

import { Step, VerifyCheck, VerifyEnd } from './conversion';

export type VerificationState =
  | 'idle'
  | 'running'
  | 'holds'
  | 'fails'
  | 'undecided'
  | 'confirm'
  | 'cancelled'
  | 'error';

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

  /** How long a step takes, where a check measured it. */
  get step(): Step | null {
    return this.checks.find(check => check.step !== undefined)?.step ?? null;
  }

  /** How many checks are through. */
  get finished(): number {
    return this.checks.filter(check => check.status !== 'running').length;
  }

  /** Follow the events of a verification to their end; those of an earlier one are dropped. */
  async run(
    start: (signal: AbortSignal) => AsyncIterable<VerifyCheck | VerifyEnd>
  ): Promise<void> {
    this.cancel();
    const controller = new AbortController();
    this._controller = controller;
    this._checks.clear();
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
    if (this._state === 'running') {
      this._controller?.abort();
      this._set('cancelled');
    }
  }

  private _take(event: VerifyCheck | VerifyEnd): void {
    if ('check' in event) {
      this._dropRunning(event.check);
      this._checks.set(event.check, event);
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
      this._set(event.holds ? 'holds' : undecided ? 'undecided' : 'fails', event.verdict);
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
  private _controller?: AbortController;
  private _changed = new Signal<this, void>(this);
}
