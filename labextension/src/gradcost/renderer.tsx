import { ISessionContext, ReactWidget } from '@jupyterlab/apputils';
import { IRenderMime } from '@jupyterlab/rendermime';
import { TranslationBundle } from '@jupyterlab/translation';
import { JSONObject } from '@lumino/coreutils';
import React from 'react';

import { PanelContext } from './context';
import { PanelLink } from './link';
import { PanelModel } from './model';
import { IReport, ISource, isReport, MIME } from './report';
import { View } from './view';

/** What a panel takes from the place where it stands. */
export interface ISurroundings {
  session: ISessionContext;
  trans: TranslationBundle;
  reveal: (place: ISource) => void;
  /** The report of a panel has changed, or the panel has gone: the lines' heat may change. */
  heat: (panel: object, report: IReport | null) => void;
}

/** A panel as a widget, around its model. */
export class PanelWidget extends ReactWidget {
  constructor(protected surroundings: ISurroundings) {
    super();
    this.addClass('jp-hvd-GradCost');
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
    this._model?.dispose();
    this._model = model;
    const heat = (): void => this.surroundings.heat(this, model.report);
    model.changed.connect(heat);
    heat();
    this.update();
  }

  protected render(): JSX.Element | null {
    const { trans, reveal } = this.surroundings;
    return (
      this._model && (
        <PanelContext.Provider value={{ model: this._model, trans, reveal }}>
          <View />
        </PanelContext.Provider>
      )
    );
  }

  private _model: PanelModel | null = null;
}

/** A panel in a cell's output: shows what is saved, and follows the kernel where there is one. */
export class PanelRenderer extends PanelWidget implements IRenderMime.IRenderer {
  constructor(
    surroundings: ISurroundings,
    private _keep: (panel: PanelRenderer, id: string, bundle: JSONObject) => void
  ) {
    super(surroundings);
  }

  renderModel(mime: IRenderMime.IMimeModel): Promise<void> {
    const report: unknown = mime.data[MIME];
    if (!isReport(report)) {
      this.node.textContent = this.surroundings.trans.__(
        'This panel was made by another version: run the cell again.'
      );
    } else if (this.model?.report?.id === report.id) {
      this.model.saved = report;
    } else {
      const { id } = report;
      const link = new PanelLink(this.surroundings.session, { id });
      this.present(new PanelModel(report, link, bundle => this._keep(this, id, bundle)));
    }
    return Promise.resolve();
  }
}

/** A panel in a tab of its own, about a cell's functions. */
export class PanelView extends PanelWidget {
  constructor(surroundings: ISurroundings, request: JSONObject) {
    super(surroundings);
    const link = new PanelLink(surroundings.session, request);
    this.present(new PanelModel(null, link));
  }
}
