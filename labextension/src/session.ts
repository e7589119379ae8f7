import type { IMapChange, ISharedNotebook } from '@jupyter/ydoc';
import { INotebookContent } from '@jupyterlab/nbformat';
import { NotebookPanel } from '@jupyterlab/notebook';
import { Contents } from '@jupyterlab/services';
import { IDisposable } from '@lumino/disposable';
import { Debouncer } from '@lumino/polling';
import { ISignal, Signal } from '@lumino/signaling';

import { AppliedChanges, applyChanges } from './applied';
import { Change, Options, VerifyRequest } from './conversion';
import { putDistribute, removeDistribute } from './distributed';
import { hashOf } from './hash';
import { KernelFacts } from './kernelfacts';
import { ConversionModel, ICell, sameProgram } from './model';
import { cellsOf, withoutOutputs, withSources } from './notebookcontent';
import { inMode, METADATA, optionsOf, withOptions } from './options';
import { HvdApi } from './request';
import { Reviews } from './review';
import { saveBeside } from './saving';
import { Mode, modeOf } from './training';
import { VerificationModel } from './verification';
import { ViewedCells } from './viewed';

export type SessionState = 'loading' | 'ready' | 'error';
export type Notice = 'none' | 'stale' | 'refreshed' | 'applied';

/** A place in the notebook to show: a cell's index and a line in it. */
export interface IPlace {
  cell: number;
  line: number;
  /** The change there whose row gets the focus, if any. */
  change?: Change;
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
    this.facts = new KernelFacts(
      notebook,
      () => this._model?.conversion.training?.rows_of ?? null
    );
    this.facts.changed.connect(() => this._changed.emit());
    notebook.context.pathChanged.connect(this._onPathChanged, this);
    this.verification.changed.connect(this._keepReview, this);
    this.viewed.changed.connect(this._keepReview, this);
    void notebook.context.ready.then(() => this._start());
  }

  readonly verification = new VerificationModel();

  /** The cells that the user has looked at. */
  readonly viewed = new ViewedCells();

  /** What the kernel and the outputs tell about the training. */
  readonly facts: KernelFacts;

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

  /** The notebook's place below the server's folder. */
  get localPath(): string {
    return this._contents.localPath(this.path);
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
        path: this.localPath
      });
      if (request === this._requests && !this.isDisposed) {
        const { left, visited } = this._model ?? { left: this._left };
        this._model = new ConversionModel(cells, conversion, left, visited);
        this._model.changed.connect(this._keepReview, this);
        void this.facts.refresh();
        this._set('ready', notice);
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
    const isVerified = this.isVerdictCurrent;
    this._applied = applyChanges(model, this._shared);
    await this.convert('applied');
    if (isVerified) {
      this.verification.carry(this.subjectKey);
    }
  }

  /** Whether the applied changes can be taken back: no cell that they changed was edited since. */
  get canUndo(): boolean {
    return this._applied?.canUndo(this._cells()) ?? false;
  }

  /** Take the applied changes back; what was written elsewhere in the notebook since stays. */
  async undo(): Promise<void> {
    if (this.canUndo) {
      this._applied!.undo(this._shared, this._cells());
      this._applied = null;
      await this.convert();
    }
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
    await this._converting();
    this.notebook.content.activeCellIndex = putDistribute(
      this._shared,
      this.trainingCells,
      this._workers,
      this.mode
    );
    await this.convert();
  }

  /** Let the cells that train run in the kernel again. */
  async undistribute(): Promise<void> {
    await this._converting();
    removeDistribute(this._shared, this.trainingCells);
    await this.convert();
  }

  /** Save the notebook with the accepted changes beside it; returns the copy's path. */
  async saveCopy(): Promise<string> {
    const content = await this._converted();
    const file = { type: 'notebook', format: 'json', content } as const;
    return saveBeside(this._contents, this.path, '.ipynb', file);
  }

  /** Save the notebook with the accepted changes as a script beside it; returns its path. */
  async exportScript(): Promise<string> {
    const notebook = withoutOutputs(await this._converted());
    const content = await this._api.script({ notebook });
    const file = { type: 'file', format: 'text', content } as const;
    return saveBeside(this._contents, this.path, '.py', file);
  }

  /** Run the notebook and its conversion on some ranks, on the server, and compare. */
  async verify(ranks: number, confirmed = false): Promise<void> {
    const model = await this._current();
    const request = {
      notebook: withoutOutputs(this._content()),
      n: ranks,
      options: this.chosenOptions,
      path: this.localPath,
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
    this.facts.dispose();
    this._disposed.emit();
    Signal.clearData(this);
  }

  private async _start(): Promise<void> {
    const review = await this._reviews.load(this.path);
    if (!this.isDisposed) {
      this._left = review?.left ?? [];
      this.viewed.restore(review?.viewed ?? []);
      if (review?.verdict) {
        this.verification.restore(review.verdict);
      }
      const { model } = this.notebook.content;
      model!.contentChanged.connect(this._onContentChanged, this);
      model!.metadataChanged.connect(this._onMetadataChanged, this);
      void this.convert();
    }
  }

  /** Keep what the user has left out and looked at, and the verdict, for when the page is loaded again. */
  private _keepReview(): void {
    const left = [...(this._model?.left ?? this._left)];
    if (!this.verification.isBusy) {
      const { verdict } = this.verification;
      void this._reviews.save(this.path, { left, verdict, viewed: this.viewed.digests });
    }
  }

  private get _shared(): ISharedNotebook {
    return this.notebook.content.model!.sharedModel;
  }

  private _content(): INotebookContent {
    return this._shared.toJSON();
  }

  /** The notebook with the accepted changes. */
  private async _converted(): Promise<INotebookContent> {
    const model = await this._current();
    return withSources(this._content(), model.results());
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

  /** Wait until there is a model of the notebook as it is now; for what touches nothing that the user has reviewed. */
  private async _converting(): Promise<void> {
    if (!this._isCurrent()) {
      await this.convert();
    }
    await this._current();
  }

  private _cells(): ICell[] {
    return cellsOf(this._shared);
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

  private _set(state: SessionState, notice: Notice = 'none'): void {
    this._state = state;
    this._notice = notice;
    this._changed.emit();
  }

  private _model: ConversionModel | null = null;
  private _left: readonly string[] = [];
  private _applied: AppliedChanges | null = null;
  private _state: SessionState = 'loading';
  private _notice: Notice = 'none';
  private _error = '';
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
