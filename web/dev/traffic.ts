// Generated traffic for development and tests. The same zone and second always give the same numbers.
// It is never part of the build.

/** A made-up zone and what is awkward about it. */
export interface MockZone {
  id: string;
  name: string;
  /** Mean requests per second. */
  rate: number;
  kind: 'normal' | 'zero' | 'gaps' | 'no_latency' | 'slow_api' | 'broken_top' | 'sparse' | 'incident';
}

/** 32-bit mix of two integers, as a number in 0..1. */
export function noise(a: number, b: number): number {
  let h = (Math.imul(a | 0, 0x9e3779b1) ^ Math.imul((b | 0) + 0x7f4a7c15, 0x85ebca6b)) >>> 0;
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d) >>> 0;
  h = Math.imul(h ^ (h >>> 12), 0x297a2d39) >>> 0;
  return ((h ^ (h >>> 15)) >>> 0) / 4294967296;
}

function hexId(name: string): string {
  let out = '';
  for (let i = 0; i < 8; i++) {
    let h = 2166136261 + i * 977;
    for (const c of name) h = Math.imul(h ^ c.charCodeAt(0), 16777619) >>> 0;
    out += Math.floor(noise(h, i) * 4294967296)
      .toString(16)
      .padStart(8, '0')
      .slice(0, 4);
  }
  return out;
}

const make = (name: string, rate: number, kind: MockZone['kind']): MockZone => ({ id: hexId(name), name, rate, kind });

export const zones: MockZone[] = [
  make('shop.example', 38, 'normal'),
  make('big.example', 412_000, 'normal'),
  make('incident.example', 120, 'incident'),
  make('gaps.example', 9, 'gaps'),
  make('imported-logs.example', 4, 'no_latency'),
  make('quiet.example', 0, 'zero'),
  make('slow-api.example', 20, 'slow_api'),
  make('broken-panel.example', 20, 'broken_top'),
  make('trickle.example', 0.02, 'sparse'),
  ...['blog', 'status', 'docs', 'mail', 'cdn', 'assets', 'forum', 'wiki', 'intranet', 'tickets'].map((n, i) =>
    make(`${n}.university.example`, 1 + i * 3, 'normal'),
  ),
];

const seedOf = (z: MockZone) => Number.parseInt(z.id.slice(0, 7), 16);

/** Expected requests per second at a moment (s): day and week waves, slow noise, and what the zone's kind adds. */
function intensity(z: MockZone, t: number): number {
  if (z.kind === 'zero') return 0;
  const seed = seedOf(z);
  const hour = (t / 3600) % 24;
  const weekday = Math.floor(t / 86400 + 4) % 7;
  let v = 0.62 + 0.42 * Math.sin(((hour - 9) / 24) * 2 * Math.PI) + 0.12 * Math.sin((hour / 6) * 2 * Math.PI);
  v *= weekday === 0 || weekday === 6 ? 0.7 : 1;
  v *= 0.85 + 0.3 * smooth(seed, t / 420) + 0.12 * smooth(seed + 1, t / 37);
  if (z.kind === 'gaps' && noise(seed, Math.floor(t / 1260)) < 0.25) return 0;
  if (z.kind === 'incident' && inIncident(t)) v *= 2.2;
  return Math.max(0, v) * z.rate;
}

const inIncident = (t: number) => t % 5400 > 3300 && t % 5400 < 4000;

function smooth(seed: number, x: number): number {
  const i = Math.floor(x);
  const f = x - i;
  const w = f * f * (3 - 2 * f);
  return noise(seed, i) * (1 - w) + noise(seed, i + 1) * w;
}

/** Requests in the span [from, to) in seconds: whole numbers, noisy as counts are. */
function requests(z: MockZone, from: number, to: number): number {
  const n = Math.max(1, Math.min(24, Math.ceil((to - from) / 10)));
  const w = (to - from) / n;
  let sum = 0;
  for (let i = 0; i < n; i++) sum += intensity(z, from + (i + 0.5) * w) * w;
  const jitter = (noise(seedOf(z) ^ 77, Math.floor(from)) - 0.5) * 3.4 * Math.sqrt(sum);
  if (sum < 1) return noise(seedOf(z), Math.floor(from)) < sum ? 1 : 0;
  return Math.max(0, Math.round(sum + jitter));
}

/** Splits a whole number by weights, exactly; the first part takes what rounding leaves. */
export function split(total: number, weights: Record<string, number>): Record<string, number> {
  const sum = Object.values(weights).reduce((a, b) => a + b, 0);
  const keys = Object.keys(weights);
  const out: Record<string, number> = {};
  let rest = total;
  for (const k of keys.slice(1)) {
    const n = Math.min(rest, Math.floor((total * (weights[k] ?? 0)) / sum));
    if (n > 0) out[k] = n;
    rest -= n;
  }
  if (rest > 0) out[keys[0]!] = (out[keys[0]!] ?? 0) + rest;
  return out;
}

const statusWeights = (z: MockZone, t: number): Record<string, number> => {
  const wave = smooth(seedOf(z) + 5, t / 900);
  const bad = z.kind === 'incident' && inIncident(t) ? 300 : 1;
  return {
    200: 800,
    304: 90,
    301: 22,
    302: 12,
    404: 25 + 20 * wave,
    206: 8,
    403: 9,
    429: 2,
    499: 3,
    500: 0.9 * bad,
    502: 0.6 * bad,
    503: 0.3 * bad,
  };
};
const countries = { US: 31, DE: 17, FR: 9, GB: 8, IN: 7, JP: 6, BR: 5, NL: 4, PL: 3, CN: 3, XX: 1 };
const contents = { html: 30, javascript: 20, css: 10, png: 16, jpeg: 14, json: 10 };

const iso = (s: number) => new Date(s * 1000).toISOString().replace('.000Z', 'Z');

function point(z: MockZone, from: number, to: number, now: number) {
  const all = requests(z, from, Math.max(from, Math.min(to, now)));
  const seed = seedOf(z);
  const cachedShare = 0.72 + 0.16 * smooth(seed + 9, from / 1800);
  const cached = Math.floor(all * cachedShare);
  const perRequest = 14_000 + 9000 * smooth(seed + 3, from / 700);
  const bytes = Math.round(all * perRequest);
  const cachedBytes = Math.round(bytes * (cachedShare - 0.06));
  return {
    since: iso(from),
    until: iso(to),
    requests: {
      all,
      cached,
      uncached: all - cached,
      content_type: split(all, contents),
      country: split(all, countries),
      ssl: { encrypted: all - Math.floor(all / 50), unencrypted: Math.floor(all / 50) },
      ssl_protocol: split(all, { 'TLSv1.3': 80, 'TLSv1.2': 18, none: 2 }),
      http_status: split(all, statusWeights(z, from)),
      ip_class: split(all, { noRecord: 80, searchEngine: 12, monitoringService: 5, badHost: 3 }),
    },
    bandwidth: {
      all: bytes,
      cached: cachedBytes,
      uncached: bytes - cachedBytes,
      content_type: split(bytes, contents),
      country: split(bytes, countries),
      ssl: { encrypted: bytes, unencrypted: 0 },
    },
    threats: { all: 0, type: {}, country: {} },
    pageviews: { all: Math.floor(all * 0.18), search_engine: {}, search_engines: {} },
    uniques: { all: all < 3 ? all : Math.round(all ** 0.82 * 0.9) },
  };
}

function addCounts(a: Record<string, number>, b: Record<string, number>) {
  for (const [k, v] of Object.entries(b)) a[k] = (a[k] ?? 0) + v;
}

// biome-ignore lint/suspicious/noExplicitAny: adds up nested counters of whatever shape
function addUp(into: any, from: any) {
  for (const [k, v] of Object.entries(from)) {
    if (typeof v === 'number') into[k] = (into[k] ?? 0) + v;
    else if (v && typeof v === 'object') {
      if (!into[k]) into[k] = {};
      addUp(into[k], v);
    }
  }
}

/** Minutes per point by the length of the range, when the question does not say. */
function defaultDelta(minutes: number): number {
  if (minutes < 60) return 1;
  if (minutes < 420) return 15;
  if (minutes < 900) return 30;
  return minutes <= 4320 ? 60 : 1440;
}

/** Starts of the points of a range, widened to whole points, and their length; all in seconds. */
export function edges(since: number, until: number, delta: number): { starts: number[]; step: number } {
  const minutes = delta || defaultDelta((until - since) / 60);
  const step = minutes * 60;
  const starts: number[] = [];
  for (let t = Math.floor(since / step) * step; t < until; t += step) starts.push(t);
  return { starts, step };
}

/** The dashboard answer, in seconds since the epoch. */
export function dashboard(z: MockZone, since: number, until: number, now: number, delta = 0) {
  const { starts, step } = edges(since, until, delta);
  const timeseries = starts.map((t) => point(z, t, t + step, now));
  const first = starts[0] ?? since;
  const last = (starts.at(-1) ?? since) + step;
  const totals = point({ ...z, kind: 'zero' }, first, last, now);
  for (const p of timeseries) addUp(totals, p);
  totals.since = iso(first);
  totals.until = iso(last);
  totals.uniques.all = Math.round(timeseries.reduce((a, p) => a + p.uniques.all, 0) ** 0.93);
  return { query: { since: iso(first), until: iso(last), time_delta: step / 60 }, result: { totals, timeseries } };
}

/** Log-linear bins as the histogram package has them: 90 per power of ten, from 0.01 ms to 100 s. */
const bins: { low_ms: number; high_ms: number }[] = [];
for (let e = -2; e < 5; e++) {
  for (let m = 10; m < 100; m++) bins.push({ low_ms: (m * 10 ** e) / 10, high_ms: ((m + 1) * 10 ** e) / 10 });
}
const binOf = (ms: number) => {
  const e = Math.min(4, Math.max(-2, Math.floor(Math.log10(ms))));
  return (e + 2) * 90 + Math.min(89, Math.max(0, Math.floor((ms / 10 ** e) * 10) - 10));
};

/** Weights of bins for a moment: two modes (from the cache, from the origin) and a tail that breathes. */
function latencyModes(z: MockZone, t: number): [number, number, number][] {
  const seed = seedOf(z);
  const slow = z.kind === 'incident' && inIncident(t) ? 9 : 1;
  return [
    [1.1 + 0.5 * smooth(seed + 21, t / 2000), 0.16, 0.72],
    [38 * slow * (0.8 + 0.5 * smooth(seed + 22, t / 1500)), 0.2, 0.25],
    [420 * (0.7 + 0.9 * smooth(seed + 23, t / 600)), 0.28, 0.03],
  ];
}

function quantile(counts: Float64Array, total: number, q: number): number | null {
  if (total === 0) return null;
  let seen = 0;
  for (let b = 0; b < counts.length; b++) {
    seen += counts[b]!;
    if (seen >= q * total) return (bins[b]!.low_ms + bins[b]!.high_ms) / 2;
  }
  return null;
}

/** The latency answer. */
export function latency(z: MockZone, since: number, until: number, now: number, delta = 0) {
  const { starts, step } = edges(since, until, delta);
  const sum = new Float64Array(bins.length);
  const counts: [number, number, number][] = [];
  let all = 0;
  const timeseries = starts.map((t, i) => {
    const n = z.kind === 'no_latency' ? 0 : requests(z, t, Math.max(t, Math.min(t + step, now)));
    const h = new Float64Array(bins.length);
    let have = 0;
    for (const [center, width, weight] of latencyModes(z, t)) {
      for (let b = binOf(center * 10 ** (-3 * width)); b <= binOf(center * 10 ** (3.5 * width)); b++) {
        const { low_ms: lo, high_ms: hi } = bins[b]!;
        const x = Math.log10(Math.sqrt(lo * hi) / center) / width;
        const density = (Math.exp((-x * x) / 2) * Math.log10(hi / lo)) / (width * 2.5066);
        const c = Math.floor(n * weight * density + noise(t + b, seedOf(z)));
        if (c > 0 && have + c <= n) {
          h[b] = h[b]! + c;
          have += c;
        }
      }
    }
    if (n > 0 && have < n) h[binOf(1.2)] = h[binOf(1.2)]! + n - have;
    for (let b = 0; b < h.length; b++) {
      if (h[b]! > 0) {
        counts.push([i, b, h[b]!]);
        sum[b] = sum[b]! + h[b]!;
      }
    }
    all += n;
    return {
      since: iso(t),
      until: iso(t + step),
      count: n,
      p50_ms: quantile(h, n, 0.5),
      p90_ms: quantile(h, n, 0.9),
      p95_ms: quantile(h, n, 0.95),
      p99_ms: quantile(h, n, 0.99),
    };
  });
  const used = [...new Set(counts.map((c) => c[1]))].sort((a, b) => a - b);
  const index = new Map(used.map((b, i) => [b, i]));
  return {
    time_delta: step / 60,
    totals: {
      count: all,
      mean_ms: all ? sum.reduce((a, c, b) => a + (c * (bins[b]!.low_ms + bins[b]!.high_ms)) / 2, 0) / all : null,
      p50_ms: quantile(sum, all, 0.5),
      p90_ms: quantile(sum, all, 0.9),
      p95_ms: quantile(sum, all, 0.95),
      p99_ms: quantile(sum, all, 0.99),
      p999_ms: quantile(sum, all, 0.999),
      max_ms: quantile(sum, all, 1),
    },
    timeseries,
    heatmap: {
      bins: used.map((b) => bins[b]!),
      counts: counts.map(([i, b, c]) => [i, index.get(b)!, c] as [number, number, number]),
    },
  };
}

const values: Record<string, string[]> = {
  path: [
    '/',
    '/products/blue-running-shoes-42',
    '/api/v2/cart',
    '/assets/app.4f2a91.js',
    '/search',
    '/favicon.ico',
    '/wp-login.php',
    '/products/%E6%97%A5%E6%9C%AC%E8%AA%9E',
    '/checkout/payment',
    '/images/hero-2560x1440.avif',
    '/robots.txt',
    '/.env',
    '/a/very/long/path/that/goes/on/and/on/with/many/segments/and/then/some/more/segments/until/it/does/not/fit/index.html',
  ],
  host: ['www.shop.example', 'shop.example', 'api.shop.example', 'static.shop.example', 'admin.shop.example'],
  referer: ['', 'https://www.search.example/', 'https://news.example/story/1', 'https://shop.example/'],
  user_agent: [
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36',
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1',
    'Googlebot/2.1 (+http://www.google.com/bot.html)',
    'curl/8.5.0',
    '',
  ],
  client_ip: ['192.0.2.14', '2001:db8:4f::1a2b', '198.51.100.77', '203.0.113.9', '2001:db8::5'],
  country: ['US', 'DE', 'FR', 'GB', 'IN', 'JP', 'BR', 'NL', 'PL', 'CN', 'XX'],
  status: ['200', '304', '404', '301', '302', '403', '206', '499', '429', '500', '502', '503'],
  browser: ['Chrome', 'Safari', 'Firefox', 'Edge', 'Samsung Internet', ''],
  os: ['Windows', 'iOS', 'Android', 'macOS', 'Linux', ''],
  bot: ['', 'search_engine', 'ai_crawler', 'seo', 'monitor', 'scanner', 'feed', 'tool', 'other_bot'],
};

/** The top answer: a Zipf-like share for each value. */
export function top(
  z: MockZone,
  since: number,
  until: number,
  now: number,
  dimension: string,
  metric: string,
  limit: number,
) {
  const { totals } = dashboard(z, since, until, now).result;
  const vals = values[dimension] ?? [];
  const weights = Object.fromEntries(vals.map((v, i) => [v, 1 / (i + 1.4) ** 1.3]));
  const rest = dimension === 'path' || dimension === 'client_ip' ? 0.6 : 0;
  const parts = split(Math.round(totals.requests.all * (1 - rest)), weights);
  const rows = vals
    .filter((v) => (parts[v] ?? 0) > 0)
    .map((v, i) => ({
      value: v,
      requests: parts[v]!,
      bytes: Math.round(parts[v]! * (2000 + 30_000 * noise(seedOf(z) + i, 3))),
      errors: Math.floor(parts[v]! * 0.08 * noise(seedOf(z) + i, 4) ** 3),
      error_bound: { requests: 0, bytes: 0 },
    }))
    .sort((a, b) => (metric === 'bytes' ? b.bytes - a.bytes : b.requests - a.requests))
    .slice(0, limit);
  return {
    dimension,
    rows,
    total: { requests: totals.requests.all, bytes: totals.bandwidth.all },
    error_bound: { requests: 0, bytes: 0 },
  };
}

/** One second of the live stream; the newest second is only partly there. */
export function livePoint(z: MockZone, t: number) {
  const n = requests(z, t, t + 1);
  const classes: Record<string, number> = {};
  addCounts(classes, split(n, statusWeights(z, t)));
  const sum = (first: string) => Object.entries(classes).reduce((a, [k, v]) => (k.startsWith(first) ? a + v : a), 0);
  const jitter = 0.8 + 0.5 * noise(t, 99);
  const durations = n > 0 && z.kind !== 'no_latency';
  return {
    t,
    requests: n,
    bytes: n * 17_000,
    s2xx: sum('2'),
    s3xx: sum('3'),
    s4xx: sum('4'),
    s5xx: sum('5'),
    p50_ms: durations ? 1.4 * jitter : null,
    p99_ms: durations ? (z.kind === 'incident' && inIncident(t) ? 2600 : 240) * jitter : null,
  };
}
