import { ISignal, Signal } from '@lumino/signaling';

import { hashOf } from './hash';
import { ConversionModel } from './model';

/** The cells of a diff that the user has looked at; one that changes afterwards counts as not looked at. */
export class ViewedCells {
  /** Emitted when a cell is marked, or not any more. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** What is kept of the marks: a digest of each cell as it was looked at. */
  get digests(): string[] {
    return [...this._digests];
  }

  restore(digests: readonly string[]): void {
    this._digests = new Set(digests);
    this._changed.emit();
  }

  has(model: ConversionModel, cell: number): boolean {
    return this._digests.size > 0 && this._digests.has(digestOf(model, cell));
  }

  mark(model: ConversionModel, cell: number, isViewed: boolean): void {
    const digest = digestOf(model, cell);
    if (isViewed) {
      this._digests.add(digest);
    } else {
      this._digests.delete(digest);
    }
    this._changed.emit();
  }

  private _digests = new Set<string>();
  private _changed = new Signal<this, void>(this);
}

function digestOf(model: ConversionModel, cell: number): string {
  const { id, source } = model.cells[cell];
  return hashOf(JSON.stringify([id, source, model.resultOf(cell)]));
}
