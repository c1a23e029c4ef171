import { describe, expect, it } from 'vitest';
import { points, relative, share } from './delta.ts';
import { firstPartial, resolutionMinutes, stepText } from './resolution.ts';
import { axisLabels, clock, date, inputValue, interval } from './time.ts';

const plain = (s: string | undefined) => s?.replaceAll('\u202f', ' ');

describe('delta', () => {
  const cases: [number | null, number | null, string | undefined, string?, string?][] = [
    [110, 100, '10 %', 'up', 'bad'],
    [90, 100, '10 %', 'down', 'good'],
    [100, 100, '0 %', 'same', 'neutral'],
    [1200, 100, '×12.0', 'up', 'bad'],
    [5, 0, 'new', 'up', 'bad'],
    [0, 0, undefined],
    [0, 5, '100 %', 'down', 'good'],
    [null, 5, undefined],
    [5, null, undefined],
  ];
  for (const [now, before, text, direction, tone] of cases) {
    it(`${before} to ${now}`, () => {
      const d = relative(now, before, 'down');
      expect(plain(d?.text)).toBe(text);
      expect(d?.direction).toBe(direction);
      expect(d?.tone).toBe(tone);
    });
  }
  it('of shares is in points', () => {
    expect(plain(points(0.125, 0.113, 'down')?.text)).toBe('1.2 pp');
    expect(points(0.5, 0.5, 'down')?.tone).toBe('neutral');
    expect(points(undefined, 0.5, 'down')).toBeUndefined();
  });
  it('no requests have no share', () => expect(share(0, 0)).toBeUndefined());
});

describe('resolution', () => {
  const cases: [number, number][] = [
    [1, 1],
    [60, 1],
    [180, 1],
    [181, 15],
    [360, 15],
    [1440, 15],
    [2880, 30],
    [7 * 1440, 60],
    [30 * 1440, 1440],
    [365 * 1440, 1440],
  ];
  for (const [minutes, want] of cases)
    it(`of ${minutes} min is ${want}`, () => expect(resolutionMinutes(minutes)).toBe(want));
  it('never gives more than 400 points', () => {
    for (let m = 1; m <= 365 * 1440; m += 97) expect(m / resolutionMinutes(m)).toBeLessThanOrEqual(400);
  });
  it('has names', () =>
    expect([1, 15, 60, 1440].map(stepText).map(plain)).toEqual(['1 min', '15 min', '1 h', 'day (UTC)']));
});

describe('filling points', () => {
  const minute = 60_000;
  const p = [0, 1, 2].map((i) => ({ since: i * minute, until: (i + 1) * minute }));
  it('none when all is long over', () => expect(firstPartial(p, 1, 10 * minute)).toBe(3));
  it('the one that runs', () => expect(firstPartial(p, 1, 2.5 * minute)).toBe(2));
  it('the one that has just ended, until it settles', () => {
    expect(firstPartial(p, 1, 3 * minute + 1000)).toBe(2);
    expect(firstPartial(p, 1, 3 * minute + 10_000)).toBe(3);
  });
  it('a last point cut at now counts by its full length', () => {
    expect(firstPartial([{ since: 0, until: 20_000 }], 1, 30_000)).toBe(0);
  });
  it('no points, none filling', () => expect(firstPartial([], 1, 0)).toBe(0));
});

describe('times', () => {
  const t = Date.UTC(2026, 8, 12, 14, 5, 9);
  it('in UTC', () => {
    expect(clock(t, true)).toBe('14:05');
    expect(clock(t, true, true)).toBe('14:05:09');
    expect(date(t, true, t)).toBe('12 Sep');
    expect(date(t, true, Date.UTC(2027, 0, 1))).toBe('12 Sep 2026');
    expect(inputValue(t, true)).toBe('2026-09-12T14:05');
  });
  it('intervals', () => {
    const h = Date.UTC(2026, 8, 12, 14);
    expect(interval(h, h + 900_000, true)).toMatch(/^Sat 12 Sep( 2026)?, 14:00 – 14:15$/);
    const d = Date.UTC(2026, 8, 12);
    expect(interval(d, d + 86_400_000, true)).toMatch(/^Sat 12 Sep( 2026)?$/);
  });
  it('axis labels name the day where it changes', () => {
    const d = Date.UTC(2026, 8, 11, 23);
    expect(axisLabels([d, d + 1_800_000, d + 3_600_000], 1_800_000, true)).toEqual(['23:00', '23:30', '00:00\n12 Sep']);
    expect(axisLabels([Date.UTC(2026, 8, 1), Date.UTC(2026, 8, 8)], 7 * 86_400_000, true)).toEqual(['1 Sep', '8 Sep']);
  });
});
