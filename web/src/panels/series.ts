// From the API's answers to what charts, cards and tables show.

import type { Dashboard, Latency, Traffic } from '../api/types.ts';
import type { Points, Series } from '../charts/model.ts';
import { share } from '../lib/delta.ts';
import { bytes, count, millis } from '../lib/format.ts';
import { firstPartial } from '../lib/resolution.ts';

/** Requests by class of status; other: 1xx and codes that are none. */
export interface Classes {
  s2xx: number;
  s3xx: number;
  s4xx: number;
  s5xx: number;
  other: number;
}

/** Adds up a map of status codes; what the map does not explain of all goes to other. */
export function classes(t: Traffic): Classes {
  const c: Classes = { s2xx: 0, s3xx: 0, s4xx: 0, s5xx: 0, other: 0 };
  for (const [code, n] of Object.entries(t.requests.http_status ?? {})) {
    const key = { 2: 's2xx', 3: 's3xx', 4: 's4xx', 5: 's5xx' }[code.length === 3 ? code[0]! : ''] as
      | keyof Classes
      | undefined;
    c[key ?? 'other'] += n;
  }
  return c;
}

interface Span {
  since: string;
  until: string;
}

/** The time axis of a list of points. */
export function pointsOf(list: Span[], stepMinutes: number, now: number): Points {
  const since = list.map((p) => Date.parse(p.since));
  const until = list.map((p) => Date.parse(p.until));
  const spans = since.map((s, i) => ({ since: s, until: until[i]! }));
  return { since, until, partial: firstPartial(spans, stepMinutes, now), step: stepMinutes };
}

export function requestSeries(d: Dashboard): Series[] {
  const per = d.timeseries.map(classes);
  const sum = classes(d.totals);
  const make = (key: keyof Classes, label: string, color: string): Series => ({
    key,
    label,
    color,
    kind: 'bar',
    stacked: true,
    values: per.map((c) => c[key]),
    total: count(sum[key]),
  });
  const out = [
    make('s2xx', '2xx', '--s-2xx'),
    make('s3xx', '3xx', '--s-3xx'),
    make('s4xx', '4xx', '--s-4xx'),
    make('s5xx', '5xx', '--s-5xx'),
  ];
  if (sum.other > 0) out.push(make('other', 'other', '--s-other'));
  return out;
}

export function bandwidthSeries(d: Dashboard): Series[] {
  const make = (key: 'cached' | 'uncached', label: string): Series => ({
    key,
    label,
    color: `--s-${key}`,
    kind: 'bar',
    stacked: true,
    values: d.timeseries.map((t) => t.bandwidth[key]),
    total: bytes(d.totals.bandwidth[key]),
  });
  return [make('cached', 'Cached'), make('uncached', 'Uncached')];
}

export function uniqueSeries(d: Dashboard): Series[] {
  return [
    {
      key: 'uniques',
      label: 'Unique visitors',
      color: '--s-uniques',
      kind: 'area',
      values: d.timeseries.map((t) => t.uniques.all),
      total: count(d.totals.uniques.all),
    },
  ];
}

const percentileNames = [
  ['p50', 'p50_ms'],
  ['p95', 'p95_ms'],
  ['p99', 'p99_ms'],
] as const;

export function latencySeries(l: Latency): Series[] {
  return percentileNames.map(([name, field]) => ({
    key: name,
    label: name,
    color: `--s-${name}`,
    kind: 'line',
    values: l.timeseries.map((t) => (t.count > 0 ? (t[field] ?? null) : null)),
    total: millis(l.totals.count > 0 ? l.totals[field] : null),
  }));
}

/** Share of requests that the server could not answer (5xx), 0..1; undefined without requests. */
export function errorRate(t: Traffic): number | undefined {
  return share(classes(t).s5xx, t.requests.all);
}

/** Share of requests answered from the cache. */
export function cachedShare(t: Traffic): number | undefined {
  return share(t.requests.cached, t.requests.all);
}

/**
 * By what the counters of the previous period are to be multiplied before comparing: both answers are cut to whole
 * points, so their lengths may differ a little. Undefined when they differ too much to be compared.
 */
export function comparable(now: Dashboard, before: Dashboard, at: number): number | undefined {
  const length = (d: Dashboard) => Math.min(Date.parse(d.query.until), at) - Date.parse(d.query.since);
  const factor = length(now) / length(before);
  return Number.isFinite(factor) && factor > 0.8 && factor < 1.25 ? factor : undefined;
}
