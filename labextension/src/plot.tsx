import React from 'react';

import { Axis, Mark, Series } from './gradcost/view.schema';

/** A curve, its points that say something, and what stands at its end. */
export interface ISeries extends Pick<Series, 'points' | 'letter'> {
  className: string;
  marks?: readonly (Mark & { className?: string })[];
}

const WIDTH = 320;
/** How far letters at the ends of curves stand from one another. */
const LINE = 11;
const MARGIN = { left: 44, right: 10, top: 10, bottom: 34 };

/** Curves over one quantity, in the theme's colours. */
export function Plot(props: {
  x: Axis;
  y: Axis;
  series: readonly ISeries[];
  /** Where an upright line stands, if anywhere. */
  rule: number | null;
  height: number;
  label: string;
}): JSX.Element {
  const { series, rule, height, label } = props;
  const right = WIDTH - MARGIN.right;
  const bottom = height - MARGIN.bottom;
  const x = scale(props.x, MARGIN.left, right);
  const y = scale(props.y, bottom, MARGIN.top);
  const ends = apart(
    series.map(({ letter, points }) => (letter ? y(points.at(-1)?.[1] ?? 1) : null)),
    LINE
  );
  return (
    <svg
      className="jp-hvd-plot"
      viewBox={`0 0 ${WIDTH} ${height}`}
      role="img"
      aria-label={label}
    >
      <title>{label}</title>
      <g className="jp-hvd-grid" aria-hidden="true">
        {props.x.ticks.map(([n, text]) => (
          <g key={n} transform={`translate(${x(n)}, 0)`}>
            <line y1={MARGIN.top} y2={bottom} />
            <text y={bottom + 14} textAnchor="middle">
              {text}
            </text>
          </g>
        ))}
        {props.y.ticks.map(([n, text]) => (
          <g key={n} transform={`translate(0, ${y(n)})`}>
            <line x1={MARGIN.left} x2={right} />
            <text x={MARGIN.left - 5} dy="0.32em" textAnchor="end">
              {text}
            </text>
          </g>
        ))}
        <text x={(MARGIN.left + WIDTH) / 2} y={height - 4} textAnchor="middle">
          {props.x.label}
        </text>
      </g>
      {rule !== null && (
        <line
          className="jp-hvd-rule-line"
          x1={x(rule)}
          x2={x(rule)}
          y1={MARGIN.top}
          y2={bottom}
        />
      )}
      {series.map(({ className, points, marks, letter }, i) => (
        <g key={i} className={className}>
          <polyline points={points.map(([a, b]) => `${x(a)},${y(b)}`).join(' ')} />
          {marks?.map(({ at, text, className: kind }) => (
            <circle key={at[0]} className={kind} cx={x(at[0])} cy={y(at[1])} r={3}>
              <title>{text}</title>
            </circle>
          ))}
          {letter && points.length > 0 && (
            <text x={x(points.at(-1)![0]) + 4} y={ends[i]!} dy="0.32em">
              {letter}
            </text>
          )}
        </g>
      ))}
    </svg>
  );
}

/** Where a value stands on an axis that is drawn between two positions. */
function scale(axis: Axis, from: number, to: number): (value: number) => number {
  const along = axis.is_logarithmic ? Math.log : (value: number): number => value;
  const [low, high] = [along(axis.low), along(axis.high)];
  return value => from + ((along(value) - low) / (high - low)) * (to - from);
}

/** Places on a line as near to where they were as they can be with a gap between any two; null stays. */
export function apart(
  places: readonly (number | null)[],
  gap: number
): (number | null)[] {
  const order = places.flatMap((place, i) => (place === null ? [] : [i]));
  order.sort((a, b) => places[b]! - places[a]!);
  const found = [...places];
  let last = Infinity;
  for (const i of order) {
    last = found[i] = Math.min(found[i]!, last - gap);
  }
  return found;
}
