import { ReactWidget } from '@jupyterlab/apputils';
import React, {
  memo,
  startTransition,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState
} from 'react';

import { CostPanel } from './costpanel';
import { IViewContext, useSignal, useView, ViewContext } from './context';
import { DecisionTree } from './decisiontree';
import { DiagnosticList } from './findings';
import { CommandIDs } from './ids';
import { ConversionModel } from './model';
import { ErrorBar, Failure, NoticeBar } from './notices';
import { OptionsPanel } from './optionspanel';
import { ACROSS, useRovingFocus } from './roving';
import { CellSection, FoldSection } from './sections';
import { Summary } from './summary';
import { VerificationPanel } from './verificationpanel';

/** The tab's content: the notebook's diff, and what belongs beside it. */
export class ConversionView extends ReactWidget {
  constructor(private _context: IViewContext) {
    super();
    this.addClass('jp-hvd-Conversion');
  }

  get session(): IViewContext['session'] {
    return this._context.session;
  }

  get search(): IViewContext['search'] {
    return this._context.search;
  }

  protected render(): JSX.Element {
    return (
      <ViewContext.Provider value={this._context}>
        <Conversion />
      </ViewContext.Provider>
    );
  }

  /** Move the focus to the next change, or to the one before. */
  focusChange(step: 1 | -1): void {
    const { model, viewed } = this.session;
    // Cells that were looked at are closed, with their changes.
    const next = model
      ?.choicesFrom(step)
      .find(({ cell }) => cell !== null && !viewed.has(model, cell));
    if (model && next) {
      model.visit(next);
      this.session.reveal({ cell: next.cell!, line: next.line, change: next });
    }
  }

  dispose(): void {
    this._context.session.dispose();
    super.dispose();
  }
}

function Conversion(): JSX.Element {
  const { session, trans } = useView();
  useSignal(session.changed);
  const { model, state } = session;
  if (state === 'loading') {
    return (
      <div className="jp-hvd-state" role="status" aria-busy="true">
        <div className="jp-hvd-spinner" />
        <p>{trans.__('Converting %1…', session.path)}</p>
      </div>
    );
  }
  if (!model) {
    return <Failure />;
  }
  const diagnostics = model.diagnostics.filter(
    found => session.notice !== 'applied' || found.severity !== 'info'
  );
  return (
    <>
      {state === 'error' ? <ErrorBar /> : <NoticeBar />}
      <div className="jp-hvd-columns">
        <section className="jp-hvd-main" aria-label={trans.__('Changes to the notebook')}>
          <Summary />
          <Sections model={model} />
        </section>
        <aside className="jp-hvd-side" aria-label={trans.__('Findings and estimates')}>
          {diagnostics.length > 0 && (
            <Panel title={trans.__('Findings')} count={diagnostics.length}>
              <DiagnosticList diagnostics={diagnostics} />
            </Panel>
          )}
          {model.changes.length > 0 && (
            <Panel title={trans.__('Decisions')}>
              <DecisionTree />
            </Panel>
          )}
          {(model.changes.length > 0 || session.verification.verdict) && (
            <Panel title={trans.__('Verification')}>
              <VerificationPanel />
            </Panel>
          )}
          <Panel title={trans.__('Scaling')}>
            <CostPanel />
          </Panel>
          {model.conversion.status !== 'unchanged' && (
            <Panel title={trans.__('Options')}>
              <OptionsPanel />
            </Panel>
          )}
        </aside>
      </div>
    </>
  );
}

function Panel(props: {
  title: string;
  count?: number;
  /** Whether it is closed at first. */
  isClosed?: boolean;
  children: React.ReactNode;
}): JSX.Element {
  return (
    <details className="jp-hvd-panel" open={!props.isClosed}>
      <summary>
        {props.title}
        {props.count !== undefined && <span className="jp-hvd-count">{props.count}</span>}
      </summary>
      {props.children}
    </details>
  );
}

/** So many sections fill the screen; they are there before the others, of which there may be hundreds. */
const SCREENFUL = 8;

/** Pixels: from so many on, both texts stand side by side, where the user has chosen no layout. */
const WIDE = 900;

/** Up and down lead from change to change. */
const MOVES: Record<string, string | undefined> = {
  ArrowDown: CommandIDs.nextChange,
  ArrowUp: CommandIDs.previousChange
};

/** The cells of a conversion: hundreds of them, which are rendered again where the conversion is another one. */
const Sections = memo(function ({ model }: { model: ConversionModel }): JSX.Element {
  const { commands, settings } = useView();
  useSignal(settings.changed);
  const { layout } = settings;
  const sections = useMemo(() => model.sections(), [model]);
  const [whole, setWhole] = useState(false);
  const [isWide, setWide] = useState(false);
  const node = useRef<HTMLDivElement>(null);
  useRovingFocus(node, { first: '.jp-hvd-choice', keys: ACROSS });
  useEffect(() => startTransition(() => setWhole(true)), []);
  useLayoutEffect(() => {
    const measure = (): void => setWide(node.current!.clientWidth >= WIDE);
    const observer = new ResizeObserver(measure);
    observer.observe(node.current!);
    measure();
    return () => observer.disconnect();
  }, []);
  const moveByChange = (event: React.KeyboardEvent<HTMLElement>): void => {
    const id = MOVES[event.key];
    const target = event.target as HTMLElement;
    if (id && !event.altKey && target.matches('button, input')) {
      event.preventDefault();
      void commands.execute(id);
    }
  };
  return (
    <div ref={node} className="jp-hvd-cells" onKeyDown={moveByChange}>
      {sections
        .slice(0, whole ? undefined : SCREENFUL)
        .map((section, i) =>
          section.kind === 'cell' ? (
            <CellSection
              key={model.cells[section.index].id}
              index={section.index}
              isFirst={i < 2}
              isWide={layout === 'auto' ? isWide : layout === 'split'}
            />
          ) : (
            <FoldSection
              key={`fold ${model.cells[section.from].id}`}
              from={section.from}
              to={section.to}
            />
          )
        )}
    </div>
  );
});
