import { scaleLinear, scaleLog } from 'd3-scale';
import { line } from 'd3-shape';
import React from 'react';

import { apart, IAxis, Point } from './axes';

/** A curve, and the points of it that are marked. */
export interface ISeries {
  className: string;
  points: readonly Point[];
  marks?: readonly IMark[];
  /** What stands at its end. */
  letter?: string;
}

export interface IMark {
  at: Point;
  radius: number;
  /** What the mouse is told. */
  title: string;
  className?: string;
}

const WIDTH = 320;
/** How far letters at the ends of curves stand from one another. */
const LINE = 11;
const MARGIN = { left: 44, right: 10, top: 10, bottom: 34 };

/** Curves over one quantity, in the theme's colours. */
export function Plot(props: {
  x: IAxis;
  y: IAxis;
  series: readonly ISeries[];
  /** Where an upright line stands, if anywhere. */
  rule: number | null;
  height: number;
  label: string;
}): JSX.Element {
  const { series, rule, height, label } = props;
  const right = WIDTH - MARGIN.right;
  const bottom = height - MARGIN.bottom;
  const x = scaled(props.x, [MARGIN.left, right]);
  const y = scaled(props.y, [bottom, MARGIN.top]);
  const path = line<Point>(
    p => x(p[0]),
    p => y(p[1])
  );
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
        {props.x.ticks.map(n => (
          <g key={n} transform={`translate(${x(n)}, 0)`}>
            <line y1={MARGIN.top} y2={bottom} />
            <text y={bottom + 14} textAnchor="middle">
              {props.x.text(n)}
            </text>
          </g>
        ))}
        {props.y.ticks.map(n => (
          <g key={n} transform={`translate(0, ${y(n)})`}>
            <line x1={MARGIN.left} x2={right} />
            <text x={MARGIN.left - 5} dy="0.32em" textAnchor="end">
              {props.y.text(n)}
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
          <path d={path([...points]) ?? ''} />
          {marks?.map(({ at, radius, title, className: kind }) => (
            <circle key={at[0]} className={kind} cx={x(at[0])} cy={y(at[1])} r={radius}>
              <title>{title}</title>
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

function scaled(axis: IAxis, range: [number, number]): (value: number) => number {
  const scale = axis.isLogarithmic ? scaleLog() : scaleLinear();
  return scale.domain(axis.domain).range(range);
}
