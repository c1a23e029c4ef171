// What a chart draws, without saying how: points on a time axis and named series.

/** One named series; values are one per point, null where nothing is known. */
export interface Series {
  key: string;
  label: string;
  /** Custom property of the colour, "--s-2xx". */
  color: string;
  values: (number | null)[];
  kind: 'bar' | 'area' | 'line';
  /** Stands on the series before it. Stacked series come bottom first. */
  stacked?: boolean;
  /** Drawn with an edge in the panel's colour, to be seen on a heatmap of any darkness. */
  outline?: boolean;
  /** The figure of the legend: a total over the range. */
  total?: string;
}

/** The points of a time axis, in ms. */
export interface Points {
  since: number[];
  until: number[];
  /** Index of the first point that is still filling, or the number of points. */
  partial: number;
  /** Minutes per point. */
  step: number;
}

/** How numbers of a chart are written: short on the axis, exact in tooltip and table. */
export interface Scale {
  axis: (v: number) => string;
  exact: (v: number | null | undefined) => string;
  /** Only whole numbers make sense on the axis. */
  whole?: boolean;
  log?: boolean;
}

/** The middle of every point in seconds: bars stand on it, lines go through it. */
export function middles(p: Points): number[] {
  return p.since.map((s, i) => (s + p.until[i]!) / 2000);
}

/**
 * Heights to draw for the visible series: stacked ones are added up from the bottom. Gives one array per series, in
 * order; null where the series is hidden.
 */
export function stack(series: Series[], hidden: (key: string) => boolean): ((number | null)[] | null)[] {
  const sum: number[] = [];
  return series.map((s) => {
    if (hidden(s.key)) return null;
    if (!s.stacked) return s.values;
    return s.values.map((v, i) => {
      const at = (sum[i] ?? 0) + (v ?? 0);
      sum[i] = at;
      return v === null ? null : at;
    });
  });
}

/** Range of a linear axis from 0: a little air above the largest value; 0..1 when there is nothing. */
export function linearRange(columns: ((number | null)[] | null)[]): [number, number] {
  let max = 0;
  for (const c of columns) for (const v of c ?? []) if (v !== null && v > max) max = v;
  return [0, max > 0 ? max * 1.06 : 1];
}

/** Range of a log axis: around what is there, at least one power of ten, never at or below 0. */
export function logRange(values: Iterable<number | null | undefined>): [number, number] {
  let min = Number.POSITIVE_INFINITY;
  let max = 0;
  for (const v of values) {
    if (v == null || !(v > 0)) continue;
    if (v < min) min = v;
    if (v > max) max = v;
  }
  if (max === 0) return [1, 1000];
  let lo = min / 1.5;
  let hi = max * 1.5;
  if (hi / lo < 10) {
    const middle = Math.sqrt(lo * hi);
    lo = middle / Math.sqrt(10);
    hi = middle * Math.sqrt(10);
  }
  return [lo, hi];
}

/** Splits of a log axis: powers of ten, with 2 and 5 between when there are few. */
export function logSplits(lo: number, hi: number): number[] {
  const decades = Math.log10(hi / lo);
  const steps = decades < 1.6 ? [1, 2, 5] : decades < 3.2 ? [1, 3] : [1];
  const out: number[] = [];
  for (let e = Math.floor(Math.log10(lo)); e <= Math.ceil(Math.log10(hi)); e++) {
    for (const s of steps) {
      const v = s * 10 ** e;
      if (v >= lo && v <= hi) out.push(Number(v.toPrecision(6)));
    }
  }
  return out;
}
