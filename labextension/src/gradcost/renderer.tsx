import { ISessionContext, ReactWidget } from '@jupyterlab/apputils';
import { IRenderMime } from '@jupyterlab/rendermime';
import { TranslationBundle } from '@jupyterlab/translation';
import { JSONObject } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';
import React from 'react';

import { serverText } from '../servertext';
import { Undo } from './change';
import { PanelContext } from './context';
import { PanelLink } from './link';
import { PanelModel } from './model';
import { IChange, IReport, ISource, isReport, MIME } from './report';
import { View } from './view';

/** What a panel takes from the place where it stands. */
export interface ISurroundings {
  session: ISessionContext;
  trans: TranslationBundle;
  reveal: (place: ISource) => void;
  /** Put a change into its cell; returns why not, where that cannot be. */
  put: (change: IChange) => Undo | string;
  /** The report of a panel has changed, or the panel has gone: the lines' heat may change. */
  heat: (panel: object, report: IReport | null) => void;
}

const panels = new WeakMap<Element, PanelWidget>();

/** The panel that has the focus. */
export function focusedPanel(): PanelWidget | undefined {
  const node = document.activeElement?.closest('.jp-hvd-GradCost');
  return node ? panels.get(node) : undefined;
}

/** A panel as a widget, around its model. */
export class PanelWidget extends ReactWidget {
  constructor(protected surroundings: ISurroundings) {
    super();
    this.addClass('jp-hvd-GradCost');
    panels.set(this.node, this);
  }

  get model(): PanelModel | null {
    return this._model;
  }

  dispose(): void {
    if (!this.isDisposed) {
      this.surroundings.heat(this, null);
      this._model?.dispose();
      super.dispose();
    }
  }

  protected present(model: PanelModel): void {
    this._replace(model);
    const heat = (): void => this.surroundings.heat(this, model.report);
    model.changed.connect(heat);
    heat();
  }

  /** Say why there is nothing to show. */
  protected refuse(why: string): void {
    this._replace(null, why);
    this.surroundings.heat(this, null);
  }

  protected render(): JSX.Element {
    const { trans, reveal } = this.surroundings;
    return this._model ? (
      <PanelContext.Provider
        value={{ model: this._model, trans, said: serverText(trans), reveal }}
      >
        <View />
      </PanelContext.Provider>
    ) : (
      <p className="jp-hvd-gc-empty">{this._refusal}</p>
    );
  }

  private _replace(model: PanelModel | null, refusal = ''): void {
    this._model?.dispose();
    this._model = model;
    this._refusal = refusal;
    this.update();
  }

  private _model: PanelModel | null = null;
  private _refusal = '';
}

/** A panel in a cell's output: shows what is saved, and follows the kernel where there is one. */
export class PanelRenderer extends PanelWidget implements IRenderMime.IRenderer {
  renderModel(mime: IRenderMime.IMimeModel): Promise<void> {
    this._mime = mime;
    const report: unknown = mime.data[MIME];
    const { trans } = this.surroundings;
    if (!isReport(report)) {
      this.refuse(
        trans.__('This panel was made by another version: run the cell again.')
      );
    } else if (this.model?.report?.id === report.id) {
      this.model.saved = report;
    } else {
      const link = new PanelLink(this.surroundings.session, { id: report.id });
      const { put } = this.surroundings;
      this.present(new PanelModel(report, link, bundle => this._keep(bundle), put));
    }
    return Promise.resolve();
  }

  /** Put the last figures into the output, for the notebook to save. */
  private _keep(bundle: JSONObject): void {
    this._mime?.setData({ data: { ...this._mime.data, ...bundle } });
  }

  private _mime?: IRenderMime.IMimeModel;
}

/** What a tab is about, for the layout to keep: a notebook's cell, and the kernel's panel. */
export interface IPlace {
  path: string;
  cell: string;
  id: string;
  /** Tells tabs apart. */
  tab: string;
}

/** A panel in a tab of its own, about a cell's functions. */
export class PanelView extends PanelWidget {
  constructor(
    surroundings: ISurroundings,
    private _place: IPlace,
    request: JSONObject
  ) {
    super(surroundings);
    this._link = new PanelLink(surroundings.session, request);
    const model = new PanelModel(null, this._link, null, surroundings.put);
    model.changed.connect(() => {
      if (model.report && model.report.id !== this._place.id) {
        this._place = { ...this._place, id: model.report.id };
        this._named.emit();
      }
    });
    this.present(model);
  }

  get place(): IPlace {
    return this._place;
  }

  /** Emitted when the kernel has given the panel another name. */
  get named(): ISignal<this, void> {
    return this._named;
  }

  /** Connect again, when the kernel has become ready to answer. */
  connect(request: JSONObject): void {
    this._link.connect(request);
  }

  private _link: PanelLink;
  private _named = new Signal<this, void>(this);
}
