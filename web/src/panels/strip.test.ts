import { describe, expect, it } from 'vitest';
import type { DeliveryCounts, DeliveryMinute } from '../api/types.ts';
import { strip } from './strip.ts';

const zero: DeliveryCounts = {
  accepted: 0,
  stored: 0,
  pending: 0,
  batches: 0,
  bytes: 0,
  duplicates: 0,
  dropped: 0,
  refused: 0,
  late: 0,
  oldest_ms: 0,
  missing: 0,
};
const start = Date.parse('2026-03-01T12:00:00Z');
const at = (minute: number) => new Date(start + minute * 60_000).toISOString();
const minute = (n: number, c: Partial<DeliveryCounts>): DeliveryMinute => ({ ...zero, minute: at(n), ...c });

describe('strip', () => {
  it('has a cell for each minute when they fit', () => {
    const cells = strip({ minutes: [minute(1, { stored: 5 })], gaps: [] }, start, start + 3 * 60_000, 90);
    expect(cells.map((c) => [c.stored, c.state])).toEqual([
      [0, 'none'],
      [5, 'ok'],
      [0, 'none'],
    ]);
  });

  it('joins minutes, and the worst of them counts', () => {
    const minutes = [minute(0, { stored: 1 }), minute(1, { stored: 2, refused: 1 }), minute(3, { stored: 4, late: 4 })];
    const cells = strip({ minutes, gaps: [] }, start, start + 5 * 60_000, 3);
    expect(cells.map((c) => [c.stored, c.state, (c.to - c.from) / 60_000])).toEqual([
      [3, 'bad', 2],
      [4, 'late', 2],
      [0, 'none', 1],
    ]);
  });

  it.each(['refused', 'dropped', 'pending'] as const)('shows that something was %s', (field) => {
    const [cell] = strip({ minutes: [minute(0, { [field]: 1 })], gaps: [] }, start, start + 60_000, 90);
    expect(cell?.state).toBe('bad');
  });

  it('marks the minutes around a gap', () => {
    const minutes = [0, 1, 3].map((n) => minute(n, { stored: 1 }));
    const gaps = [{ epoch: '1', from: 1, to: 9, missing: 2, since: at(1), until: at(2) }];
    expect(strip({ minutes, gaps }, start, start + 4 * 60_000, 90).map((c) => c.state)).toEqual([
      'ok',
      'bad',
      'none',
      'ok',
    ]);
  });

  it('leaves out what lies outside', () => {
    const cells = strip(
      { minutes: [minute(-1, { stored: 1 }), minute(9, { stored: 1 })], gaps: [] },
      start,
      start + 60_000,
      9,
    );
    expect(cells.map((c) => c.state)).toEqual(['none']);
  });
});
