import { NotebookPanel } from '@jupyterlab/notebook';
import { Kernel } from '@jupyterlab/services';
import { ISignal, Signal } from '@lumino/signaling';

import { ModelSize } from './conversion';
import { heldByKernel, IHeld, Measured, networkInKernel } from './kernel';
import { outputsOf } from './notebookcontent';
import { IPrintedStep, printedSteps } from './printedstep';

/** What a notebook's kernel and its outputs tell about its training. */
export class KernelFacts {
  /**
   * @param _array the name of the array whose rows the training is on, null where it is not known.
   */
  constructor(
    private _notebook: NotebookPanel,
    private _array: () => string | null
  ) {
    _notebook.sessionContext.statusChanged.connect(this._onStatus, this);
  }

  /** Emitted when the kernel was asked again. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The models that the running kernel holds. */
  get models(): readonly ModelSize[] {
    return this._held.models;
  }

  /** How many examples the array has in the running kernel that the training is on. */
  get rows(): number | null {
    return this._held.rows;
  }

  /** The times of steps that the notebook's own training has printed, by its cells. */
  get printedSteps(): readonly IPrintedStep[] {
    return this._printedSteps;
  }

  /** Measure what lies between the workers that live in the notebook's kernel; null where it cannot be asked. */
  measureNetwork(): Promise<Measured | null> {
    return networkInKernel(this._kernel);
  }

  /** Read the outputs, and ask the kernel where it has nothing else to do. */
  async refresh(): Promise<void> {
    const { sharedModel } = this._notebook.content.model!;
    this._printedSteps = printedSteps(
      sharedModel.toJSON().cells.map(cell => ({
        source: [cell.source].flat().join(''),
        outputs: outputsOf(cell)
      }))
    );
    if (this._kernel?.status === 'idle' && !this._isAsking) {
      this._isAsking = true;
      const asked = heldByKernel(this._kernel, this._array());
      this._held = await asked.catch(() => this._held);
      this._isAsking = false;
      this._changed.emit();
    }
  }

  dispose(): void {
    Signal.clearData(this);
  }

  private _onStatus(): void {
    if (this._kernel?.status === 'idle' && this._notebook.content.model) {
      void this.refresh();
    }
  }

  private get _kernel(): Kernel.IKernelConnection | null | undefined {
    return this._notebook.sessionContext.session?.kernel;
  }

  private _held: IHeld = { models: [], rows: null };
  private _printedSteps: readonly IPrintedStep[] = [];
  private _isAsking = false;
  private _changed = new Signal<this, void>(this);
}
