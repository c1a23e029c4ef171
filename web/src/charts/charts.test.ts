import { describe, expect, it } from 'vitest';
import { paint, palette, rowEnds, rowOf, toGrid } from './heat.ts';
import { linearRange, logRange, logSplits, type Series, stack } from './model.ts';

const series = (key: string, values: (number | null)[], stacked = true): Series => ({
  key,
  label: key,
  color: '--x',
  kind: 'bar',
  values,
  stacked,
});

describe('stack', () => {
  it('adds up from the bottom and leaves hidden series out', () => {
    const s = [series('a', [1, 2]), series('b', [10, null]), series('c', [100, 200])];
    expect(stack(s, () => false)).toEqual([
      [1, 2],
      [11, null],
      [111, 202],
    ]);
    expect(stack(s, (k) => k === 'b')).toEqual([[1, 2], null, [101, 202]]);
  });
  it('leaves lines alone', () => {
    expect(stack([series('a', [1], false), series('b', [2], false)], () => false)).toEqual([[1], [2]]);
  });
});

describe('ranges', () => {
  it('linear begins at 0 and is never empty', () => {
    expect(linearRange([[0, 0], null])).toEqual([0, 1]);
    expect(linearRange([[5, null, 100]])[1]).toBeCloseTo(106);
  });
  it('log spans at least a power of ten', () => {
    const [lo, hi] = logRange([5, 5, null, 0]);
    expect(lo).toBeGreaterThan(0);
    expect(hi / lo).toBeCloseTo(10);
    expect(logRange([])).toEqual([1, 1000]);
  });
  it('log splits lie inside', () => {
    expect(logSplits(0.9, 1200)).toEqual([1, 3, 10, 30, 100, 300, 1000]);
    expect(logSplits(0.9, 100_000)).toEqual([1, 10, 100, 1000, 10_000, 100_000]);
  });
});

describe('heatmap', () => {
  const bins = [
    { low_ms: 1, high_ms: 1.1 },
    { low_ms: 10, high_ms: 11 },
    { low_ms: 100, high_ms: 110 },
  ];
  it('keeps every request', () => {
    const g = toGrid(
      {
        bins,
        counts: [
          [0, 0, 7],
          [0, 1, 3],
          [1, 2, 11],
        ],
      },
      2,
      40,
    );
    const sum = (c: number) => g.cells.slice(c * 40, c * 40 + 40).reduce((a, b) => a + b, 0);
    expect(sum(0)).toBeCloseTo(10, 3);
    expect(sum(1)).toBeCloseTo(11, 3);
  });
  it('keeps requests of 0 ms, and ignores indexes that are none', () => {
    const g = toGrid(
      {
        bins: [{ low_ms: 0, high_ms: 0 }, ...bins],
        counts: [
          [0, 0, 5],
          [9, 0, 5],
          [0, 9, 5],
        ],
      },
      1,
      10,
    );
    expect(g.cells.reduce((a, b) => a + b, 0)).toBeCloseTo(5, 3);
  });
  it('is empty without counts', () => {
    const g = toGrid({ bins: [], counts: [] }, 0, 10);
    expect(g.max).toBe(0);
    paint(g, palette(true), new Uint32Array(10));
  });
  it('rows and durations agree', () => {
    const g = toGrid(
      {
        bins,
        counts: [
          [0, 0, 1],
          [0, 2, 1],
        ],
      },
      1,
      32,
    );
    for (let row = 0; row < 32; row++) {
      const [lo, hi] = rowEnds(g, row);
      expect(rowOf(g, Math.sqrt(lo * hi))).toBe(row);
    }
    expect(rowOf(g, 0)).toBe(-1);
    expect(rowOf(g, g.hi * 2)).toBe(-1);
  });
  it('more requests are never paler (dark: never darker)', () => {
    const counts: [number, number, number][] = [
      [0, 0, 1],
      [0, 1, 50],
      [0, 2, 3000],
    ];
    const g = toGrid({ bins, counts }, 1, 30);
    for (const dark of [false, true]) {
      const px = new Uint32Array(30);
      const colors = palette(dark);
      paint(g, colors, px);
      const used = [...px].filter((p) => p !== 0).map((p) => colors.indexOf(p));
      expect(Math.max(...used)).toBe(255);
      expect(used.length).toBeGreaterThan(2);
    }
  });
});
