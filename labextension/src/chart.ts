import { JSONObject } from '@lumino/coreutils';

import { curve, ICostInput, MAX_WORKERS } from './cost';

export const CHART_MIME = 'application/vnd.vegalite.v5+json';

/** The colours of JupyterLab's theme, and the words of its language. */
export interface IChartStyle {
  text: string;
  grid: string;
  line: string;
  accent: string;
  font: string;
  labels: { workers: string; speedup: string; efficiency: string };
}

/** Speed-up and efficiency over the number of workers, as a Vega-Lite specification. */
export function chart(
  input: ICostInput,
  workers: number,
  limit: number | null,
  width: number,
  style: IChartStyle
): JSONObject {
  const points = curve(input).map(point => ({ ...point }));
  const panel = (
    field: 'speedup' | 'efficiency',
    ideal: [number, number]
  ): JSONObject => ({
    width,
    height: 110,
    layer: [
      {
        data: {
          values: [
            { workers: 1, ideal: ideal[0] },
            { workers: MAX_WORKERS, ideal: ideal[1] }
          ]
        },
        mark: { type: 'line', strokeDash: [4, 4], color: style.grid },
        encoding: { y: { field: 'ideal', type: 'quantitative' } }
      },
      ...(limit
        ? [
            {
              data: { values: [{ workers: limit }] },
              mark: { type: 'rule', color: style.accent, strokeDash: [2, 3] }
            }
          ]
        : []),
      {
        mark: { type: 'line', color: style.line, strokeWidth: 2 },
        encoding: { y: { field, type: 'quantitative' } }
      },
      {
        transform: [{ filter: `datum.workers === ${workers}` }],
        mark: { type: 'point', filled: true, size: 70, color: style.line, opacity: 1 },
        encoding: { y: { field, type: 'quantitative' } }
      },
      {
        mark: { type: 'rule', strokeWidth: 6, opacity: 0 },
        encoding: {
          tooltip: [
            { field: 'workers', title: style.labels.workers },
            { field: 'speedup', title: style.labels.speedup, format: '.2f' },
            { field: 'efficiency', title: style.labels.efficiency, format: '.0%' }
          ]
        }
      }
    ],
    encoding: {
      x: {
        field: 'workers',
        type: 'quantitative',
        scale: { domain: [1, MAX_WORKERS], nice: false },
        axis: {
          title: field === 'efficiency' ? style.labels.workers : null,
          values: [1, 8, 16, 24, 32, 40, 48, 56, 64]
        }
      },
      y: {
        title: style.labels[field],
        scale: { domain: [0, ideal[1]] },
        axis: field === 'efficiency' ? { format: '.0%', tickCount: 4 } : { tickCount: 4 }
      }
    }
  });
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v5.json',
    background: 'transparent',
    data: { values: points },
    vconcat: [panel('speedup', [1, MAX_WORKERS]), panel('efficiency', [1, 1])],
    spacing: 12,
    usermeta: { embedOptions: { actions: false } },
    config: {
      view: { stroke: null },
      font: style.font,
      axis: {
        labelColor: style.text,
        titleColor: style.text,
        titleFontWeight: 'normal',
        gridColor: style.grid,
        gridOpacity: 0.4,
        domainColor: style.grid,
        tickColor: style.grid
      }
    }
  };
}
