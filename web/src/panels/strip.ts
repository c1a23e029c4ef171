// The strip of an edge: its minutes as at most so many cells, each with how much was stored and what went wrong.

import type { EdgeDelivery } from '../api/types.ts';

/** none: nothing came; ok: all stored; late: stored late; bad: refused, dropped, missing or not stored. */
export type CellState = 'none' | 'ok' | 'late' | 'bad';

export interface Cell {
  from: number;
  to: number;
  stored: number;
  state: CellState;
}

const minuteMs = 60_000;
const worse: CellState[] = ['none', 'ok', 'late', 'bad'];

/** Cells over [from, to) in ms, whole minutes each. */
export function strip(e: Pick<EdgeDelivery, 'minutes' | 'gaps'>, from: number, to: number, most: number): Cell[] {
  const minutes = Math.max(1, Math.round((to - from) / minuteMs));
  const step = Math.ceil(minutes / most) * minuteMs;
  const cells: Cell[] = [];
  for (let t = from; t < to; t += step) cells.push({ from: t, to: Math.min(t + step, to), stored: 0, state: 'none' });
  const mark = (c: Cell | undefined, state: CellState) => {
    if (c && worse.indexOf(state) > worse.indexOf(c.state)) c.state = state;
  };
  for (const m of e.minutes) {
    const c = cells[Math.floor((Date.parse(m.minute) - from) / step)];
    if (!c) continue;
    c.stored += m.stored;
    if (m.stored > 0 || m.batches > 0) mark(c, 'ok');
    if (m.late > 0) mark(c, 'late');
    if (m.refused > 0 || m.dropped > 0 || m.pending > 0) mark(c, 'bad');
  }
  // Where in its block a missing batch was is not known: all of the block's minutes that have something are marked.
  for (const g of e.gaps) {
    for (const c of cells) {
      if (c.state !== 'none' && c.from <= Date.parse(g.until) && c.to > Date.parse(g.since)) mark(c, 'bad');
    }
  }
  return cells;
}
