import React from 'react';

/** A row of a table: what names it, and what else is in it. */
export interface ITableRow extends React.HTMLAttributes<HTMLTableRowElement> {
  key: React.Key;
  /** Finds the row in the page. */
  'data-row'?: string;
  /** The first one names the row; null where the row above spans it. */
  cells: readonly (ITableCell | null)[];
}

export interface ITableCell extends React.TdHTMLAttributes<HTMLTableCellElement> {
  children?: React.ReactNode;
}

/** Cells with nothing but their contents. */
export function cellsOf(...contents: React.ReactNode[]): ITableCell[] {
  return contents.map(children => ({ children }));
}

/** A table: headings of columns, and rows in groups, the first cell of each names it. */
export function Table(props: {
  className?: string;
  label?: string;
  caption?: React.ReactNode;
  columns: readonly { title: string; help?: string; className?: string }[];
  groups: readonly { title?: string; rows: readonly ITableRow[] }[];
  /** Stands for rows that there are not. */
  empty?: string;
}): JSX.Element {
  const { className, label, caption, columns, groups, empty } = props;
  return (
    <table className={className} aria-label={label}>
      {caption && <caption>{caption}</caption>}
      <thead>
        <tr>
          {columns.map(({ title, help, className: name }, i) =>
            title ? (
              <th key={i} scope="col" className={name} title={help}>
                {title}
              </th>
            ) : (
              <td key={i} className={name} />
            )
          )}
        </tr>
      </thead>
      {groups.map(({ title, rows }, i) => (
        <tbody key={i}>
          {title && (
            <tr>
              <th colSpan={columns.length} scope="rowgroup">
                {title}
              </th>
            </tr>
          )}
          {rows.map(({ key, cells: [head, ...cells], ...attributes }) => (
            <tr key={key} {...attributes}>
              {head && <th scope="row" {...head} />}
              {cells.map((cell, j) => (
                <td key={j} {...cell} />
              ))}
            </tr>
          ))}
          {rows.length === 0 && empty && (
            <tr>
              <td colSpan={columns.length}>{empty}</td>
            </tr>
          )}
        </tbody>
      ))}
    </table>
  );
}
