import {
  CommandToolbarButton,
  MainAreaWidget,
  Toolbar,
  WidgetTracker
} from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';

import { IViewContext } from './context';
import { convertIcon } from './icons';
import { CommandIDs } from './ids';
import { ConversionView } from './view';

export type ConversionTab = MainAreaWidget<ConversionView>;

const TOOLBAR = [
  CommandIDs.apply,
  CommandIDs.saveCopy,
  CommandIDs.exportScript,
  '',
  CommandIDs.previousChange,
  CommandIDs.nextChange,
  CommandIDs.acceptAll,
  CommandIDs.leaveAll,
  CommandIDs.toggleWrap,
  CommandIDs.refresh
];

/** A tab with a notebook's conversion, and its toolbar. */
export function createTab(
  context: IViewContext,
  tracker: WidgetTracker<ConversionTab>
): ConversionTab {
  const { commands, session, trans } = context;
  const content = new ConversionView(context);
  const tab = new MainAreaWidget({ content });
  tab.addClass('jp-hvd-tab');
  tab.id = `jupyter-hvd:${session.path}`;
  tab.title.icon = convertIcon;
  tab.title.label = trans.__('%1 → Horovod', PathExt.basename(session.path));
  tab.title.caption = trans.__('How %1 trains with Horovod', session.path);
  tab.title.closable = true;
  tab.toolbar.node.setAttribute('aria-label', trans.__('Conversion'));
  TOOLBAR.forEach((id, i) =>
    tab.toolbar.addItem(
      id || `spacer ${i}`,
      id ? new CommandToolbarButton({ commands, id }) : Toolbar.createSpacerItem()
    )
  );
  const update = (): void => {
    if (tracker.currentWidget === tab) {
      Object.values(CommandIDs).forEach(id => commands.notifyCommandChanged(id));
    }
  };
  session.changed.connect(() => {
    session.model?.changed.connect(update);
    update();
  });
  session.verification.changed.connect(update);
  session.disposed.connect(() => tab.dispose());
  return tab;
}
