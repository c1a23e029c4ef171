// A Vite plugin that answers the API's paths with generated traffic, in `npm run dev` and `npm run preview`.
// Awkward cases are zones of their own (see traffic.ts); e.g.
// slow-api.example answers after 2.5 s, broken-panel.example fails its top table.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Connect, Plugin } from 'vite';
import * as traffic from './traffic.ts';

const json = (res: ServerResponse, status: number, body: unknown) => {
  res.writeHead(status, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' });
  res.end(JSON.stringify(body));
};
const ok = (res: ServerResponse, result: unknown, more: object = {}) =>
  json(res, 200, { success: true, errors: [], messages: [], result, ...more });
const fail = (res: ServerResponse, status: number, code: number, message: string) =>
  json(res, status, { success: false, errors: [{ code, message }], messages: [], result: null });

/** since/until as the API takes them: RFC 3339, or minutes back. In seconds. */
function moment(value: string | null, fallback: number, now: number): number {
  if (value === null || value === '') return now + fallback * 60;
  if (/^-?\d+$/.test(value)) return now + Number(value) * 60;
  const t = Date.parse(value);
  return Number.isFinite(t) ? t / 1000 : Number.NaN;
}

function stream(req: IncomingMessage, res: ServerResponse, z: traffic.MockZone) {
  res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
  const send = (first: boolean) => {
    const now = Date.now() / 1000;
    const newest = Math.floor(now) - 1;
    const points = [];
    for (let t = newest - (first ? 119 : 2); t <= newest; t++) points.push(traffic.livePoint(z, t));
    res.write(`event: tick\ndata: ${JSON.stringify({ now, lag_seconds: 0.6 + traffic.noise(newest, 1), points })}\n\n`);
  };
  send(true);
  const timer = setInterval(() => send(false), 1000);
  req.on('close', () => clearInterval(timer));
}

function zoneList(res: ServerResponse, q: URLSearchParams) {
  const page = Number(q.get('page') ?? 1);
  const per = Number(q.get('per_page') ?? 20);
  const found = traffic.zones.filter((z) => z.name.includes(q.get('name') ?? ''));
  const rows = found.slice((page - 1) * per, page * per).map((z) => ({
    id: z.id,
    name: z.name,
    status: 'active',
    hosts: [z.name, `www.${z.name}`],
    plan: { id: 'x', name: 'Enterprise', legacy_id: 'enterprise' },
    created_on: '2026-01-01T00:00:00Z',
  }));
  ok(res, rows, { result_info: { page, per_page: per, count: rows.length, total_count: found.length } });
}

const iso = (seconds: number) => new Date(seconds * 1000).toISOString();

/** Two edges, one of which has lost two batches in the middle. */
function delivery(since: number, until: number, now: number) {
  const zero = { accepted: 0, stored: 0, pending: 0, batches: 0, bytes: 0, duplicates: 0, dropped: 0 };
  const none = { ...zero, refused: 0, late: 0, oldest_ms: 0, missing: 0 };
  const edge = (name: string, missing: number) => {
    const minutes = [];
    const totals = { ...none, missing, oldest_ms: 840 };
    for (let t = since; t < Math.min(until, now); t += 60) {
      const n = Math.round(3000 + 2500 * Math.sin(t / 900 + name.length));
      minutes.push({ ...none, minute: iso(t), accepted: n, stored: n, batches: 60, bytes: n * 40, oldest_ms: 840 });
      totals.accepted += n;
      totals.stored += n;
      totals.batches += 60;
      totals.bytes += n * 40;
    }
    const middle = iso((since + until) / 2);
    const gap = { epoch: '1767225600000000000', from: 1, to: 4095, missing, since: middle, until: middle };
    return { edge: name, totals, minutes, gaps: missing ? [gap] : [] };
  };
  const edges = [edge('ams1', 0), edge('fra1', 2)];
  return {
    settled: iso(Math.min(until, now - 10)),
    complete: false,
    reasons: ['edge fra1: 2 batches never came, though later ones did'],
    backlog: { known: true, messages: 1, seconds: 0.4, lost: 0 },
    totals: { ...edges[1]!.totals, stored: edges[0]!.totals.stored + edges[1]!.totals.stored },
    edges,
    notices: [
      {
        edge: 'fra1',
        kind: 'bad_line',
        source: '/var/log/nginx/access.log',
        count: 702,
        first: iso(now - 300),
        last: iso(now - 20),
        reason: 'EdgeStartTimestamp: not a time',
        samples: [
          { time: iso(now - 20), line: 961, reason: 'EdgeStartTimestamp: not a time', text: 'segfault at 950' },
        ],
      },
    ],
  };
}

/** Answers a request below /client/v4, or gives false. `empty` serves an installation without any zone. */
export function answer(req: IncomingMessage, res: ServerResponse, empty = false): boolean {
  const url = new URL(req.url ?? '/', 'http://mock');
  if (!url.pathname.startsWith('/client/v4')) return false;
  const q = url.searchParams;
  const path = url.pathname.slice('/client/v4'.length);
  const now = Date.now() / 1000;
  if (path === '/zones') {
    if (empty) ok(res, [], { result_info: { page: 1, per_page: 50, count: 0, total_count: 0 } });
    else zoneList(res, q);
    return true;
  }
  if (path === '/system/status') {
    ok(res, { version: '0.0.0-mock', uptime_seconds: 1, roles: [], edges: [] });
    return true;
  }
  if (path === '/system/delivery') {
    const until = Math.ceil(moment(q.get('until'), 0, now) / 60) * 60;
    const since = Math.floor(moment(q.get('since'), -60, now) / 60) * 60;
    const a = delivery(since, until, now);
    ok(res, a, { query: { since: iso(since), until: iso(until), time_delta: 1 } });
    return true;
  }
  const m = /^\/zones\/([^/]+)\/analytics\/(\w+)$/.exec(path);
  const z = m && !empty ? traffic.zones.find((x) => x.id === m[1]) : undefined;
  if (!m || !z) {
    fail(res, 404, 1001, 'Zone not found');
    return true;
  }
  const since = moment(q.get('since'), -10080, now);
  const until = moment(q.get('until'), 0, now);
  const delta = Number(q.get('time_delta') ?? 0);
  if (!(since < until) || until - since > 366 * 86400) {
    fail(res, 400, 1005, 'Please check time interval or your plan level');
    return true;
  }
  const work = () => {
    switch (m[2]) {
      case 'dashboard': {
        const a = traffic.dashboard(z, since, until, now, delta);
        return ok(res, a.result, { query: a.query });
      }
      case 'latency':
        return ok(res, traffic.latency(z, since, until, now, delta));
      case 'top':
        if (z.kind === 'broken_top') return fail(res, 500, 1100, 'query exceeded its memory limit (generated error)');
        return ok(
          res,
          traffic.top(
            z,
            since,
            until,
            now,
            q.get('dimension') ?? 'path',
            q.get('metric') ?? 'requests',
            Number(q.get('limit') ?? 10),
          ),
        );
      case 'live':
        return stream(req, res, z);
    }
    return fail(res, 404, 1000, 'no such route');
  };
  setTimeout(work, z.kind === 'slow_api' ? 2500 : 25);
  return true;
}

// The headers of the Go handler, so that a page that breaks its own policy breaks here too.
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
  "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export function mockPlugin(): Plugin {
  const empty = process.env.MOCK_EMPTY === '1';
  const handle: Connect.NextHandleFunction = (req, res, next) => {
    if (!answer(req, res, empty)) next();
  };
  return {
    name: 'spate-mock',
    configureServer: (server) => {
      server.middlewares.use(handle);
    },
    configurePreviewServer: (server) => {
      server.middlewares.use((_req, res, next) => {
        res.setHeader('Content-Security-Policy', policy);
        next();
      });
      server.middlewares.use(handle);
    },
  };
}
