import { describe, expect, it } from 'vitest';
import * as r from './range.ts';

// Friday 20 November 2026, 12:34:56 UTC.
const now = Date.UTC(2026, 10, 20, 12, 34, 56);
const at = (s: string) => Date.parse(s);
const rel = (minutes: number): r.Range => ({ kind: 'relative', minutes });
const abs = (from: string, to: string): r.Range => ({ kind: 'absolute', from: at(from), to: at(to) });

describe('codes', () => {
  it('read back what they write', () => {
    for (const p of r.presets) {
      expect(r.formatCode(p.minutes)).toBe(p.code);
      expect(r.parseCode(p.code)).toBe(p.minutes);
    }
    for (const m of [1, 45, 90, 1441, 2880, 7 * 1440 + 1]) expect(r.parseCode(r.formatCode(m))).toBe(m);
  });
  it('refuse what is none', () => {
    for (const s of ['', 'h', '0m', '-5m', '5x', '2y', '1e3m', '999999d', '30m '])
      expect(r.parseCode(s)).toBeUndefined();
  });
});

describe('words', () => {
  const cases: [string, r.Range | undefined][] = [
    ['last 3 h', rel(180)],
    ['Last 3 hours', rel(180)],
    ['past 90 minutes', rel(90)],
    ['-7d', rel(7 * 1440)],
    ['90 min', rel(90)],
    ['last hour', rel(60)],
    ['2w', rel(14 * 1440)],
    ['last 12 months', rel(r.maxMinutes)],
    ['today', abs('2026-11-20T00:00:00Z', '2026-11-20T12:34:56Z')],
    ['yesterday', abs('2026-11-19T00:00:00Z', '2026-11-20T00:00:00Z')],
    ['2026-09-01', abs('2026-09-01T00:00:00Z', '2026-09-02T00:00:00Z')],
    ['2026-09-01 to 2026-09-07', abs('2026-09-01T00:00:00Z', '2026-09-08T00:00:00Z')],
    ['2026-09-01 10:00 to 2026-09-01 12:30', abs('2026-09-01T10:00:00Z', '2026-09-01T12:30:00Z')],
    ['2026-09-01T10:00Z..12:30', abs('2026-09-01T10:00:00Z', '2026-09-01T12:30:00Z')],
    ['10:00 - 11:30', abs('2026-11-20T10:00:00Z', '2026-11-20T11:30:00Z')],
    ['10:00 to now', abs('2026-11-20T10:00:00Z', '2026-11-20T12:34:56Z')],
    ['', undefined],
    ['soon', undefined],
    ['last 5 bananas', undefined],
    ['2026-02-31', undefined],
    ['2026-13-01', undefined],
    ['12:00 - 11:00', undefined],
    ['2020-01-01 to 2026-01-01', undefined],
    ['10:00', undefined],
  ];
  for (const [text, want] of cases) it(text || 'nothing', () => expect(r.parseText(text, now, true)).toEqual(want));
});

describe('steps', () => {
  it('goes back by its own length', () => {
    expect(r.step(rel(60), -1, now)).toEqual(abs('2026-11-20T10:35:00Z', '2026-11-20T11:35:00Z'));
  });
  it('forward undoes back, whatever the second', () => {
    for (let s = 0; s < 60; s++) {
      const t = now + s * 1000;
      expect(r.step(r.step(rel(180), -1, t), 1, t)).toEqual(rel(180));
    }
  });
  it('goes forward, and becomes relative when it reaches now', () => {
    const hour = abs('2026-11-20T08:00:00Z', '2026-11-20T09:00:00Z');
    const next = r.step(hour, 1, now);
    expect(next).toEqual(abs('2026-11-20T09:00:00Z', '2026-11-20T10:00:00Z'));
    expect(r.step(r.step(r.step(next, 1, now), 1, now), 1, now)).toEqual(rel(60));
    expect(r.step(rel(60), 1, now)).toEqual(rel(60));
  });
});

it('asks the API by minutes or by RFC 3339', () => {
  expect(r.apiBounds(rel(30))).toEqual({ since: '-30', until: '0' });
  expect(r.apiBounds(abs('2026-09-01T00:00:00Z', '2026-09-02T00:00:00Z'))).toEqual({
    since: '2026-09-01T00:00:00Z',
    until: '2026-09-02T00:00:00Z',
  });
});

describe('previous period', () => {
  it('is as long as what has passed', () => {
    const p = r.previous(at('2026-11-20T12:05:00Z'), at('2026-11-20T12:35:00Z'), now)!;
    expect(p).toEqual({ from: at('2026-11-20T11:36:00Z'), to: at('2026-11-20T12:05:00Z') });
  });
  it('is not there before a year ago', () => {
    expect(r.previous(now - r.maxMinutes * 60_000, now, now)).toBeUndefined();
  });
});

it('refreshes by length and liveness', () => {
  expect(r.liveByDefault(rel(60))).toBe(true);
  expect(r.liveByDefault(rel(61))).toBe(false);
  expect(r.liveByDefault(abs('2026-11-20T10:00:00Z', '2026-11-20T10:30:00Z'))).toBe(false);
  expect(r.refreshEvery(rel(30), true)).toBe(1000);
  expect(r.refreshEvery(rel(180), false)).toBe(10_000);
  expect(r.refreshEvery(rel(1440), false)).toBe(30_000);
  expect(r.refreshEvery(abs('2026-11-20T10:00:00Z', '2026-11-20T10:30:00Z'), true)).toBe(0);
});
