// The page's state is its address: /zones/<id>?range=30m&..., or /delivery?... Reading and writing it, without the browser.

import { defaultRange, formatCode, liveByDefault, parseCode, type Range, rfc3339 } from '../lib/range.ts';

export const dimensions = [
  ['path', 'Paths'],
  ['host', 'Hosts'],
  ['country', 'Countries'],
  ['referer', 'Referers'],
  ['user_agent', 'User agents'],
  ['client_ip', 'Client IPs'],
  ['status', 'Status'],
  ['browser', 'Browsers'],
  ['os', 'OS'],
  ['bot', 'Bots'],
] as const;
export type Dimension = (typeof dimensions)[number][0];
export type Metric = 'requests' | 'bytes';

/** Everything that a link to the page carries. */
export interface PageState {
  /** Traffic of a zone, or what became of events on their way here. */
  view: 'traffic' | 'delivery';
  zone: string | null;
  range: Range;
  utc: boolean;
  /** null: as the range says (on up to an hour that ends now). */
  live: boolean | null;
  dimension: Dimension;
  metric: Metric;
  /** Series switched off in legends, as "panel.series". */
  hidden: string[];
  /** Panels shown as tables. */
  tables: string[];
}

export const defaults: PageState = {
  view: 'traffic',
  zone: null,
  range: defaultRange,
  utc: false,
  live: null,
  dimension: 'path',
  metric: 'requests',
  hidden: [],
  tables: [],
};

const namePattern = /^[a-z0-9_.-]{1,40}$/;
const list = (s: string | null) =>
  s
    ? s
        .split(',')
        .filter((x) => namePattern.test(x))
        .slice(0, 40)
    : [];

/** Reads an address; whatever is wrong in it becomes the default, so that an old or broken link still opens. */
export function parseUrl(pathname: string, search: string): PageState {
  const q = new URLSearchParams(search);
  const zone = /^\/zones\/([^/]+)\/?$/.exec(pathname)?.[1];
  const dim = q.get('by');
  const live = q.get('live');
  return {
    view: /^\/delivery\/?$/.test(pathname) ? 'delivery' : 'traffic',
    zone: zone ? safeDecode(zone) : null,
    range: parseRange(q),
    utc: q.get('tz') === 'utc',
    live: live === '1' ? true : live === '0' ? false : null,
    dimension: dimensions.find(([d]) => d === dim)?.[0] ?? 'path',
    metric: q.get('metric') === 'bytes' ? 'bytes' : 'requests',
    hidden: list(q.get('hide')),
    tables: list(q.get('table')),
  };
}

function safeDecode(s: string): string {
  try {
    return decodeURIComponent(s);
  } catch {
    return s;
  }
}

function parseRange(q: URLSearchParams): Range {
  const from = Date.parse(q.get('from') ?? '');
  const to = Date.parse(q.get('to') ?? '');
  if (Number.isFinite(from) && Number.isFinite(to) && to - from >= 1000) return { kind: 'absolute', from, to };
  const minutes = parseCode(q.get('range') ?? '');
  return minutes ? { kind: 'relative', minutes } : defaultRange;
}

/** The address of a state; what is at its default is left out. parseUrl reads it back. */
export function formatUrl(s: PageState): string {
  const q: [string, string][] = [];
  if (s.range.kind === 'absolute') q.push(['from', rfc3339(s.range.from)], ['to', rfc3339(s.range.to)]);
  else q.push(['range', formatCode(s.range.minutes)]);
  if (s.utc) q.push(['tz', 'utc']);
  if (s.live !== null && s.live !== liveByDefault(s.range)) q.push(['live', s.live ? '1' : '0']);
  if (s.dimension !== defaults.dimension) q.push(['by', s.dimension]);
  if (s.metric !== defaults.metric) q.push(['metric', s.metric]);
  if (s.hidden.length) q.push(['hide', s.hidden.join(',')]);
  if (s.tables.length) q.push(['table', s.tables.join(',')]);
  const traffic = s.zone ? `/zones/${encodeURIComponent(s.zone)}` : '/';
  const path = s.view === 'delivery' ? '/delivery' : traffic;
  return `${path}?${q.map(([k, v]) => `${k}=${v}`).join('&')}`;
}

/** Whether the page refreshes every second: only a range that ends now can. */
export function isLive(s: Pick<PageState, 'range' | 'live'>): boolean {
  return s.range.kind === 'relative' && (s.live ?? liveByDefault(s.range));
}
