import type { IMapChange, YNotebook } from '@jupyter/ydoc';
import { PathExt } from '@jupyterlab/coreutils';
import { ICell as ICellContent, INotebookContent, IOutput } from '@jupyterlab/nbformat';
import { NotebookPanel } from '@jupyterlab/notebook';
import { Contents } from '@jupyterlab/services';
import { IDisposable } from '@lumino/disposable';
import { Debouncer } from '@lumino/polling';
import { ISignal, Signal } from '@lumino/signaling';

import { ModelSize, Options, VerifyRequest } from './conversion';
import { putDistribute, removeDistribute } from './distributed';
import { hashOf } from './hash';
import { heldByKernel, IHeld, Measured, networkInKernel } from './kernel';
import { ConversionModel, ICell, sameProgram } from './model';
import { inMode, METADATA, optionsOf, withOptions } from './options';
import { IPrintedStep, printedStep } from './printedstep';
import { HvdApi } from './request';
import { Reviews } from './review';
import { Mode, modeOf } from './training';
import { VerificationModel } from './verification';

export type SessionState = 'loading' | 'ready' | 'error';
export type Notice = 'none' | 'stale' | 'refreshed' | 'applied';

/** A place in the notebook to show: a cell's index and a line in it. */
export interface IPlace {
  cell: number;
  line: number;
}

/** What changes were applied to: the texts of the changed cells, by the cells' ids. */
interface IApplied {
  before: ReadonlyMap<string, string>;
  after: ReadonlyMap<string, string>;
  /** The whole notebook right after that. */
  cells: readonly ICell[];
}

/** The notebook is not the one that the user has looked at. */
export class StaleError extends Error {}

/** An open notebook's conversion: made anew when the notebook changes, applied or saved on demand. */
export class ConversionSession implements IDisposable {
  constructor(
    readonly notebook: NotebookPanel,
    private _api: HvdApi,
    private _contents: Contents.IManager,
    private _options: () => Options,
    private _reviews: Reviews,
    private _workers: number
  ) {
    notebook.disposed.connect(this.dispose, this);
    notebook.sessionContext.statusChanged.connect(this._onKernelStatus, this);
    notebook.context.pathChanged.connect(this._onPathChanged, this);
    this.verification.changed.connect(this._keepReview, this);
    void notebook.context.ready.then(() => this._start());
  }

  readonly verification = new VerificationModel();

  /** Emitted when there is another conversion, or another state. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Emitted when a place is to be shown. */
  get revealed(): ISignal<this, IPlace> {
    return this._revealed;
  }

  get disposed(): ISignal<this, void> {
    return this._disposed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  get state(): SessionState {
    return this._state;
  }

  get error(): string {
    return this._error;
  }

  get notice(): Notice {
    return this._notice;
  }

  get model(): ConversionModel | null {
    return this._model;
  }

  /** The models that the running kernel holds. */
  get kernelModels(): readonly ModelSize[] {
    return this._held.models;
  }

  /** How many examples the array has in the running kernel that the training is on. */
  get kernelRows(): number | null {
    return this._held.rows;
  }

  /** The time of a step that the notebook's own training has printed. */
  get printedStep(): IPrintedStep | null {
    return this._printedStep;
  }

  /** On how many workers the notebook is verified, run and estimated. */
  get workers(): number {
    return this._workers;
  }

  setWorkers(workers: number): void {
    this._workers = workers;
    this._changed.emit();
  }

  /** The mode that is chosen, here or in the project, whose choice the conversion tells. */
  get mode(): Mode {
    return modeOf(this.chosenOptions.batch ?? this._model?.conversion.batch);
  }

  /** Keep a mode in the notebook, which is then converted in it. */
  setMode(mode: Mode): void {
    this.setOwnOptions(inMode(this.ownOptions, mode));
  }

  get path(): string {
    return this.notebook.context.path;
  }

  /** Whether the notebook may not be changed: a copy of it can be saved. */
  get isReadOnly(): boolean {
    const { contentsModel, model } = this.notebook.context;
    return model.readOnly || contentsModel?.writable === false;
  }

  /** What the notebook itself says about its conversion. */
  get ownOptions(): Options {
    return optionsOf(this.notebook.content.model?.getMetadata(METADATA));
  }

  /** The options of the conversion: the notebook's own go before the user's settings. */
  get chosenOptions(): Options {
    const options = { ...this._options(), ...this.ownOptions };
    return options.batch === 'global' ? inMode(options, 'global') : options;
  }

  /** Keep options in the notebook, which is then converted by them. */
  setOwnOptions(options: Options): void {
    const model = this.notebook.content.model!;
    const metadata = withOptions(model.getMetadata(METADATA), options);
    if (metadata) {
      model.setMetadata(METADATA, metadata);
    } else {
      model.deleteMetadata(METADATA);
    }
  }

  /** Convert the text that the editor holds; which changes are left out is kept. */
  async convert(notice: Notice = 'none'): Promise<void> {
    const request = ++this._requests;
    const cells = this._cells();
    this._asked = cells;
    if (!this._model) {
      this._set('loading');
    }
    try {
      const conversion = await this._api.convert({
        notebook: withoutOutputs(this._content()),
        options: this.chosenOptions,
        path: this._contents.localPath(this.path)
      });
      if (request === this._requests && !this.isDisposed) {
        const { left, visited } = this._model ?? { left: this._left };
        this._model = new ConversionModel(cells, conversion, left, visited);
        this._model.changed.connect(this._keepReview, this);
        this._printedStep = printedStep(this._content().cells.map(outputsOf));
        this._set('ready', notice);
        void this._onKernelStatus();
      }
    } catch (error) {
      if (request === this._requests && !this.isDisposed) {
        this._asked = null;
        this._error = error instanceof Error ? error.message : String(error);
        this._set('error');
      }
    }
  }

  /** Write the accepted changes into the notebook, as one step for undo. */
  async apply(): Promise<void> {
    const model = await this._current();
    const results = model.results();
    const isVerified = this.isVerdictCurrent;
    const shared = this.notebook.content.model!.sharedModel;
    // What is typed just before or after does not become part of this step.
    const { undoManager } = shared as unknown as YNotebook;
    undoManager.stopCapturing();
    shared.transact(() => {
      // Part by part: what another person writes beside them meanwhile stays where it is.
      for (const index of results.keys()) {
        for (const { start, end, text } of model.splicesOf(index).reverse()) {
          shared.cells[index].updateSource(start, end, text);
        }
      }
    });
    undoManager.stopCapturing();
    const textsOf = (text: (index: number) => string): Map<string, string> =>
      new Map([...results.keys()].map(index => [model.cells[index].id, text(index)]));
    this._applied = {
      before: textsOf(index => model.cells[index].source),
      after: textsOf(index => results.get(index)!),
      cells: this._cells()
    };
    await this.convert('applied');
    if (isVerified) {
      this.verification.carry(this.subjectKey);
    }
  }

  /** Whether the applied changes can be taken back: no cell that they changed was edited since. */
  get canUndo(): boolean {
    const texts = new Map(this._cells().map(cell => [cell.id, cell.source]));
    return (
      this._applied !== null &&
      [...this._applied.after].every(([id, text]) => texts.get(id) === text)
    );
  }

  /** Take the applied changes back; what was written elsewhere in the notebook since stays. */
  async undo(): Promise<void> {
    if (!this._applied || !this.canUndo) {
      return;
    }
    const { before, cells } = this._applied;
    this._applied = null;
    const shared = this.notebook.content.model!.sharedModel;
    if (sameProgram(cells, this._cells())) {
      shared.undo();
    } else {
      shared.transact(() => {
        for (const cell of shared.cells) {
          const source = before.get(cell.getId());
          if (source !== undefined) {
            cell.setSource(source);
          }
        }
      });
    }
    await this.convert();
  }

  /** The indices of the cells that train. */
  get trainingCells(): readonly number[] {
    return this._model?.conversion.training?.cells ?? [];
  }

  /** Let the cells that train run on workers, by `%%distribute`, as one step for undo; changes that were applied are taken back. */
  async distribute(): Promise<void> {
    if (this.canUndo) {
      await this.undo();
    }
    await this._current();
    const { content } = this.notebook;
    const { sharedModel } = content.model!;
    content.activeCellIndex = putDistribute(
      sharedModel,
      this.trainingCells,
      this._workers,
      this.mode
    );
    await this.convert();
  }

  /** Let the cells that train run in the kernel again. */
  async undistribute(): Promise<void> {
    await this._current();
    removeDistribute(this.notebook.content.model!.sharedModel, this.trainingCells);
    await this.convert();
  }

  /** Save the notebook with the accepted changes beside it; returns the copy's path. */
  async saveCopy(): Promise<string> {
    const content = await this._converted();
    return this._save('.ipynb', { type: 'notebook', format: 'json', content });
  }

  /** Save the notebook with the accepted changes as a script beside it; returns its path. */
  async exportScript(): Promise<string> {
    const notebook = withoutOutputs(await this._converted());
    const content = await this._api.script({ notebook });
    return this._save('.py', { type: 'file', format: 'text', content });
  }

  /** Run the notebook and its conversion on some ranks, on the server, and compare. */
  async verify(ranks: number, confirmed = false): Promise<void> {
    const model = await this._current();
    const request = {
      notebook: withoutOutputs(this._content()),
      n: ranks,
      options: this.chosenOptions,
      path: this._contents.localPath(this.path),
      confirmed,
      ...(await this._partOf(model))
    };
    const subject = { key: this.subjectKey, ranks, mode: this.mode };
    await this.verification.run(subject, signal => this._api.verify(request, signal));
  }

  /** What is verified where some changes are left out: the others, and what they make of the notebook. */
  private async _partOf(
    model: ConversionModel
  ): Promise<Pick<VerifyRequest, 'left' | 'converted'>> {
    const left = model.changes.flatMap((change, i) =>
      model.isAccepted(change) ? [] : [i]
    );
    return left.length
      ? { left, converted: withoutOutputs(await this._converted()) }
      : {};
  }

  /** Tells the code, the changes that are made, and the options from all others. */
  get subjectKey(): string {
    const model = this._model;
    const code = model?.cells.flatMap(({ type, source }) =>
      type === 'code' ? [source] : []
    );
    const results = model && [...model.results()].sort(([a], [b]) => a - b);
    return hashOf(JSON.stringify([code, results, this.chosenOptions]));
  }

  /** Whether the verdict is about the conversion as it is now. */
  get isVerdictCurrent(): boolean {
    const { verdict } = this.verification;
    return verdict !== null && verdict.subject.key === this.subjectKey;
  }

  /** Measure what lies between the ranks that live in the notebook's kernel; null where it cannot be asked. */
  measureNetwork(): Promise<Measured | null> {
    return networkInKernel(this.notebook.sessionContext.session?.kernel);
  }

  reveal(place: IPlace): void {
    this._revealed.emit(place);
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this._isDisposed = true;
    this.verification.cancel();
    this._refresh.dispose();
    this._disposed.emit();
    Signal.clearData(this);
  }

  private async _start(): Promise<void> {
    const review = await this._reviews.load(this.path);
    if (!this.isDisposed) {
      this._left = review?.left ?? [];
      if (review?.verdict) {
        this.verification.restore(review.verdict);
      }
      const { model } = this.notebook.content;
      model!.contentChanged.connect(this._onContentChanged, this);
      model!.metadataChanged.connect(this._onMetadataChanged, this);
      void this.convert();
    }
  }

  /** Keep what the user has left out, and the verdict, for when the page is loaded again. */
  private _keepReview(): void {
    const left = [...(this._model?.left ?? this._left)];
    if (!this.verification.isBusy) {
      void this._reviews.save(this.path, { left, verdict: this.verification.verdict });
    }
  }

  /** The options of the conversion: the notebook's own go before the user's settings. */
  private _content(): INotebookContent {
    return this.notebook.content.model!.sharedModel.toJSON();
  }

  /** The notebook with the accepted changes. */
  private async _converted(): Promise<INotebookContent> {
    const model = await this._current();
    const content = this._content();
    model.results().forEach((source, index) => {
      const cell = content.cells[index];
      cell.source = source;
      // What a cell printed before it was changed does not belong to it any more.
      cell.outputs = [];
      cell.execution_count = null;
    });
    return content;
  }

  /**
   * The model, which is made of the notebook as it is now.
   *
   * A notebook that has changed is converted first, for the user to look at.
   */
  private async _current(): Promise<ConversionModel> {
    if (!this._model || !this._isCurrent()) {
      await this.convert('refreshed');
      throw new StaleError();
    }
    return this._model;
  }

  private _cells(): ICell[] {
    const cells = this.notebook.content.model!.sharedModel.cells;
    return cells.map(cell => ({
      id: cell.getId(),
      type: cell.cell_type,
      source: cell.getSource()
    }));
  }

  private _isCurrent(): boolean {
    return !!this._model && sameProgram(this._model.cells, this._cells());
  }

  /** Whether the notebook as it is now has been converted, or is being converted. */
  private _isAsked(): boolean {
    return !!this._asked && sameProgram(this._asked, this._cells());
  }

  private _onContentChanged(): void {
    if (this._model && !this._isCurrent()) {
      if (this._notice !== 'stale') {
        this._set(this._state, 'stale');
      }
      void this._refresh.invoke();
    }
  }

  private _onMetadataChanged(_: unknown, change: IMapChange): void {
    if (change.key === METADATA) {
      this._changed.emit();
      void this.convert();
    }
  }

  /** The review goes where the notebook goes. */
  private _onPathChanged(): void {
    this._keepReview();
    this._changed.emit();
  }

  private async _onKernelStatus(): Promise<void> {
    const kernel = this.notebook.sessionContext.session?.kernel;
    if (kernel?.status === 'idle' && !this._asking) {
      this._printedStep = printedStep(this._content().cells.map(outputsOf));
      this._asking = true;
      const array = this._model?.conversion.training?.rows_of ?? null;
      this._held = await heldByKernel(kernel, array).catch(() => this._held);
      this._asking = false;
      this._changed.emit();
    }
  }

  /** Save under the notebook's name with `_hvd`, and a number where that is taken. */
  private async _save(
    extension: string,
    file: Partial<Contents.IModel>
  ): Promise<string> {
    const folder = PathExt.dirname(this.path);
    const stem = PathExt.basename(this.path, '.ipynb');
    const taken = new Set(
      ((await this._contents.get(folder)).content as Contents.IModel[]).map(f => f.name)
    );
    let name = `${stem}_hvd${extension}`;
    for (let i = 1; taken.has(name); i++) {
      name = `${stem}_hvd-${i}${extension}`;
    }
    const path = PathExt.join(folder, name);
    await this._contents.save(path, { ...file, name, path });
    return path;
  }

  private _set(state: SessionState, notice: Notice = 'none'): void {
    this._state = state;
    this._notice = notice;
    this._changed.emit();
  }

  private _model: ConversionModel | null = null;
  private _left: readonly string[] = [];
  private _applied: IApplied | null = null;
  private _state: SessionState = 'loading';
  private _notice: Notice = 'none';
  private _error = '';
  private _held: IHeld = { models: [], rows: null };
  private _printedStep: IPrintedStep | null = null;
  private _asking = false;
  private _requests = 0;
  private _asked: readonly ICell[] | null = null;
  private _isDisposed = false;
  private _refresh = new Debouncer<void, void, []>(
    () => (this._isAsked() ? undefined : this.convert('refreshed')),
    500
  );
  private _changed = new Signal<this, void>(this);
  private _revealed = new Signal<this, IPlace>(this);
  private _disposed = new Signal<this, void>(this);
}

function outputsOf(cell: ICellContent): IOutput[] {
  return (cell.outputs as IOutput[] | undefined) ?? [];
}

/** A notebook without its outputs, which the server does not need. */
function withoutOutputs(notebook: INotebookContent): INotebookContent {
  const cells = notebook.cells.map(cell =>
    cell.cell_type === 'code' ? { ...cell, outputs: [] } : cell
  );
  return { ...notebook, cells };
}
