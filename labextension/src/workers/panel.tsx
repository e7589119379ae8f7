import { ReactWidget, SessionContextDialogs } from '@jupyterlab/apputils';
import { NotebookPanel } from '@jupyterlab/notebook';
import { ITranslator, TranslationBundle } from '@jupyterlab/translation';
import { UUID } from '@lumino/coreutils';
import { Message } from '@lumino/messaging';
import React from 'react';

import { useSignal } from '../context';
import { cellsOf, Table } from '../table';
import { ServerText, serverText } from '../servertext';
import { Follower } from './follower';
import { ILook, isReplicated, IWorker, lookAt, valueOn } from './look';
import { ITab, Tabs } from './tabs';
import { AllVariables, OwnVariables } from './variables';

/** What the parts of the panel use. */
export interface IPanel {
  follower: Follower;
  trans: TranslationBundle;
  said: ServerText;
}

/** The workers of a notebook: one tab for all of them, and one for each. */
export class WorkersPanel extends ReactWidget {
  constructor(
    readonly notebook: NotebookPanel,
    private _translator: ITranslator
  ) {
    super();
    this.addClass('jp-hvd-WorkersPanel');
    this._trans = _translator.load('jupyter_hvd');
    this._follower = new Follower(notebook.sessionContext, lookAt);
  }

  dispose(): void {
    this._follower.dispose();
    super.dispose();
  }

  /** Ask the kernel again. */
  refresh(): void {
    void this._follower.ask(true);
  }

  protected onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._follower.follow(true);
  }

  protected onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._follower.follow(this.isVisible);
  }

  protected onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._follower.follow(false);
  }

  protected render(): JSX.Element {
    const trans = this._trans;
    const { sessionContext } = this.notebook;
    return (
      <View
        id={this._id}
        panel={{ follower: this._follower, trans, said: serverText(trans) }}
        interrupt={() => void sessionContext.session?.kernel?.interrupt()}
        restart={() =>
          void new SessionContextDialogs({ translator: this._translator }).restart(
            sessionContext
          )
        }
        refresh={() => this.refresh()}
      />
    );
  }

  private _id = `jp-hvd-workers-${UUID.uuid4()}`;
  private _trans: TranslationBundle;
  private _follower: Follower;
}

function View(props: {
  id: string;
  panel: IPanel;
  interrupt: () => void;
  restart: () => void;
  refresh: () => void;
}): JSX.Element {
  const { id, panel, interrupt, restart, refresh } = props;
  const { follower, trans, said } = panel;
  useSignal(follower.changed);
  const { look, hasAsked } = follower;
  const workers = look?.ranks ?? [];
  return (
    <>
      <header>
        <p role="status">{stateOf(look, hasAsked, trans, said)}</p>
        <button type="button" className="jp-mod-styled" onClick={refresh}>
          {trans.__('Refresh')}
        </button>
        <button
          type="button"
          className="jp-mod-styled"
          disabled={!look?.running}
          onClick={interrupt}
        >
          {trans.__('Interrupt')}
        </button>
        <button type="button" className="jp-mod-styled" onClick={restart}>
          {trans.__('Restart Kernel…')}
        </button>
      </header>
      {workers.length > 0 && (
        <Tabs
          id={id}
          label={trans.__('Workers')}
          tabs={tabsOf(look!, panel)}
          chosen={keyOf(
            follower.rank !== null && follower.rank < workers.length
              ? follower.rank
              : null
          )}
          onChoose={key => follower.show(key === 'all' ? null : Number(key))}
        >
          {follower.rank !== null && workers[follower.rank] ? (
            <OneWorker worker={workers[follower.rank]} panel={panel} />
          ) : (
            <AllWorkers panel={panel} />
          )}
        </Tabs>
      )}
    </>
  );
}

function keyOf(rank: number | null): string {
  return rank === null ? 'all' : String(rank);
}

/** What the notebook's workers are at, in a sentence. */
function stateOf(
  look: ILook | null,
  hasAsked: boolean,
  trans: TranslationBundle,
  said: ServerText
): string {
  if (!look) {
    return hasAsked
      ? trans.__('This kernel has no workers: a cell with %%distribute starts them.')
      : trans.__('Asking the kernel…');
  }
  if (!look.ranks.length) {
    return said(look.message);
  }
  return look.running
    ? trans.__('In[%1] runs.', look.cell)
    : trans.__('No cell runs on the workers.');
}

function tabsOf(look: ILook, { follower, trans }: IPanel): ITab[] {
  const differing = (follower.variables ?? []).filter(each => !isReplicated(each));
  const warnings = (rank: number): string | undefined => {
    const count = differing.filter(each => {
      const own = valueOn(each, rank);
      return own && own !== each.groups[0];
    }).length;
    return look.ranks[rank].lost
      ? trans.__('lost')
      : count
        ? trans._n('%1 variable differs', '%1 variables differ', count)
        : undefined;
  };
  return [
    { key: 'all', label: trans.__('All') },
    ...look.ranks.map(({ rank }) => ({
      key: String(rank),
      label: trans.__('Rank %1', rank),
      warning: warnings(rank)
    }))
  ];
}

function AllWorkers({ panel }: { panel: IPanel }): JSX.Element {
  const { follower, trans, said } = panel;
  const { ranks, words = [] } = follower.look!;
  return (
    <>
      <Table
        caption={trans.__('Where they are')}
        columns={[
          { title: trans.__('Rank') },
          { title: trans.__('Line') },
          { title: trans.__('Does') },
          { title: trans.__('Memory') }
        ]}
        groups={[
          {
            rows: ranks.map(worker => ({
              key: worker.rank,
              cells: [
                ...cellsOf(
                  worker.rank,
                  <Line worker={worker} said={said} />,
                  doingOf(worker, trans, said)
                ),
                { className: 'jp-hvd-mod-whole', children: bytes(worker.memory) }
              ]
            }))
          }
        ]}
      />
      <div role="alert" className="jp-hvd-advice">
        {words.map(line => (
          <p key={line}>{said(line)}</p>
        ))}
      </div>
      <AllVariables panel={panel} />
    </>
  );
}

function OneWorker(props: { worker: IWorker; panel: IPanel }): JSX.Element {
  const { worker, panel } = props;
  const { follower, trans, said } = panel;
  const lines = follower.look?.output ?? [];
  return (
    <>
      <dl>
        <dt>{trans.__('Line')}</dt>
        <dd>
          <Line worker={worker} said={said} />
        </dd>
        <dt>{trans.__('Does')}</dt>
        <dd>{doingOf(worker, trans, said)}</dd>
        <dt>{trans.__('Memory')}</dt>
        <dd>{bytes(worker.memory)}</dd>
        <dt>{trans.__('Process')}</dt>
        <dd>
          {trans.__('%1 on %2, %3', worker.pid, worker.host || '–', worker.device || '–')}
        </dd>
      </dl>
      <h3>{trans.__('Output')}</h3>
      {lines.length ? (
        <Output
          key={worker.rank}
          lines={lines}
          label={trans.__('Output of rank %1', worker.rank)}
        />
      ) : (
        <p>{trans.__('It has printed nothing in this cell.')}</p>
      )}
      <OwnVariables rank={worker.rank} panel={panel} />
    </>
  );
}

/** Lines that stay at their end, unless the user has scrolled up. */
function Output({ lines, label }: { lines: string[]; label: string }): JSX.Element {
  const element = React.useRef<HTMLPreElement>(null);
  const isAtEnd = React.useRef(true);
  const text = lines.join('\n');
  React.useEffect(() => {
    if (isAtEnd.current && element.current) {
      element.current.scrollTop = element.current.scrollHeight;
    }
  }, [text]);
  return (
    <pre
      ref={element}
      tabIndex={0}
      role="region"
      aria-label={label}
      onScroll={({ currentTarget: { clientHeight, scrollHeight, scrollTop } }) => {
        isAtEnd.current = scrollTop + clientHeight >= scrollHeight - 4;
      }}
    >
      {text}
    </pre>
  );
}

function Line({ worker, said }: { worker: IWorker; said: ServerText }): JSX.Element {
  return (
    <>
      {said(worker.line)} <code>{worker.text}</code>
    </>
  );
}

function doingOf(worker: IWorker, trans: TranslationBundle, said: ServerText): string {
  const seconds = Math.floor(worker.seconds);
  const does = said(worker.does);
  return seconds >= 2 && worker.text ? trans.__('%1, for %2 s', does, seconds) : does;
}

/** Memory, in the unit that `%hvd status` has. */
function bytes(count: number): string {
  return count ? `${Math.round(count / 2 ** 20)} MB` : '–';
}
