// The latency heatmap panel: a log axis with the grid below, the 50th and 99th percentile as lines above.

import { useMemo } from 'preact/hooks';
import type uPlot from 'uplot';
import type { Latency } from '../api/types.ts';
import { Chart } from '../charts/chart.tsx';
import { drawGrid, paint, palette, rowEnds, rowOf, toGrid } from '../charts/heat.ts';
import type { Points, Scale, Series } from '../charts/model.ts';
import { count, millis, percent } from '../lib/format.ts';
import { interval } from '../lib/time.ts';
import { shownSpan } from '../state/data.ts';
import { tables, utc } from '../state/page.ts';
import { dark } from '../state/theme.ts';

const rows = 44;

interface HeatProps {
  latency: Latency;
  points: Points;
  scale: Scale;
  height: number;
}

export function HeatBody(p: HeatProps) {
  const { latency: l, points } = p;
  const isDark = dark.value;
  const grid = useMemo(() => toGrid(l.heatmap, points.since.length, rows), [l, points]);
  const image = useMemo(() => {
    const canvas = document.createElement('canvas');
    canvas.width = Math.max(1, grid.columns);
    canvas.height = grid.rows;
    const ctx = canvas.getContext('2d');
    if (ctx) {
      const data = ctx.createImageData(canvas.width, canvas.height);
      if (grid.columns > 0) paint(grid, palette(isDark), new Uint32Array(data.data.buffer));
      ctx.putImageData(data, 0, 0);
    }
    return canvas;
  }, [grid, isDark]);
  const series: Series[] = useMemo(
    () =>
      (['p50', 'p99'] as const).map((k) => ({
        key: k,
        label: k,
        color: `--heat-${k}`,
        kind: 'line',
        outline: true,
        values: l.timeseries.map((t) => (t.count > 0 ? (t[`${k}_ms`] ?? null) : null)),
      })),
    [l],
  );
  if (tables.value.has('heatmap')) return <HeatTable {...p} />;
  const { from, to } = shownSpan.value;
  const never = () => false;
  return (
    <>
      <Chart
        label={`Latency distribution over time, ${millis(grid.lo)} to ${millis(grid.hi)}`}
        series={series}
        points={points}
        scale={p.scale}
        from={Math.min(from, points.since[0] ?? from)}
        to={Math.max(to, points.until.at(-1) ?? to)}
        hidden={never}
        height={p.height - 26}
        extent={() => [grid.lo * 1.5, grid.hi / 1.5]}
        underlay={(u: uPlot) => drawGrid(u, image, grid, points.since, points.until)}
        more={(index, value) => {
          const row = rowOf(grid, value);
          if (row < 0) return null;
          const [lo, hi] = rowEnds(grid, row);
          const cell = grid.cells[index * grid.rows + row] ?? 0;
          const all = l.timeseries[index]?.count ?? 0;
          return (
            <tr class="tooltip-sum">
              <th scope="row">
                {millis(lo)} – {millis(hi)}
              </th>
              <td>
                {cell > 0 && cell < 1 ? '<\u202f1' : `≈\u202f${count(Math.round(cell))}`}
                {all > 0 && <span class="muted"> of {count(all)}</span>}
              </td>
            </tr>
          );
        }}
      />
      <div class="heat-key" aria-hidden="true">
        <span>0</span>
        <i />
        <span>{count(Math.ceil(grid.max))} requests</span>
        <span class="heat-line">
          <span class="swatch swatch-line" style={{ '--c': 'var(--heat-p50)' }} />
          p50
        </span>
        <span class="heat-line">
          <span class="swatch swatch-line" style={{ '--c': 'var(--heat-p99)' }} />
          p99
        </span>
      </div>
    </>
  );
}

const bounds = [1, 3, 10, 30, 100, 300, 1000, 3000, 10_000];

/** Shares of requests up to round durations, per point: what the colours say, as numbers. */
function HeatTable({ latency: l, points, height }: HeatProps) {
  const columns = useMemo(() => {
    const out = points.since.map(() => new Float64Array(bounds.length + 1));
    for (const [t, b, n] of l.heatmap.counts) {
      const bin = l.heatmap.bins[b];
      if (!bin || !out[t]) continue;
      const middle = (bin.low_ms + bin.high_ms) / 2;
      const at = bounds.findIndex((x) => middle < x);
      const k = at < 0 ? bounds.length : at;
      out[t]![k] = out[t]![k]! + n;
    }
    return out;
  }, [l, points]);
  const order = points.since.map((_, i) => i).reverse();
  return (
    <div class="table-scroll" style={{ maxHeight: `${height}px` }}>
      <table class="data" data-testid="data-heatmap">
        <caption class="visually-hidden">Share of requests by duration</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {bounds.map((b) => (
              <th scope="col" class="num" key={b}>
                &lt;{millis(b)}
              </th>
            ))}
            <th scope="col" class="num">
              longer
            </th>
          </tr>
        </thead>
        <tbody>
          {order.map((i) => {
            const all = columns[i]!.reduce((a, n) => a + n, 0);
            return (
              <tr key={points.since[i]}>
                <th scope="row">{interval(points.since[i]!, points.until[i]!, utc.value)}</th>
                {[...columns[i]!].map((n, k) => (
                  <td class="num" key={k}>
                    {n > 0 ? percent(n / all) : ''}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
