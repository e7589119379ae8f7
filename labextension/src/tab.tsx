import {
  CommandToolbarButton,
  MainAreaWidget,
  ReactWidget,
  Toolbar,
  WidgetTracker
} from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { caretDownIcon, caretUpIcon, LabIcon } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';
import React from 'react';

import { IViewContext } from './context';
import { Counter } from './counter';
import { keepFocus } from './focus';
import { convertIcon } from './icons';
import { CommandIDs } from './ids';
import { LayoutSelect } from './layoutselect';
import { RowsToolbar } from './rowstoolbar';
import { ConversionView } from './view';

/** A box for a command that is on or off: JupyterLab's button says so to those alone who see it. */
class Toggle extends ReactWidget {
  constructor(
    private _commands: CommandRegistry,
    private _id: string
  ) {
    super();
    this.addClass('jp-hvd-toggle');
    _commands.commandChanged.connect(this._onChanged, this);
  }

  dispose(): void {
    this._commands.commandChanged.disconnect(this._onChanged, this);
    super.dispose();
  }

  protected render(): JSX.Element {
    return (
      <label title={this._commands.caption(this._id)}>
        <input
          type="checkbox"
          checked={this._commands.isToggled(this._id)}
          onChange={() => void this._commands.execute(this._id)}
        />
        {this._commands.label(this._id)}
      </label>
    );
  }

  private _onChanged(_: unknown, changed: { id?: string }): void {
    if (changed.id === this._id) {
      this.update();
    }
  }
}

export type ConversionTab = MainAreaWidget<ConversionView>;

/** Stand for the place among all changes, and for the choice of a layout. */
const COUNTER = 'position';
const LAYOUT = 'layout';

const TOOLBAR = [
  CommandIDs.verify,
  CommandIDs.apply,
  CommandIDs.saveCopy,
  CommandIDs.exportScript,
  '',
  CommandIDs.previousChange,
  COUNTER,
  CommandIDs.nextChange,
  CommandIDs.acceptAll,
  CommandIDs.leaveAll,
  LAYOUT,
  CommandIDs.toggleWrap,
  CommandIDs.refresh
];

/** Beside the count, arrows say it all. */
const ARROWS: Record<string, LabIcon> = {
  [CommandIDs.previousChange]: caretUpIcon,
  [CommandIDs.nextChange]: caretDownIcon
};

/** A tab with a notebook's conversion, and its toolbar. */
export function createTab(
  context: IViewContext,
  tracker: WidgetTracker<ConversionTab>
): ConversionTab {
  const { commands, session, trans } = context;
  const content = new ConversionView(context);
  const tab = new MainAreaWidget({ content, toolbar: new RowsToolbar() });
  tab.addClass('jp-hvd-tab');
  tab.id = `jupyter-hvd:${session.path}`;
  tab.title.icon = convertIcon;
  tab.title.className = 'jp-hvd-title';
  tab.title.closable = true;
  const name = (): void => {
    tab.title.label = trans.__('%1 → Horovod', PathExt.basename(session.path));
    tab.title.caption = trans.__('Changes that make %1 train with Horovod', session.path);
  };
  name();
  session.notebook.context.pathChanged.connect(name);
  tab.disposed.connect(() => session.notebook.context.pathChanged.disconnect(name));
  tab.toolbar.node.setAttribute('aria-label', trans.__('Conversion'));
  const item = (id: string): Widget =>
    id === ''
      ? Toolbar.createSpacerItem()
      : id === COUNTER
        ? new Counter(context)
        : id === LAYOUT
          ? new LayoutSelect(context)
          : id === CommandIDs.toggleWrap
            ? new Toggle(commands, id)
            : id in ARROWS
              ? new CommandToolbarButton({ commands, id, icon: ARROWS[id], label: '' })
              : new CommandToolbarButton({ commands, id });
  TOOLBAR.forEach((id, i) => tab.toolbar.addItem(id || `spacer ${i}`, item(id)));
  const update = (): void => {
    context.search.refresh();
    // One button stands out: the next step's.
    const holds = session.isVerdictCurrent && session.verification.state === 'holds';
    const last = session.isReadOnly ? 'copy' : 'apply';
    tab.node.dataset.next = holds ? last : 'verify';
    if (tracker.currentWidget === tab) {
      Object.values(CommandIDs).forEach(id => commands.notifyCommandChanged(id));
    }
  };
  session.changed.connect(() => {
    session.model?.changed.connect(update);
    update();
  });
  session.verification.changed.connect(update);
  const rewrap = (): void => commands.notifyCommandChanged(CommandIDs.toggleWrap);
  context.settings.changed?.connect(rewrap);
  tab.disposed.connect(() => context.settings.changed?.disconnect(rewrap));
  session.disposed.connect(() => tab.dispose());
  content.node.tabIndex = -1;
  tab.disposed.connect(keepFocus(tab.node));
  return tab;
}
