// Time ranges: relative ("30m", ending now) and absolute; reading what a person types; stepping; what the API is asked.

/** A range as the URL and the page hold it. Relative ranges end now. Times are milliseconds since the epoch. */
export type Range = { kind: 'relative'; minutes: number } | { kind: 'absolute'; from: number; to: number };

/** One entry of the menu. */
export interface Preset {
  code: string;
  minutes: number;
  label: string;
  short: string;
}

const day = 1440;
/** The longest range the API answers: one year. */
export const maxMinutes = 365 * day;

export const presets: Preset[] = [
  { code: '30m', minutes: 30, label: 'Last 30 min', short: '30 min' },
  { code: '1h', minutes: 60, label: 'Last hour', short: '1 h' },
  { code: '3h', minutes: 180, label: 'Last 3 hours', short: '3 h' },
  { code: '6h', minutes: 360, label: 'Last 6 hours', short: '6 h' },
  { code: '24h', minutes: day, label: 'Last 24 hours', short: '24 h' },
  { code: '7d', minutes: 7 * day, label: 'Last 7 days', short: '7 d' },
  { code: '30d', minutes: 30 * day, label: 'Last 30 days', short: '30 d' },
  { code: '12mo', minutes: maxMinutes, label: 'Last 12 months', short: '12 mo' },
];

export const defaultRange: Range = { kind: 'relative', minutes: 30 };

const unitMinutes: Record<string, number> = { m: 1, h: 60, d: day, w: 7 * day, mo: 30 * day, y: maxMinutes };

/** The code of a relative range: 90 is "90m", 180 "3h", 10080 "7d", 525600 "12mo". parseCode reads it back. */
export function formatCode(minutes: number): string {
  if (minutes === maxMinutes) return '12mo';
  if (minutes % day === 0 && minutes > day) return `${minutes / day}d`;
  if (minutes % 60 === 0) return `${minutes / 60}h`;
  return `${minutes}m`;
}

/** Minutes of a code such as "30m", "24h", "7d", "2w", "12mo"; undefined when it is none or longer than a year. */
export function parseCode(code: string): number | undefined {
  const m = /^(\d{1,6})(mo|[mhdwy])$/.exec(code);
  if (!m) return undefined;
  const n = Number(m[1]);
  const minutes = m[2] === 'mo' && n === 12 ? maxMinutes : n * (unitMinutes[m[2]!] ?? 0);
  return minutes >= 1 && minutes <= maxMinutes ? minutes : undefined;
}

const words: [RegExp, string][] = [
  [/^(minutes?|mins?|m)$/, 'm'],
  [/^(hours?|hrs?|h)$/, 'h'],
  [/^(days?|d)$/, 'd'],
  [/^(weeks?|w)$/, 'w'],
  [/^(months?|mo)$/, 'mo'],
  [/^(years?|y)$/, 'y'],
];

/**
 * Reads what a person types: "last 3 h", "-7d", "90 min", "today", "yesterday", "2026-09-01",
 * "2026-09-01 10:00 to 2026-09-01 12:30", "10:00 - 11:30" (today). now is in ms; utc tells how dates without a zone are
 * meant. Gives undefined for what it does not understand, and for a range that is empty or longer than a year.
 */
export function parseText(text: string, now: number, utc: boolean): Range | undefined {
  const t = text.trim().toLowerCase().replace(/\s+/g, ' ');
  const rel = /^(?:last|past|-)? ?(\d{1,6})? ?([a-z]+)$/.exec(t);
  if (rel && (rel[1] || /^(last|past)/.test(t))) {
    const unit = words.find(([re]) => re.test(rel[2]!))?.[1];
    const minutes = unit && parseCode(`${rel[1] ?? '1'}${unit}`);
    if (minutes) return { kind: 'relative', minutes };
  }
  const midnight = startOfDay(now, utc);
  if (t === 'today') return checked(midnight, now);
  if (t === 'yesterday') return checked(startOfDay(midnight - 1, utc), midnight);
  const parts = t.split(/ ?(?:\.\.+|–|—| to | until )\s*| - /).map((p) => p.trim());
  if (parts.length === 1) {
    const d = parseMoment(parts[0]!, now, utc);
    return d?.wholeDay ? checked(d.at, Math.min(nextDay(d.at, utc), Math.max(now, d.at + 60_000))) : undefined;
  }
  if (parts.length !== 2) return undefined;
  const from = parseMoment(parts[0]!, now, utc);
  const to = parts[1] === 'now' ? { at: now, wholeDay: false } : parseMoment(parts[1]!, from?.at ?? now, utc);
  if (!from || !to) return undefined;
  return checked(from.at, to.wholeDay ? nextDay(to.at, utc) : to.at);
}

function checked(from: number, to: number): Range | undefined {
  return to - from >= 60_000 && to - from <= maxMinutes * 60_000 + 86_400_000
    ? { kind: 'absolute', from, to }
    : undefined;
}

/** Midnight before t, in the zone of the machine or in UTC. */
export function startOfDay(t: number, utc: boolean): number {
  const d = new Date(t);
  return utc ? d.setUTCHours(0, 0, 0, 0) : d.setHours(0, 0, 0, 0);
}

function nextDay(t: number, utc: boolean): number {
  const d = new Date(t);
  if (utc) d.setUTCDate(d.getUTCDate() + 1);
  else d.setDate(d.getDate() + 1); // not + 24 h: days of 23 and 25 hours exist
  return d.getTime();
}

/** Reads "2026-09-01", "2026-09-01 10:00[:05]", "2026-09-01T10:00Z" or "10:00" (on the day of near). */
export function parseMoment(text: string, near: number, utc: boolean): { at: number; wholeDay: boolean } | undefined {
  const t = text.trim().toLowerCase();
  const m = /^(?:(\d{4})-(\d{1,2})-(\d{1,2}))?[t ]?(?:(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?)?(z)?$/.exec(t);
  if (!m || (!m[1] && !m[4])) return undefined;
  const asUtc = utc || m[7] === 'z';
  const base = new Date(near);
  const y = m[1] ? Number(m[1]) : asUtc ? base.getUTCFullYear() : base.getFullYear();
  const mo = m[2] ? Number(m[2]) - 1 : asUtc ? base.getUTCMonth() : base.getMonth();
  const d = m[3] ? Number(m[3]) : asUtc ? base.getUTCDate() : base.getDate();
  const h = Number(m[4] ?? 0);
  const mi = Number(m[5] ?? 0);
  const s = Number(m[6] ?? 0);
  if (mo > 11 || d > 31 || d < 1 || h > 24 || mi > 59 || s > 59) return undefined;
  const date = asUtc ? new Date(Date.UTC(y, mo, d, h, mi, s)) : new Date(y, mo, d, h, mi, s);
  // 2026-02-31 rolls over in Date: not a day.
  if (h < 24 && (asUtc ? date.getUTCDate() : date.getDate()) !== d) return undefined;
  return { at: date.getTime(), wholeDay: !m[4] };
}

/** First and last moment in ms; a relative range ends at now. */
export function bounds(r: Range, now: number): { from: number; to: number } {
  return r.kind === 'absolute' ? { from: r.from, to: r.to } : { from: now - r.minutes * 60_000, to: now };
}

/** The API's since and until: minutes back for a relative range, so that the server's clock decides; else RFC 3339. */
export function apiBounds(r: Range): { since: string; until: string } {
  if (r.kind === 'relative') return { since: `-${r.minutes}`, until: '0' };
  return { since: rfc3339(r.from), until: rfc3339(r.to) };
}

/** RFC 3339 in UTC with whole seconds. */
export function rfc3339(ms: number): string {
  return new Date(Math.floor(ms / 1000) * 1000).toISOString().replace('.000Z', 'Z');
}

/** The neighbour of the same length, before (-1) or after (1). A step past now gives the relative range again. */
export function step(r: Range, by: -1 | 1, now: number): Range {
  const { from, to } = bounds(r, now);
  const length = to - from;
  // A step back was rounded to the minute: the step forward must find now again.
  if (by === 1 && (r.kind === 'relative' || to + length >= now - 60_000)) {
    const minutes = Math.round(length / 60_000);
    return parseCode(formatCode(minutes)) ? { kind: 'relative', minutes } : r;
  }
  const minute = 60_000;
  const at = Math.round((from + by * length) / minute) * minute;
  return { kind: 'absolute', from: at, to: at + Math.round(length / minute) * minute };
}

/** Length in minutes, at least 1. */
export function lengthMinutes(r: Range): number {
  return r.kind === 'relative' ? r.minutes : Math.max(1, Math.round((r.to - r.from) / 60_000));
}

/** Short and long ranges: live is on by default up to an hour that ends now. */
export function liveByDefault(r: Range): boolean {
  return r.kind === 'relative' && r.minutes <= 60;
}

/** Milliseconds between two refreshes: 1 s when live, else 10-30 s while the range ends now; 0 for a fixed range. */
export function refreshEvery(r: Range, live: boolean): number {
  if (r.kind === 'absolute') return 0;
  if (live) return 1000;
  return r.minutes <= 360 ? 10_000 : 30_000;
}

/**
 * The previous period of the same length as the one answered, to the minute, and never longer than what has passed.
 * Undefined when it begins before what the API answers.
 */
export function previous(since: number, until: number, now: number): { from: number; to: number } | undefined {
  const minute = 60_000;
  const from = Math.floor(since / minute) * minute;
  const to = Math.floor(Math.min(until, now) / minute) * minute;
  const length = Math.max(minute, to - from);
  if (from - length < now - maxMinutes * minute) return undefined;
  return { from: from - length, to: from };
}
