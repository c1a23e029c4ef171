import { describe, expect, it } from 'vitest';
import { dashboard, latency, zones } from '../../dev/traffic.ts';
import type { Dashboard, Latency } from '../api/types.ts';
import { cachedShare, classes, comparable, errorRate, latencySeries, pointsOf, requestSeries } from './series.ts';

const now = Date.UTC(2026, 10, 20, 12, 34, 56) / 1000;
const ask = (name: string, minutes: number): Dashboard => {
  const a = dashboard(zones.find((z) => z.name === name)!, now - minutes * 60, now, now);
  return { query: a.query, ...a.result } as unknown as Dashboard;
};

describe('requests by class', () => {
  for (const name of ['shop.example', 'big.example', 'gaps.example', 'quiet.example', 'trickle.example']) {
    it(`add up to all requests of ${name}`, () => {
      const d = ask(name, 180);
      for (const t of [d.totals, ...d.timeseries]) {
        expect(Object.values(classes(t)).reduce((a, b) => a + b, 0)).toBe(t.requests.all);
      }
    });
  }
  it('count odd codes as other', () => {
    const d = ask('shop.example', 30);
    d.totals.requests.http_status = { 101: 2, 0: 3, 200: 5, 4040: 7 };
    expect(classes(d.totals)).toEqual({ s2xx: 5, s3xx: 0, s4xx: 0, s5xx: 0, other: 12 });
    expect(requestSeries(d).map((s) => s.key)).toContain('other');
  });
});

it('no requests have neither error rate nor cached share', () => {
  const d = ask('quiet.example', 30);
  expect(errorRate(d.totals)).toBeUndefined();
  expect(cachedShare(d.totals)).toBeUndefined();
});

it('points without durations are gaps, not zeros', () => {
  const z = zones.find((x) => x.kind === 'no_latency')!;
  const l = latency(z, now - 1800, now, now) as Latency;
  for (const s of latencySeries(l)) expect(s.values.every((v) => v === null)).toBe(true);
});

it('the running minute is filling', () => {
  const d = ask('shop.example', 30);
  const p = pointsOf(d.timeseries, d.query.time_delta, now * 1000);
  expect(p.partial).toBe(p.since.length - 1);
});

it('periods of different lengths are not compared', () => {
  const hour = ask('shop.example', 59);
  expect(comparable(hour, ask('shop.example', 59), now * 1000)).toBeCloseTo(1);
  expect(comparable(hour, ask('shop.example', 30), now * 1000)).toBeUndefined();
});
