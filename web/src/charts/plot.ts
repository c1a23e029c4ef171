// One uPlot instance from a chart's model. uPlot draws on canvas; legend, tooltip and table are ours, in HTML.

import uPlot from 'uplot';
import { axisLabels } from '../lib/time.ts';
import { color } from '../state/theme.ts';
import { linearRange, logRange, logSplits, middles, type Points, type Scale, type Series, stack } from './model.ts';

export interface PlotInput {
  series: Series[];
  points: Points;
  scale: Scale;
  /** Ends of the x axis in ms. */
  from: number;
  to: number;
  hidden: (key: string) => boolean;
}

export interface PlotEvents {
  /** The point under the cursor, and the value of the y axis there; null when the cursor has left. */
  onCursor: (at: { index: number; left: number; top: number; value: number } | null) => void;
  /** A span was brushed, in ms. */
  onZoom: (from: number, to: number) => void;
}

export interface PlotOptions extends PlotEvents {
  host: HTMLElement;
  height: number;
  utc: boolean;
  input: () => PlotInput;
  /** Draws below axes and series, in canvas pixels. */
  underlay?: (u: uPlot) => void;
  /** Values besides the series that the log axis must hold. */
  extent?: () => Iterable<number>;
}

const font = '11px "Inter Variable", system-ui, sans-serif';
const minBrush = 8; // px

/** One stroke of a plot: which series, and whether it is the edge below its line. */
interface Stroke {
  at: number;
  edge: boolean;
}

/** uPlot draws its series in order; a stack is drawn top first, so that lower series cover the rest of the column. */
function strokes(series: Series[]): Stroke[] {
  const order = series.map((_, i) => i);
  if (series.some((s) => s.stacked)) order.reverse();
  return order.flatMap((at) =>
    series[at]!.outline
      ? [
          { at, edge: true },
          { at, edge: false },
        ]
      : [{ at, edge: false }],
  );
}

/** The data of an input in uPlot's form. */
export function plotData(input: PlotInput): uPlot.AlignedData {
  const heights = stack(input.series, input.hidden);
  const blank = input.points.since.map(() => null);
  return [middles(input.points), ...strokes(input.series).map(({ at }) => heights[at] ?? blank)] as uPlot.AlignedData;
}

function seriesOptions(s: Series, edge: boolean): uPlot.Series {
  const stroke = color(edge ? '--panel' : s.color);
  const base: uPlot.Series = { label: s.label, stroke, points: { show: false }, spanGaps: false };
  if (s.kind === 'bar') {
    return {
      ...base,
      width: 0,
      fill: stroke,
      paths: uPlot.paths.bars!({ size: [0.86, 200, 1], radius: s.stacked ? 0 : 0.12 }),
    };
  }
  // A lone point between gaps has no line: show it as a dot.
  const points: uPlot.Series.Points = { show: true, size: edge ? 8 : 5, fill: stroke, width: 0, filter: lonePoints };
  const line = { ...base, width: edge ? 4.5 : 1.75, points, paths: uPlot.paths.spline!({}) };
  return s.kind === 'area'
    ? { ...line, fill: fade(stroke, s.stacked ? 0.85 : 0.14), width: s.stacked ? 1 : 1.75 }
    : line;
}

const lonePoints: uPlot.Series.Points.Filter = (u, index, show) => {
  if (!show) return null;
  const data = u.data[index]!;
  const out: number[] = [];
  for (let i = 0; i < data.length; i++) {
    if (data[i] != null && data[i - 1] == null && data[i + 1] == null) out.push(i);
  }
  return out;
};

const fade = (rgb: string, alpha: number) => rgb.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);

/** Hatches what is drawn from the first filling point on: stripes of the panel's colour over bars and lines only. */
function hatch(u: uPlot, input: PlotInput) {
  const { points } = input;
  const first = points.partial;
  if (first >= points.since.length) return;
  // A lone dot would vanish between the stripes.
  const lone = (s: Series) => s.kind === 'line' && s.values[first] != null && s.values[first - 1] == null;
  if (input.series.every(lone)) return;
  const ctx = u.ctx;
  const from = Math.max(u.bbox.left, u.valToPos(points.since[first]! / 1000, 'x', true));
  const width = u.bbox.left + u.bbox.width - from;
  if (width <= 0) return;
  ctx.save();
  ctx.beginPath();
  ctx.rect(from, u.bbox.top, width, u.bbox.height);
  ctx.clip();
  ctx.globalCompositeOperation = 'source-atop';
  ctx.fillStyle = fade(color('--panel'), 0.35);
  ctx.fillRect(from, u.bbox.top, width, u.bbox.height);
  const gap = 6 * devicePixelRatio;
  ctx.strokeStyle = fade(color('--panel'), 0.8);
  ctx.lineWidth = 2 * devicePixelRatio;
  ctx.beginPath();
  for (let x = from - u.bbox.height - (from % gap); x < from + width; x += gap) {
    ctx.moveTo(x, u.bbox.top + u.bbox.height);
    ctx.lineTo(x + u.bbox.height, u.bbox.top);
  }
  ctx.stroke();
  ctx.restore();
}

/** Creates the plot in its host. The caller destroys it. */
export function createPlot(o: PlotOptions): uPlot {
  const first = o.input();
  const muted = color('--muted');
  const grid = { stroke: color('--grid'), width: 1 };
  let hovered = false;

  const yRange = (): [number, number] => {
    const input = o.input();
    const heights = stack(input.series, input.hidden);
    if (!input.scale.log) return linearRange(heights);
    const values = heights.flatMap((h) => h ?? []);
    return logRange(o.extent ? [...values, ...o.extent()] : values);
  };

  const options: uPlot.Options = {
    width: Math.max(120, o.host.clientWidth),
    height: o.height,
    padding: [10, 18, 0, 0],
    legend: { show: false },
    tzDate: (s) => (o.utc ? uPlot.tzDate(new Date(s * 1000), 'Etc/UTC') : new Date(s * 1000)),
    scales: {
      x: { time: true, range: () => [o.input().from / 1000, o.input().to / 1000] },
      y: { range: yRange, distr: first.scale.log ? 3 : 1 },
    },
    series: [{}, ...strokes(first.series).map(({ at, edge }) => seriesOptions(first.series[at]!, edge))],
    axes: [
      {
        stroke: muted,
        font,
        size: (_u, labels) => (labels?.some((l) => l.includes('\n')) ? 46 : 30),
        gap: 6,
        space: 64,
        grid: { show: false },
        ticks: { stroke: color('--grid'), width: 1, size: 4 },
        values: (_u, splits, _axis, _space, incr) =>
          axisLabels(
            splits.map((s) => s * 1000),
            incr * 1000,
            o.utc,
          ),
      },
      {
        stroke: muted,
        font,
        size: 58,
        gap: 6,
        space: 34,
        grid: first.scale.log && o.underlay ? { show: false } : grid,
        ticks: { show: false },
        ...(first.scale.whole ? { incrs: wholeIncrements } : {}),
        ...(first.scale.log
          ? {
              splits: (_u: uPlot, _i: number, min: number, max: number) => logSplits(min, max),
              filter: (_u: uPlot, s: number[]) => s,
            }
          : {}),
        values: (_u, splits) => splits.map((v) => (v == null ? '' : o.input().scale.axis(v))),
      },
    ],
    cursor: {
      y: first.scale.log === true && o.underlay !== undefined,
      points: { show: false },
      drag: { x: true, y: false, setScale: false, dist: minBrush },
      sync: { key: 'spate', scales: ['x', null] as unknown as [string, string], setSeries: false },
      bind: { dblclick: () => null },
    },
    hooks: {
      drawClear: o.underlay ? [o.underlay] : [],
      draw: [(u) => hatch(u, o.input())],
      setCursor: [
        (u) => {
          const { idx, left, top } = u.cursor;
          if (!hovered || idx == null || left == null || top == null || left < 0) o.onCursor(null);
          else
            o.onCursor({
              index: idx,
              left: left + u.over.offsetLeft,
              top: top + u.over.offsetTop,
              value: u.posToVal(top, 'y'),
            });
        },
      ],
      setSelect: [
        (u) => {
          const { left, width } = u.select;
          if (!hovered || width < minBrush) return;
          const from = u.posToVal(left, 'x') * 1000;
          const to = u.posToVal(left + width, 'x') * 1000;
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          o.onZoom(from, to);
        },
      ],
    },
  };
  const u = new uPlot(options, plotData(first), o.host);
  // The first plot may be drawn before the font is there; canvas does not repaint by itself.
  if (!document.fonts.check(font)) void document.fonts.load(font).then(() => u.redraw(false, true));
  u.root.addEventListener('pointerenter', () => {
    hovered = true;
  });
  u.root.addEventListener('pointerleave', () => {
    hovered = false;
    o.onCursor(null);
  });
  return u;
}

const wholeIncrements = (() => {
  const out: number[] = [];
  for (let e = 0; e < 18; e++) out.push(10 ** e, 2 * 10 ** e, 5 * 10 ** e);
  return out;
})();

/** Moves the cursor to a point, as the arrow keys do; gives what the cursor callback would have. */
export function pointAt(u: uPlot, index: number): { index: number; left: number; top: number; value: number } {
  const left = u.valToPos(u.data[0]![index] ?? 0, 'x');
  const top = u.over.clientHeight / 3;
  u.setCursor({ left, top }, false);
  return { index, left: left + u.over.offsetLeft, top: top + u.over.offsetTop, value: u.posToVal(top, 'y') };
}
