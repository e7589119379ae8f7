import React, { useEffect, useState } from 'react';

import { IAxis, logarithmic, Point } from '../axes';
import { IMark, ISeries, Plot } from '../plot';
import { usePanel } from './context';
import { count, time } from './format';
import { ICurve, IFigure, IReport, ITimes } from './report';
import { ISide, sidesOf } from './sides';

const HEIGHT = 220;
const TICKS = { x: 8, y: 6 };

/** Other functions of the notebook beside this one: which, their curves over each size, their formulas. */
export function Comparison({ report }: { report: IReport }): JSX.Element | null {
  const { trans } = usePanel();
  // Reports of before have none.
  const compared = report.compared ?? [];
  const names = [
    ...new Set([...(report.beside ?? []), ...compared.map(c => c.function)])
  ];
  if (names.length === 0) {
    return null;
  }
  const sides = sidesOf(report, compared);
  const sizes = report.curves
    .map(({ size }) => size)
    .filter(size => sides.filter(side => side.curve(size)).length > 1);
  return (
    <section
      className="jp-hvd-gc-compare"
      aria-label={trans.__('Comparison with other functions')}
    >
      <Choice names={names} chosen={compared.map(c => c.function)} />
      {compared.length > 0 && (
        <>
          <div className="jp-hvd-gc-sides">
            {sizes.map(size => (
              <Sides key={size} size={size} report={report} sides={sides} />
            ))}
          </div>
          <Table sides={sides} />
        </>
      )}
    </section>
  );
}

/** Which functions are compared: a box each. */
function Choice(props: {
  names: readonly string[];
  chosen: readonly string[];
}): JSX.Element {
  const { model, trans } = usePanel();
  const { names } = props;
  // What was clicked counts at once: a second click does not wait for the kernel.
  const [draft, setDraft] = useState<readonly string[] | null>(null);
  useEffect(() => setDraft(null), [props.chosen.join(), model.isLive]);
  const chosen = draft ?? props.chosen;
  const toggle = (name: string): void => {
    const wanted = names.filter(x => (x === name) !== chosen.includes(x));
    setDraft(wanted);
    model.compare(wanted);
  };
  return (
    <fieldset className="jp-hvd-gc-wrt" disabled={!model.isLive}>
      <legend>{trans.__('compare with')}</legend>
      {names.map(name => (
        <label key={name} className="jp-hvd-gc-check">
          <input
            type="checkbox"
            checked={chosen.includes(name)}
            onChange={() => toggle(name)}
          />
          <code>{name}</code>
        </label>
      ))}
    </fieldset>
  );
}

/** The functions over one size: operations, and times where they were measured. */
function Sides(props: {
  size: string;
  report: IReport;
  sides: readonly ISide[];
}): JSX.Element {
  const { trans } = usePanel();
  const { size, report, sides } = props;
  const operations = sides.flatMap(side => {
    const curve = side.curve(size);
    return curve ? drawn(side, curve, count) : [];
  });
  const measured = sides.flatMap(side => {
    const times = side.times(size);
    return times ? drawn(side, times, time) : [];
  });
  const at = report.curves.find(curve => curve.size === size)!.at;
  const names = sides
    .filter(side => side.curve(size))
    .map(side => side.name)
    .join(', ');
  const axis = (series: readonly ISeries[], n: 0 | 1, most: number): IAxis =>
    logarithmic(
      n === 0 ? size : '',
      series.flatMap(({ points }) => points.map(point => point[n])),
      most
    );
  return (
    <>
      <figure>
        <figcaption>{trans.__('Operations: gradients, dashed values')}</figcaption>
        <Plot
          x={axis(operations, 0, TICKS.x)}
          y={axis(operations, 1, TICKS.y)}
          series={operations}
          rule={at}
          height={HEIGHT}
          label={trans.__(
            'Operations of %1 over %2, both axes logarithmic: gradients, and dashed, values',
            names,
            size
          )}
        />
      </figure>
      {measured.length > 0 && (
        <figure>
          <figcaption>{trans.__('Measured times: gradients, dashed values')}</figcaption>
          <Plot
            x={axis(measured, 0, TICKS.x)}
            y={{ ...axis(measured, 1, TICKS.y), text: time }}
            series={measured}
            rule={at}
            height={HEIGHT}
            label={trans.__(
              'Measured times of %1 over %2, both axes logarithmic: gradients, and dashed, values',
              names,
              size
            )}
          />
        </figure>
      )}
    </>
  );
}

/** Gradient and value of a function, over sizes, with what the mouse is told at each. */
function drawn(
  side: ISide,
  over: Pick<ICurve | ITimes, 'sizes' | 'value' | 'adjoint'>,
  text: (value: number) => string
): ISeries[] {
  const points = (values: readonly (number | null)[]): Point[] =>
    over.sizes.flatMap((n, i): Point[] => {
      const value = values[i];
      return value !== null && value > 0 ? [[n, value]] : [];
    });
  const adjoint = points(over.adjoint);
  const marks = adjoint.map((at): IMark => {
    const title = `${side.letter}, ${side.name}: ${at[0]}, ${text(at[1])}`;
    return { at, radius: 2, title };
  });
  return [
    { className: `${side.className} jp-hvd-gc-scaled`, points: points(over.value) },
    { className: side.className, points: adjoint, marks, letter: side.letter }
  ];
}

/** What each function costs here, by formula. */
function Table({ sides }: { sides: readonly ISide[] }): JSX.Element {
  const { said, trans } = usePanel();
  const [own] = sides;
  return (
    <div className="jp-hvd-gc-table">
      <table aria-label={trans.__('Costs of the functions')}>
        <thead>
          <tr>
            <th scope="col">{trans.__('function')}</th>
            <th scope="col">{trans.__('value')}</th>
            <th scope="col">{trans.__('its operations')}</th>
            <th scope="col">{trans.__('gradient')}</th>
            <th scope="col">{trans.__('its operations')}</th>
            <th scope="col">{trans.__('beside %1', own.name)}</th>
          </tr>
        </thead>
        <tbody>
          {sides.map(side => (
            <tr key={side.name}>
              <th scope="row">
                <span className={side.className}>{side.letter}</span>{' '}
                <code>{side.name}</code>{' '}
                {side.wrt.length > 0 && (
                  <span className="jp-hvd-gc-by">
                    {trans.__('by %1', side.wrt.join(', '))}
                  </span>
                )}
                {side.error && <p className="jp-hvd-gc-what">{said(side.error)}</p>}
              </th>
              <td className="jp-hvd-gc-long" title={side.value?.formula}>
                {side.value?.here}
              </td>
              <td>{count(side.value?.total ?? null)}</td>
              <td className="jp-hvd-gc-long" title={side.adjoint?.formula}>
                {side.adjoint?.here}
              </td>
              <td>{count(side.adjoint?.total ?? null)}</td>
              <td>{beside(side.adjoint, own.adjoint)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A gradient's operations as a multiple of another's: × 0.021. */
function beside(figure: IFigure | null, own: IFigure | null): string {
  return figure?.total && own?.total
    ? `× ${Number((figure.total / own.total).toPrecision(2))}`
    : '—';
}
