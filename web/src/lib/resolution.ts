// The length of one point of a chart, and which points are not full yet.

const steps: [upTo: number, minutes: number][] = [
  [180, 1],
  [24 * 60, 15],
  [48 * 60, 30],
  [10 * 1440, 60],
];

/**
 * Minutes per point that the page asks for, by the length of the range in minutes: as fine as the API has (1, 15, 30, 60
 * minutes, 1 day), with at most some 240 points, so that a bar stays wider than a pixel.
 */
export function resolutionMinutes(rangeMinutes: number): number {
  return steps.find(([upTo]) => rangeMinutes <= upTo)?.[1] ?? 1440;
}

/** "1 min", "15 min", "1 h", "day (UTC)": days of the API are those of UTC. */
export function stepText(minutes: number): string {
  if (minutes >= 1440 && minutes % 1440 === 0) return minutes === 1440 ? 'day (UTC)' : `${minutes / 1440} days`;
  if (minutes >= 60 && minutes % 60 === 0) return `${minutes / 60}\u202fh`;
  return `${minutes}\u202fmin`;
}

/** Seconds that events need from the web server to the store before a full point counts as settled. */
export const settleSeconds = 10;

/**
 * Index of the first point that is still filling, or points.length. since and until in ms; a point is filling while
 * its full length (stepMinutes) has not passed, plus settling time.
 */
export function firstPartial(points: { since: number; until: number }[], stepMinutes: number, now: number): number {
  for (let i = points.length - 1; i >= 0; i--) {
    const end = Math.max(points[i]!.until, points[i]!.since + stepMinutes * 60_000);
    if (end + settleSeconds * 1000 <= now) return i + 1;
  }
  return 0;
}
