import { expect, it } from 'vitest';
import type { LivePoint } from '../api/types.ts';
import { liveSeconds, merge, window } from './live.ts';

const point = (t: number, requests: number): LivePoint => ({
  t,
  requests,
  bytes: 0,
  s2xx: requests,
  s3xx: 0,
  s4xx: 0,
  s5xx: 0,
});

it('a later tick replaces its seconds and keeps the others', () => {
  const held = new Map<number, LivePoint>();
  merge(held, { now: 1000, lag_seconds: 1, points: [point(998, 1), point(999, 2)] });
  const now = merge(held, { now: 1001, lag_seconds: 1, points: [point(999, 5), point(1000, 3)] });
  const w = window(held, now);
  expect(w).toHaveLength(liveSeconds);
  expect(w.slice(-4).map((p) => p.requests)).toEqual([1, 5, 3, 0]);
});

it('forgets what has left the window, and takes RFC 3339 for now', () => {
  const held = new Map<number, LivePoint>();
  merge(held, { now: 1000, lag_seconds: 1, points: [point(950, 1)] });
  merge(held, { now: new Date(2_000_000).toISOString(), lag_seconds: 1, points: [] });
  expect(held.size).toBe(0);
});
