import { describe, expect, it } from 'vitest';
import { defaults, formatUrl, isLive, type PageState, parseUrl } from './url.ts';

const parse = (url: string) => {
  const u = new URL(url, 'http://x');
  return parseUrl(u.pathname, u.search);
};

describe('url', () => {
  it('reads back every state it writes', () => {
    const states: PageState[] = [
      defaults,
      { ...defaults, zone: '0123456789abcdef0123456789abcdef' },
      { ...defaults, view: 'delivery', utc: true },
      { ...defaults, range: { kind: 'relative', minutes: 525600 }, utc: true, live: true },
      { ...defaults, range: { kind: 'absolute', from: Date.UTC(2026, 8, 1), to: Date.UTC(2026, 8, 2, 3, 4, 5) } },
      { ...defaults, live: false, dimension: 'user_agent', metric: 'bytes' },
      { ...defaults, hidden: ['requests.s4xx', 'bandwidth.cached'], tables: ['latency'] },
    ];
    for (const s of states) expect(parse(formatUrl(s))).toEqual(s);
  });
  it('leaves defaults out', () => expect(formatUrl(defaults)).toBe('/?range=30m'));
  it('takes defaults for what is wrong', () => {
    for (const q of [
      'range=soon',
      'from=x&to=y',
      'from=2026-09-02T00:00:00Z&to=2026-09-01T00:00:00Z',
      'by=nothing',
      'live=maybe',
      'hide=<b>',
    ]) {
      expect(parse(`/?${q}`)).toEqual(defaults);
    }
  });
  it('survives a broken escape', () => expect(parse('/zones/%E0%A4%A').zone).toBe('%E0%A4%A'));
  it('knows no zone on other paths', () => expect(parse('/elsewhere/abc').zone).toBeNull());
});

describe('live', () => {
  it('is on by default for short ranges that end now', () => {
    expect(isLive({ range: { kind: 'relative', minutes: 60 }, live: null })).toBe(true);
    expect(isLive({ range: { kind: 'relative', minutes: 180 }, live: null })).toBe(false);
    expect(isLive({ range: { kind: 'relative', minutes: 180 }, live: true })).toBe(true);
    expect(isLive({ range: { kind: 'absolute', from: 0, to: 60_000 }, live: true })).toBe(false);
  });
});
