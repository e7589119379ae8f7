import React, { createContext, useContext, useMemo, useRef, useState } from 'react';

import { Plot } from '../plot';
import { ITableRow, Table } from '../table';
import { Card } from './card';
import { usePanel } from './context';
import { Action, Choice, SizeSlider } from './controls';
import { Status } from './status';
import {
  Cell,
  Plot as IPlot,
  Remark as IRemark,
  Row,
  Section as ISection,
  Span,
  Table as ITable,
  View
} from './view.schema';

export type IBlock = View['controls'][number];

const HEIGHT = 210;

/** What the tables of a section share: the rows that are marked, and whether extra rows are shown. */
interface IShared {
  marked: string;
  mark: (group: string) => void;
  hasExtra: boolean;
  /** Bring a row into view. */
  show: (row: string) => void;
}

const Shared = createContext<IShared | null>(null);

/** A part of a view, and its parts. */
export function Block({ block }: { block: IBlock }): JSX.Element | null {
  switch (block.type) {
    case 'section':
      return <Section section={block} />;
    case 'table':
      return <DataTable table={block} />;
    case 'plot':
      return <Curves plot={block} />;
    case 'remark':
      return <Remark remark={block} />;
    case 'card':
      return <Card card={block} />;
    case 'slider':
      return <SizeSlider slider={block} />;
    case 'choice':
      return <Choice choice={block} />;
    case 'action':
      return <Action action={block} />;
  }
}

/** Blocks below one another; a folded section asks for what it lacks when it is opened. */
function Section({ section }: { section: ISection }): JSX.Element | null {
  const { model, said } = usePanel();
  const [marked, mark] = useState('');
  const [hasExtra, setExtra] = useState(false);
  const root = useRef<HTMLElement>(null);
  const outer = useContext(Shared);
  const own = useMemo<IShared>(() => {
    const show = (row: string): void =>
      root.current
        ?.querySelector(`[data-row="${CSS.escape(row)}"]`)
        ?.scrollIntoView({ block: 'nearest', behavior: 'smooth' });
    return { marked, mark, hasExtra, show };
  }, [marked, hasExtra]);
  const { name, blocks, title, label, more, ask } = section;
  if (section.folded && blocks.length === 0 && !model.isLive) {
    return null;
  }
  const content = (
    <Shared.Provider value={outer ?? own}>
      {blocks.map((block, i) => (
        <Block key={`${i} ${block.type}`} block={block} />
      ))}
      {more && (
        <label className="jp-hvd-gc-check">
          <input
            type="checkbox"
            checked={hasExtra}
            onChange={event => setExtra(event.target.checked)}
          />
          {said(more)}
        </label>
      )}
    </Shared.Provider>
  );
  const attributes = {
    className: `jp-hvd-gc-${name}`,
    onMouseLeave: () => mark('')
  };
  if (section.folded) {
    return (
      <details
        ref={root as React.RefObject<HTMLDetailsElement>}
        {...attributes}
        onToggle={event => event.currentTarget.open && ask && model.ask({ ...ask })}
      >
        <summary title={label && said(label)}>{said(title ?? '')}</summary>
        {content}
      </details>
    );
  }
  const Tag = label ? 'section' : 'div';
  return (
    <Tag {...attributes} aria-label={label && said(label)}>
      {title && <h3>{said(title)}</h3>}
      {content}
    </Tag>
  );
}

function Remark({ remark }: { remark: IRemark }): JSX.Element | null {
  const { model, said } = usePanel();
  const { text, role } = remark;
  const words = <Words text={text} />;
  const error = said(model.error) || text[0]?.text;
  switch (role) {
    case 'kernel':
      return <Status>{text.length > 0 && words}</Status>;
    case 'status':
      return <p role="status">{words}</p>;
    case 'alert':
      return error ? <pre role="alert">{error}</pre> : null;
    case 'error':
      return <pre role="alert">{words}</pre>;
    case 'code':
      return <pre tabIndex={0}>{text.map(span => span.text)}</pre>;
    case 'legend':
      return <p className="jp-hvd-gc-legend">{words}</p>;
    default:
      return <p className={role && `jp-hvd-gc-${role}`}>{words}</p>;
  }
}

/** Words, with what a click on them shows. */
export function Words({ text = [] }: { text?: readonly Span[] }): JSX.Element {
  return (
    <>
      {text.map((span, i) => (
        <React.Fragment key={i}>
          {i > 0 && ' '}
          <Phrase span={span} />
        </React.Fragment>
      ))}
    </>
  );
}

function Phrase({ span }: { span: Span }): JSX.Element {
  const { reveal, said } = usePanel();
  const shared = useContext(Shared);
  const { text, look, title, code, colour, place, row } = span;
  const isCode = code || place;
  const words = code ? <code>{text}</code> : said(text);
  const attributes = {
    title: isCode ? title : title && said(title),
    className: [look && `jp-hvd-gc-${look}`, colour && `jp-hvd-gc-${colour}`]
      .filter(Boolean)
      .join(' ')
  };
  return place || row ? (
    <button
      type="button"
      {...attributes}
      onClick={() => (place ? reveal(place) : shared?.show(row!))}
    >
      {words}
    </button>
  ) : (
    <span {...attributes}>{words}</span>
  );
}

/** A table whose rows are marked together with others of their groups. */
function DataTable({ table }: { table: ITable }): JSX.Element {
  const { said } = usePanel();
  const shared = useContext(Shared)!;
  const { columns, rows } = table;
  const row = ({ name, cells, colour, group }: Row): ITableRow => ({
    key: name,
    'data-row': name,
    className: [
      colour && `jp-hvd-gc-${colour}`,
      group && group === shared.marked && 'jp-hvd-mod-lit'
    ]
      .filter(Boolean)
      .join(' '),
    onMouseEnter: () => shared.mark(group ?? ''),
    onFocus: () => shared.mark(group ?? ''),
    cells: cells.map((cell, i) => ({
      className: `jp-hvd-gc-in-${columns[i].name}`,
      title: cell.title && said(cell.title),
      children: <Content cell={cell} />
    }))
  });
  return (
    <div className="jp-hvd-gc-table" tabIndex={0}>
      <Table
        label={said(table.label)}
        caption={table.caption && said(table.caption)}
        columns={columns.map(({ name, title, help }) => ({
          className: `jp-hvd-gc-in-${name}`,
          title: said(title),
          help: help && said(help)
        }))}
        groups={[{ rows: rows.filter(each => shared.hasExtra || !each.extra).map(row) }]}
        empty={table.empty && said(table.empty)}
      />
    </div>
  );
}

function Content({ cell }: { cell: Cell }): JSX.Element {
  const { value, share } = cell;
  const words = (
    <>
      <Words text={cell.text} />
      {cell.note && (
        <span className="jp-hvd-gc-note">
          <Words text={cell.note} />
        </span>
      )}
    </>
  );
  if (share !== undefined && share !== null) {
    return (
      <span className="jp-hvd-gc-bar">
        <span style={{ width: `${100 * share}%` }} />
        <em>{words}</em>
      </span>
    );
  }
  return value === undefined ? (
    words
  ) : (
    <data className="jp-hvd-gc-total" value={value ?? ''}>
      {words}
    </data>
  );
}

function Curves({ plot }: { plot: IPlot }): JSX.Element {
  const { said } = usePanel();
  const { label, heading, caption, rule, series, x, y } = plot;
  return (
    <figure>
      {heading && <figcaption className="jp-hvd-gc-strong">{said(heading)}</figcaption>}
      <Plot
        label={said(label)}
        x={x}
        y={y}
        series={series.map(each => ({
          ...each,
          marks: each.marks?.map(mark => ({ ...mark, text: said(mark.text) })),
          className: `jp-hvd-gc-${each.colour} jp-hvd-mod-${each.look ?? 'plain'}`
        }))}
        rule={rule ?? null}
        height={HEIGHT}
      />
      {caption && <figcaption>{said(caption)}</figcaption>}
    </figure>
  );
}
