import { ISignal, Signal } from '@lumino/signaling';

import { Change, Conversion, Diagnostic, Edit, ModelSize } from './conversion';
import { withBound } from './decisions';
import { applyEdits, ISplice, splices, unitAt } from './edits';

/** A cell of the notebook, as it was when the notebook was converted. */
export interface ICell {
  id: string;
  type: string;
  source: string;
}

/** A part of the diff: one cell in full, or cells that are folded away. */
export type Section =
  { kind: 'cell'; index: number } | { kind: 'fold'; from: number; to: number };

/** A conversion, and which of its changes the user takes. */
export class ConversionModel {
  constructor(
    readonly cells: readonly ICell[],
    readonly conversion: Conversion,
    left: Iterable<string> = [],
    visited = ''
  ) {
    const keys = keysOf(conversion.changes, cells);
    this._keys = new Map(conversion.changes.map((change, i) => [change, keys[i]]));
    const known = new Set(keys);
    this._left = new Set([...left].filter(key => known.has(key)));
    this._visited = visited;
    for (const change of conversion.changes) {
      const own = this._byCell.get(change.cell);
      if (own) {
        own.push(change);
      } else {
        this._byCell.set(change.cell, [change]);
      }
    }
    this.choices = cells.flatMap((_, index) =>
      this.changesOf(index)
        .filter(change => change.provides === null)
        .sort((a, b) => this.startOf(a) - this.startOf(b))
    );
  }

  /** The changes that can be taken or left by themselves, from the notebook's top to its bottom. */
  readonly choices: readonly Change[];

  /** Emitted when a change is taken or left. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get changes(): readonly Change[] {
    return this.conversion.changes;
  }

  /** Emitted when another change is looked at. */
  get visitedChanged(): ISignal<this, void> {
    return this._visitedChanged;
  }

  /** The key of the change that is looked at, which outlives a new conversion; empty before the first. */
  get visited(): string {
    return this._visited;
  }

  /** The place of the change that is looked at among all choices, from 0; -1 where there is none. */
  get position(): number {
    return this.choices.findIndex(change => this.keyOf(change) === this._visited);
  }

  /** Look at a change. */
  visit(change: Change): void {
    if (this.keyOf(change) !== this._visited) {
      this._visited = this.keyOf(change);
      this._visitedChanged.emit();
    }
  }

  /** All choices from the one after, or before, the one that is looked at; after the last comes the first. */
  choicesFrom(step: 1 | -1): Change[] {
    const { choices, position } = this;
    const first = position < 0 ? (step > 0 ? 0 : -1) : position + step;
    return choices.map((_, i) => choices.at((first + i * step) % choices.length)!);
  }

  /** Where a change begins in its cell's text, in the units of JavaScript's strings; what is added below a line begins below it. */
  startOf({ cell, edits }: Change): number {
    const [{ start, text }] = edits;
    const { source } = this.cells[cell ?? 0];
    return unitAt(source, start) + (text.startsWith('\n') ? 1 : 0);
  }

  get diagnostics(): readonly Diagnostic[] {
    return this.conversion.diagnostics;
  }

  get models(): readonly ModelSize[] {
    return this.conversion.models ?? [];
  }

  /** The changes that are left out, by keys that outlive a new conversion. */
  get left(): ReadonlySet<string> {
    return this._left;
  }

  get accepted(): readonly Change[] {
    return this.changes.filter(change => this.isAccepted(change));
  }

  /** Whether a change is made: it is not left out, or one that is made needs what it provides. */
  isAccepted(change: Change): boolean {
    return change.provides === null
      ? !this._left.has(this.keyOf(change))
      : this._neededNames().has(change.provides);
  }

  /** What the choices that are made need. */
  private _neededNames(): ReadonlySet<string> {
    this._needed ??= new Set(
      this.choices
        .filter(choice => this.isAccepted(choice))
        .flatMap(choice => choice.needs)
    );
    return this._needed;
  }

  keyOf(change: Change): string {
    return this._keys.get(change) ?? '';
  }

  /** The changes that are taken, or left, with one. */
  boundTo(change: Change, accepted: boolean): readonly Change[] {
    return withBound([change], this.choices, accepted).filter(
      each => this.isAccepted(each) !== accepted
    );
  }

  /** Take some changes, or leave them, with those that are right together with them only. */
  accept(changes: readonly Change[], accepted: boolean): void {
    for (const change of withBound(changes, this.choices, accepted)) {
      if (accepted) {
        this._left.delete(this.keyOf(change));
      } else {
        this._left.add(this.keyOf(change));
      }
    }
    this._needed = null;
    this._results = null;
    this._changed.emit();
  }

  changesOf(cell: number): readonly Change[] {
    return this._byCell.get(cell) ?? [];
  }

  diagnosticsOf(cell: number): readonly Diagnostic[] {
    return this.diagnostics.filter(diagnostic => diagnostic.cell === cell);
  }

  /** A cell's text with the accepted changes made. */
  resultOf(cell: number): string {
    return applyEdits(this.cells[cell].source, this._editsOf(cell));
  }

  /** A cell's text with all changes made. */
  wholeResultOf(cell: number): string {
    const edits = this.changesOf(cell).flatMap(change => change.edits);
    return applyEdits(
      this.cells[cell].source,
      edits.filter(edit => edit.unless === null)
    );
  }

  /** The text of each code cell with the accepted changes; of other cells, which are shown otherwise, none. */
  get texts(): string[] {
    return this.cells.map(({ type }, cell) =>
      type === 'code' ? this.resultOf(cell) : ''
    );
  }

  /** What the accepted changes put in place of parts of a cell's text. */
  splicesOf(cell: number): ISplice[] {
    return splices(this.cells[cell].source, this._editsOf(cell));
  }

  private _editsOf(cell: number): Edit[] {
    const accepted = this.changesOf(cell).filter(change => this.isAccepted(change));
    return accepted
      .flatMap(change => change.edits)
      .filter(
        edit => edit.unless === null || !this.isAccepted(this.changes[edit.unless])
      );
  }

  /** The new text of each cell that the accepted changes alter, by the cell's index. */
  results(): ReadonlyMap<number, string> {
    if (this._results === null) {
      const cells = new Set(this.accepted.map(change => change.cell));
      this._results = new Map(
        [...cells]
          .filter(index => index !== null)
          .map((index): [number, string] => [index, this.resultOf(index)])
          .filter(([index, text]) => text !== this.cells[index].source)
      );
    }
    return this._results;
  }

  /** The notebook from top to bottom; neighbours without changes or diagnostics are folded. */
  sections(): Section[] {
    const shown = new Set(
      [...this.changes, ...this.diagnostics].map(finding => finding.cell)
    );
    const sections: Section[] = [];
    this.cells.forEach((_, index) => {
      const last = sections[sections.length - 1];
      if (shown.has(index)) {
        sections.push({ kind: 'cell', index });
      } else if (last?.kind === 'fold') {
        last.to = index;
      } else {
        sections.push({ kind: 'fold', from: index, to: index });
      }
    });
    return sections;
  }

  private _keys: Map<Change, string>;
  private _byCell = new Map<number | null, Change[]>();
  /** What the accepted changes determine, as far as it has been asked for since they are the accepted ones. */
  private _needed: ReadonlySet<string> | null = null;
  private _results: ReadonlyMap<number, string> | null = null;
  private _left: Set<string>;
  private _visited: string;
  private _changed = new Signal<this, void>(this);
  private _visitedChanged = new Signal<this, void>(this);
}

/** Whether a notebook was converted before: the rule about that says so. */
export function isConverted(conversion: Conversion): boolean {
  return conversion.diagnostics.some(({ code }) => code === CONVERTED_ALREADY);
}

const CONVERTED_ALREADY = 'HVD901';

/** A key for each change: rule, cell and changed lines, and a number where these are the same. */
function keysOf(changes: readonly Change[], cells: readonly ICell[]): string[] {
  const seen = new Map<string, number>();
  return changes.map(change => {
    const cell = change.cell === null ? '' : (cells[change.cell]?.id ?? change.cell);
    const key = JSON.stringify([change.rule, cell, change.before]);
    const count = seen.get(key) ?? 0;
    seen.set(key, count + 1);
    return `${key}${count}`;
  });
}

/** Whether two lists of cells hold the same program. */
export function sameProgram(a: readonly ICell[], b: readonly ICell[]): boolean {
  return (
    a.length === b.length &&
    a.every(
      (cell, i) =>
        cell.id === b[i].id && cell.type === b[i].type && cell.source === b[i].source
    )
  );
}
