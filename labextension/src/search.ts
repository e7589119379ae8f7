import { Signal, ISignal } from '@lumino/signaling';

/** A match, from one place to another in a cell's text. */
export interface IMatch {
  cell: number;
  from: number;
  to: number;
}

/** All matches of a query in some texts, in their order. */
export function findMatches(texts: readonly string[], query: RegExp): IMatch[] {
  const flags = new Set([...query.flags, 'g', 'm']);
  return texts.flatMap((text, cell) =>
    [...text.matchAll(new RegExp(query.source, [...flags].join('')))]
      .filter(match => match[0].length > 0)
      .map(match => ({ cell, from: match.index, to: match.index + match[0].length }))
  );
}

/** What is searched in a notebook's conversion: the texts after the accepted changes. */
export class DiffSearch {
  constructor(private _texts: () => readonly string[]) {}

  /** Emitted when there are other matches, or another one is the current one. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get matches(): readonly IMatch[] {
    return this._matches;
  }

  /** The place of the current match among all; null where there is none. */
  get index(): number | null {
    return this._index;
  }

  get current(): IMatch | null {
    return this._index === null ? null : this._matches[this._index];
  }

  /** The matches in a cell, and which of them is the current one, -1 where none is. */
  within(cell: number): { matches: readonly IMatch[]; current: number } {
    const matches = this._matches.filter(match => match.cell === cell);
    const { current } = this;
    return { matches, current: current ? matches.indexOf(current) : -1 };
  }

  /** Emitted when texts are searched once more. */
  get renewed(): ISignal<this, void> {
    return this._renewed;
  }

  /** Search for a query, and begin at the first match; where it is the query as before, stay where the search is. */
  start(query: RegExp): void {
    const isNew = String(query) !== String(this._query);
    this._query = query;
    if (isNew) {
      this._index = null;
    }
    this._find();
    if (this._index === null) {
      this.move(1);
    }
  }

  /** Search once more, in texts that may have changed. */
  refresh(): void {
    if (this._query) {
      this._find();
      this._renewed.emit();
    }
  }

  private _find(): void {
    const before = this.current;
    this._matches = findMatches(this._texts(), this._query!);
    const at = before
      ? this._matches.findIndex(
          match => match.cell === before.cell && match.from === before.from
        )
      : -1;
    this._index = at >= 0 ? at : null;
    this._changed.emit();
  }

  /** Go to the next match or to the one before, and on from the other end. */
  move(step: 1 | -1): void {
    const count = this._matches.length;
    if (count > 0) {
      const from = this._index ?? (step > 0 ? -1 : 0);
      this._index = (from + step + count) % count;
      this._changed.emit();
    }
  }

  /** No match is the current one any more. */
  leave(): void {
    this._index = null;
    this._changed.emit();
  }

  end(): void {
    this._query = null;
    this._index = null;
    this._matches = [];
    this._changed.emit();
  }

  private _query: RegExp | null = null;
  private _matches: IMatch[] = [];
  private _index: number | null = null;
  private _renewed = new Signal<this, void>(this);
  private _changed = new Signal<this, void>(this);
}
