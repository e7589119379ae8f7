import {
  ISearchMatch,
  ISearchProviderRegistry,
  SearchProvider
} from '@jupyterlab/documentsearch';
import { Widget } from '@lumino/widgets';

import { DiffSearch, IMatch } from './search';
import { ConversionTab } from './tab';
import { ConversionView } from './view';

/** JupyterLab's search (Ctrl+F) in a notebook's conversion. */
class DiffSearchProvider extends SearchProvider<ConversionTab> {
  constructor(widget: ConversionTab) {
    super(widget);
    this._search.renewed.connect(this._onRenewed, this);
  }

  readonly isReadOnly = true;

  get currentMatchIndex(): number | null {
    return this._search.index;
  }

  get matchesCount(): number {
    return this._search.matches.length;
  }

  getInitialQuery(): string {
    const selected = window.getSelection()?.toString() ?? '';
    return selected.includes('\n') ? '' : selected;
  }

  async startQuery(query: RegExp): Promise<void> {
    this._search.start(query);
  }

  async endQuery(): Promise<void> {
    this._search.end();
  }

  async clearHighlight(): Promise<void> {
    this._search.leave();
  }

  async highlightNext(): Promise<ISearchMatch | undefined> {
    this._search.move(1);
    return toSearchMatch(this._search.current);
  }

  async highlightPrevious(): Promise<ISearchMatch | undefined> {
    this._search.move(-1);
    return toSearchMatch(this._search.current);
  }

  async replaceCurrentMatch(): Promise<boolean> {
    return false;
  }

  async replaceAllMatches(): Promise<boolean> {
    return false;
  }

  dispose(): void {
    if (!this.isDisposed) {
      this._search.renewed.disconnect(this._onRenewed, this);
      this._search.end();
      super.dispose();
    }
  }

  private get _search(): DiffSearch {
    return this.widget.content.search;
  }

  private _onRenewed(): void {
    this._stateChanged.emit();
  }
}

function toSearchMatch(match: IMatch | null): ISearchMatch | undefined {
  return match ? { text: '', position: match.from } : undefined;
}

/** Let JupyterLab search in the tabs of conversions. */
export function addSearch(registry: ISearchProviderRegistry): void {
  registry.add('jupyter-hvd:diff', {
    createNew: (widget: Widget) => new DiffSearchProvider(widget as ConversionTab),
    isApplicable: (widget: Widget): widget is ConversionTab =>
      (widget as ConversionTab).content instanceof ConversionView
  });
}
