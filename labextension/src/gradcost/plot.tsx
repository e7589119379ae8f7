import { scaleLog } from 'd3-scale';
import { line } from 'd3-shape';
import React from 'react';

import { count } from './format';
import { ICurve } from './report';

type Point = [number, number];

const WIDTH = 320;
const HEIGHT = 200;
const MARGIN = { left: 44, right: 10, top: 10, bottom: 34 };

/** Operations over one size, both axes logarithmic; dots are XLA's estimates of plain JAX. */
export function Plot(props: {
  curve: ICurve;
  plain: readonly Point[];
  label: string;
}): JSX.Element {
  const { curve, plain } = props;
  const lines = {
    value: points(curve.sizes, curve.value),
    forward: points(curve.sizes, curve.forward),
    adjoint: points(curve.sizes, curve.adjoint)
  };
  const all = [...Object.values(lines).flat(), ...plain];
  const xs = curve.sizes;
  const ys = all.map(([, y]) => y);
  const x = scaleLog(decades(xs), [MARGIN.left, WIDTH - MARGIN.right]);
  const y = scaleLog(decades(ys), [HEIGHT - MARGIN.bottom, MARGIN.top]);
  const path = line<Point>(
    p => x(p[0]),
    p => y(p[1])
  );
  return (
    <svg
      className="jp-hvd-gc-plot"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={props.label}
    >
      <title>{props.label}</title>
      <g className="jp-hvd-gc-grid" aria-hidden="true">
        {ticks(x.domain()).map(n => (
          <g key={n} transform={`translate(${x(n)}, 0)`}>
            <line y1={MARGIN.top} y2={HEIGHT - MARGIN.bottom} />
            <text y={HEIGHT - MARGIN.bottom + 14} textAnchor="middle">
              {power(n)}
            </text>
          </g>
        ))}
        {ticks(y.domain(), 6).map(n => (
          <g key={n} transform={`translate(0, ${y(n)})`}>
            <line x1={MARGIN.left} x2={WIDTH - MARGIN.right} />
            <text x={MARGIN.left - 5} dy="0.32em" textAnchor="end">
              {power(n)}
            </text>
          </g>
        ))}
        <text x={(MARGIN.left + WIDTH) / 2} y={HEIGHT - 4} textAnchor="middle">
          {curve.size}
        </text>
      </g>
      <line
        className="jp-hvd-gc-here"
        x1={x(curve.at)}
        x2={x(curve.at)}
        y1={MARGIN.top}
        y2={HEIGHT - MARGIN.bottom}
      />
      {plain.length > 0 && (
        <g className="jp-hvd-gc-jax">
          <path d={path([...plain]) ?? ''} />
          {plain.map(([n, flops]) => (
            <circle key={n} cx={x(n)} cy={y(flops)} r={3}>
              <title>{`jax.grad, ${curve.size} = ${n}: ${count(flops)} flops (XLA)`}</title>
            </circle>
          ))}
        </g>
      )}
      {(['value', 'forward', 'adjoint'] as const).map(kind => (
        <g key={kind} className={`jp-hvd-gc-${kind}`}>
          <path d={path(lines[kind]) ?? ''} />
          {lines[kind]
            .filter(([n]) => n === curve.at)
            .map(([n, total]) => (
              <circle key={n} cx={x(n)} cy={y(total)} r={4}>
                <title>{`${kind}, ${curve.size} = ${n}: ${count(total)}`}</title>
              </circle>
            ))}
        </g>
      ))}
    </svg>
  );
}

/** What can stand on a logarithmic axis. */
function points(sizes: number[], values: (number | null)[]): Point[] {
  return sizes.flatMap((n, i): Point[] => {
    const value = values[i];
    return value !== null && value > 0 ? [[n, value]] : [];
  });
}

/** Whole decades around the values, so that the axes rest while the figures move. */
function decades(values: readonly number[]): [number, number] {
  const positive = values.filter(value => value > 0);
  if (positive.length === 0) {
    return [1, 10];
  }
  const low = Math.floor(Math.log10(Math.min(...positive)) + 1e-9);
  const high = Math.ceil(Math.log10(Math.max(...positive)) - 1e-9);
  return [10 ** low, 10 ** Math.max(high, low + 1)];
}

function ticks([low, high]: number[], most = 8): number[] {
  const from = Math.round(Math.log10(low));
  const to = Math.round(Math.log10(high));
  const step = Math.ceil((to - from + 1) / most);
  return Array.from(
    { length: Math.floor((to - from) / step) + 1 },
    (_, i) => 10 ** (from + i * step)
  );
}

/** A power of ten: 1, 10, 100, 10³. */
function power(n: number): string {
  const exponent = Math.round(Math.log10(n));
  if (exponent >= 0 && exponent <= 2) {
    return String(n);
  }
  const digits = String(exponent).replace('-', '⁻');
  return `10${digits.replace(/\d/g, d => '⁰¹²³⁴⁵⁶⁷⁸⁹'[Number(d)])}`;
}
