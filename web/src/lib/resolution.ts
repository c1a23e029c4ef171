// The length of one point of a chart, and which points are not full yet.

/**
 * Minutes per point that the API uses for a range of so many minutes, when it is not asked for another: the steps of
 * the zone analytics API. The page draws what the answer says; this is for skeletons and for the text of a step.
 */
export function resolutionMinutes(rangeMinutes: number): number {
  if (rangeMinutes <= 60) return 1;
  if (rangeMinutes <= 420) return 15;
  if (rangeMinutes <= 900) return 30;
  if (rangeMinutes <= 4320) return 60;
  return 1440;
}

/** "1 min", "15 min", "1 h", "1 day". */
export function stepText(minutes: number): string {
  if (minutes >= 1440 && minutes % 1440 === 0) return minutes === 1440 ? '1 day' : `${minutes / 1440} days`;
  if (minutes >= 60 && minutes % 60 === 0) return `${minutes / 60}\u202fh`;
  return `${minutes}\u202fmin`;
}

/** Seconds that events need from the web server to the store before a full point counts as settled. */
export const settleSeconds = 5;

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
