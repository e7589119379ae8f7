import { Toolbar } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

/** JupyterLab's variable for the height of a toolbar, from which a tab's layout takes it. */
const HEIGHT = '--jp-private-toolbar-height';

/** Pixels of a row; base.css gives the items the same height. */
const ROW = 31;

/** A toolbar that goes on in another row where there is no room: nothing is hidden, and Tab and arrow keys come to all of it. */
export class RowsToolbar extends Toolbar {
  constructor() {
    super({ noFocusOnClick: true });
    this.addClass('jp-hvd-rows');
  }

  insertItem(index: number, name: string, widget: Widget): boolean {
    this._sizes.observe(widget.node);
    return super.insertItem(index, name, widget);
  }

  dispose(): void {
    this._sizes.disconnect();
    super.dispose();
  }

  protected onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._sizes.observe(this.node);
  }

  private _fitRows(): void {
    const tops = [...this.node.children].map(item => (item as HTMLElement).offsetTop);
    const height = `calc(${new Set(tops).size * ROW}px + var(--jp-border-width))`;
    if (this.node.style.getPropertyValue(HEIGHT) !== height) {
      this.node.style.setProperty(HEIGHT, height);
      this.fit();
    }
  }

  private _sizes = new ResizeObserver(() => this._fitRows());
}
