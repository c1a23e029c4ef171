// Calls of the API that the page came from.

import { apiBounds, lengthMinutes, type Range } from '../lib/range.ts';
import { resolutionMinutes } from '../lib/resolution.ts';
import type { Dashboard, Delivery, Latency, Top, Traffic, Zone } from './types.ts';

/** An answer that is not a success: HTTP status (0: no answer), the API's error code (0: none) and its words. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: number;
  constructor(status: number, code: number, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

interface Envelope<T> {
  success: boolean;
  errors: { code: number; message: string }[] | null;
  result: T;
  query?: Dashboard['query'];
  result_info?: { total_count?: number };
}

const timeoutMs = 30_000;
let skewMs = 0;

/** Now by the server's clock, in ms: the page and the server may disagree about the time. */
export function serverNow(): number {
  return Date.now() + skewMs;
}

function noteServerDate(header: string | null) {
  const at = Date.parse(header ?? '');
  if (!Number.isFinite(at)) return;
  // The header has whole seconds: small differences are rounding, not skew.
  const skew = at + 500 - Date.now();
  skewMs = Math.abs(skew) > 2000 ? skew : 0;
}

/** Gets an envelope; throws ApiError for everything that is not a success, and DOMException AbortError when aborted. */
async function call<T>(path: string, params: Record<string, string>, signal?: AbortSignal): Promise<Envelope<T>> {
  const query = new URLSearchParams(params).toString();
  const timeout = AbortSignal.timeout(timeoutMs);
  let res: Response;
  try {
    res = await fetch(`/client/v4${path}${query ? `?${query}` : ''}`, {
      headers: { Accept: 'application/json' },
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
  } catch (err) {
    if (signal?.aborted) throw err;
    if (timeout.aborted) throw new ApiError(0, 0, `No answer within ${timeoutMs / 1000} s.`);
    throw new ApiError(0, 0, 'The server cannot be reached.');
  }
  noteServerDate(res.headers.get('Date'));
  let body: Envelope<T> | undefined;
  try {
    body = (await res.json()) as Envelope<T>;
  } catch (err) {
    if (signal?.aborted) throw err;
  }
  if (!res.ok || !body?.success) {
    const e = body?.errors?.[0];
    throw new ApiError(res.status, e?.code ?? 0, e?.message || `The server answered with status ${res.status}.`);
  }
  return body;
}

/** All zones, by name. Pages are followed to the end. */
export async function zones(signal?: AbortSignal): Promise<Zone[]> {
  const all: Zone[] = [];
  const perPage = 500;
  for (let page = 1; page <= 200; page++) {
    const body = await call<Zone[] | null>('/zones', { page: String(page), per_page: String(perPage) }, signal);
    const rows = body.result ?? [];
    all.push(...rows);
    const total = body.result_info?.total_count;
    if (rows.length === 0 || (total === undefined ? rows.length < perPage : all.length >= total)) break;
  }
  return all.sort((a, b) => a.name.localeCompare(b.name));
}

const analytics = (zone: string, what: string) => `/zones/${encodeURIComponent(zone)}/analytics/${what}`;

/** Bounds and length of a point: the same for all panels, so that their totals are about the same span. */
function window(range: Range): Record<string, string> {
  return { ...apiBounds(range), time_delta: String(resolutionMinutes(lengthMinutes(range))) };
}

/** Where the live stream of a zone is. */
export const liveUrl = (zone: string) => `/client/v4${analytics(zone, 'live')}`;

/** Traffic of a zone in exactly this range (continuous=false: the window is not moved). */
export async function dashboard(zone: string, range: Range, signal?: AbortSignal): Promise<Dashboard> {
  const params = { ...window(range), continuous: 'false' };
  const body = await call<{ totals: Traffic; timeseries: Traffic[] | null }>(
    analytics(zone, 'dashboard'),
    params,
    signal,
  );
  return {
    query: body.query ?? { since: body.result.totals.since, until: body.result.totals.until, time_delta: 1 },
    totals: body.result.totals,
    timeseries: body.result.timeseries ?? [],
  };
}

/** Latency percentiles and histogram of a zone. */
export async function latency(zone: string, range: Range, signal?: AbortSignal): Promise<Latency> {
  const { result } = await call<Latency>(analytics(zone, 'latency'), window(range), signal);
  return {
    ...result,
    timeseries: result.timeseries ?? [],
    heatmap: { bins: result.heatmap?.bins ?? [], counts: result.heatmap?.counts ?? [] },
  };
}

/** The most frequent values of a dimension. */
export async function top(
  zone: string,
  range: Range,
  dimension: string,
  metric: string,
  limit: number,
  signal?: AbortSignal,
): Promise<Top> {
  const span = window(range);
  const params = { ...span, dimension, metric, limit: String(limit) };
  const { result, query } = await call<Top>(analytics(zone, 'top'), params, signal);
  const widened = query && String(query.time_delta) !== span.time_delta ? query : undefined;
  return { ...result, rows: result.rows ?? [], widened };
}

/** What became of events in a range, by edge, and whether the range is complete. */
export async function delivery(range: Range, signal?: AbortSignal): Promise<Delivery> {
  const body = await call<Omit<Delivery, 'query'>>('/system/delivery', apiBounds(range), signal);
  return { ...body.result, query: body.query ?? { since: '', until: '', time_delta: 1 } };
}

/** The version of the server, or '' when it does not say. */
export async function version(signal?: AbortSignal): Promise<string> {
  const { result } = await call<{ version?: string } | null>('/system/status', {}, signal);
  return result?.version ?? '';
}
