// Change against the previous period of the same length.

import { percent } from './format.ts';

/** How a change is to be shown: the text, its direction, and whether it is good, bad or neither. */
export interface Delta {
  text: string;
  direction: 'up' | 'down' | 'same';
  tone: 'good' | 'bad' | 'neutral';
}

/** Which direction is the better one. */
export type Better = 'up' | 'down' | 'neither';

function toned(direction: Delta['direction'], better: Better): Delta['tone'] {
  if (direction === 'same' || better === 'neither') return 'neutral';
  return direction === better ? 'good' : 'bad';
}

function direction(diff: number): Delta['direction'] {
  return diff > 0 ? 'up' : diff < 0 ? 'down' : 'same';
}

/** Relative change of a quantity. From 0 there is no percentage: "new". Unknown on either side: undefined. */
export function relative(
  now: number | null | undefined,
  before: number | null | undefined,
  better: Better,
): Delta | undefined {
  if (now == null || before == null || !Number.isFinite(now) || !Number.isFinite(before)) return undefined;
  if (before === 0) {
    return now === 0 ? undefined : { text: 'new', direction: 'up', tone: toned('up', better) };
  }
  const ratio = now / before - 1;
  const size = Math.abs(ratio);
  if (size < 0.0005) return { text: '0\u202f%', direction: 'same', tone: 'neutral' };
  const dir = direction(ratio);
  const text = ratio >= 9 ? `×${(now / before).toFixed(now / before < 100 ? 1 : 0)}` : percent(size);
  return { text, direction: dir, tone: toned(dir, better) };
}

/** Difference of two shares (0..1) in percentage points. */
export function points(
  now: number | null | undefined,
  before: number | null | undefined,
  better: Better,
): Delta | undefined {
  if (now == null || before == null || !Number.isFinite(now) || !Number.isFinite(before)) return undefined;
  const diff = (now - before) * 100;
  if (Math.abs(diff) < 0.005) return { text: '0\u202fpp', direction: 'same', tone: 'neutral' };
  const size = Math.abs(diff);
  const dir = direction(diff);
  return { text: `${size.toFixed(size < 1 ? 2 : 1)}\u202fpp`, direction: dir, tone: toned(dir, better) };
}

/** a / b, or undefined when b is 0: no requests have no error rate. */
export function share(a: number, b: number): number | undefined {
  return b > 0 ? a / b : undefined;
}
