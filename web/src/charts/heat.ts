// The latency heatmap: a column per point, rows of equal height on a log axis, colour by count.

import type uPlot from 'uplot';
import type { Latency } from '../api/types.ts';
import { logRange } from './model.ts';

/** Counts on a grid: rows are equal steps of the logarithm between lo and hi, bottom first. */
export interface Grid {
  columns: number;
  rows: number;
  lo: number;
  hi: number;
  /** columns x rows, column by column; a bin that spans rows is shared out, so cells need not be whole. */
  cells: Float32Array;
  max: number;
}

/** Shares the bins of an answer out to a grid of so many rows. Bins at or below 0 ms count into the lowest row. */
export function toGrid(heatmap: Latency['heatmap'], columns: number, rows: number): Grid {
  const { bins, counts } = heatmap;
  const used = new Set(counts.filter((c) => c[2] > 0).map((c) => c[1]));
  const ends: number[] = [];
  for (const b of used) ends.push(bins[b]?.low_ms ?? 0, bins[b]?.high_ms ?? 0);
  const [lo, hi] = logRange(ends);
  const cells = new Float32Array(columns * rows);
  const per = rows / Math.log(hi / lo);
  // First row, last row and the share per row of every bin, once.
  const spans = bins.map((b) => {
    const a = b.low_ms > 0 ? Math.max(0, Math.log(b.low_ms / lo) * per) : 0;
    const z = b.high_ms > 0 ? Math.min(rows, Math.log(b.high_ms / lo) * per) : 0;
    return z - a > 1e-6 ? ([a, z] as const) : ([Math.min(a, rows - 0.01), Math.min(a + 0.01, rows)] as const);
  });
  let max = 0;
  for (const [t, b, n] of counts) {
    const span = spans[b];
    if (!span || t < 0 || t >= columns || !(n > 0)) continue;
    const [a, z] = span;
    for (let r = Math.floor(a); r < z && r < rows; r++) {
      const overlap = Math.min(z, r + 1) - Math.max(a, r);
      const at = t * rows + r;
      const value = cells[at]! + (n * overlap) / (z - a);
      cells[at] = value;
      if (value > max) max = value;
    }
  }
  return { columns, rows, lo, hi, cells, max };
}

/** Row of a latency, or -1 outside of the grid. */
export function rowOf(g: Grid, ms: number): number {
  if (!(ms > 0)) return -1;
  const r = Math.floor((Math.log(ms / g.lo) / Math.log(g.hi / g.lo)) * g.rows);
  return r >= 0 && r < g.rows ? r : -1;
}

/** Ends of a row in ms. */
export function rowEnds(g: Grid, row: number): [number, number] {
  const step = (g.hi / g.lo) ** (1 / g.rows);
  return [g.lo * step ** row, g.lo * step ** (row + 1)];
}

// Two sequential scales that rise evenly in lightness and read the same with every kind of colour vision.
const stops = {
  light: [
    [232, 240, 247],
    [178, 211, 229],
    [108, 172, 205],
    [52, 124, 173],
    [28, 76, 130],
    [16, 35, 84],
  ],
  dark: [
    [22, 33, 52],
    [28, 62, 104],
    [26, 104, 138],
    [52, 152, 142],
    [148, 200, 104],
    [246, 232, 120],
  ],
};

/** 256 colours as ABGR words, as ImageData of a little-endian machine wants them; 0 is transparent. */
export function palette(dark: boolean): Uint32Array {
  const s = dark ? stops.dark : stops.light;
  const out = new Uint32Array(256);
  for (let i = 1; i < 256; i++) {
    const x = ((i - 1) / 254) * (s.length - 1);
    const k = Math.min(s.length - 2, Math.floor(x));
    const mix = (c: number) => Math.round(s[k]![c]! + (s[k + 1]![c]! - s[k]![c]!) * (x - k));
    out[i] = ((255 << 24) | (mix(2) << 16) | (mix(1) << 8) | mix(0)) >>> 0;
  }
  return out;
}

// The palest colour stands for this part of the largest count and for all below: three powers of ten to tell apart.
const span = 1000;

/** Paints the grid into pixels of one per cell, top row first. Colour goes with the logarithm of the count. */
export function paint(g: Grid, colors: Uint32Array, pixels: Uint32Array) {
  const floor = Math.max(Math.min(1, g.max / 2), g.max / span);
  const scale = g.max > floor ? 254 / Math.log(g.max / floor) : 0;
  for (let c = 0; c < g.columns; c++) {
    for (let r = 0; r < g.rows; r++) {
      const n = g.cells[c * g.rows + r]!;
      const i = n < 0.05 ? 0 : 1 + Math.max(0, Math.round(Math.log(n / floor) * scale));
      pixels[(g.rows - 1 - r) * g.columns + c] = colors[Math.min(255, i)]!;
    }
  }
}

/** Draws painted pixels onto the plot, columns at their times and rows on its log axis. */
export function drawGrid(u: uPlot, image: HTMLCanvasElement, g: Grid, since: number[], until: number[]) {
  if (g.columns === 0 || g.max === 0) return;
  const ctx = u.ctx;
  const top = u.valToPos(g.hi, 'y', true);
  const bottom = u.valToPos(g.lo, 'y', true);
  ctx.save();
  ctx.beginPath();
  ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
  ctx.clip();
  ctx.imageSmoothingEnabled = false;
  // Points have one length, except where the range cuts the first or last: draw column by column.
  for (let c = 0; c < g.columns; c++) {
    const x = Math.round(u.valToPos(since[c]! / 1000, 'x', true));
    const end = Math.round(u.valToPos(until[c]! / 1000, 'x', true));
    ctx.drawImage(image, c, 0, 1, g.rows, x, top, Math.max(1, end - x), bottom - top);
  }
  ctx.restore();
}
