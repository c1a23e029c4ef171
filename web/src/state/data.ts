// What the page shows, fetched for the state that the address holds.

import { computed, type ReadonlySignal, signal } from '@preact/signals';
import * as api from '../api/client.ts';
import type { Dashboard, Latency, Zone } from '../api/types.ts';
import { bounds, formatCode, lengthMinutes, previous, refreshEvery } from '../lib/range.ts';
import { live as openLive } from './live.ts';
import { dimension, liveOn, metric, range, view, zoneId } from './page.ts';
import { type Resource, resource } from './resource.ts';

/** How many charts the pointer is over: live numbers stand still while somebody reads them. */
const hovers = signal(0);
export const paused = computed(() => hovers.value > 0);
export const hoverStart = () => {
  hovers.value++;
};
export const hoverEnd = () => {
  hovers.value = Math.max(0, hovers.peek() - 1);
};

const hovering = () => liveOn.value && paused.value;

/** The zones that have a name; requests without a usable host go to one called "unknown". */
export const named = (list: Zone[] | undefined) => (list ?? []).filter((z) => z.name !== 'unknown');

export const zones: Resource<Zone[]> = resource({
  key: () => 'zones',
  fetch: api.zones,
  // Quick while there is none yet, or none with traffic: the first request makes the first zone.
  every: () => (named(zones.data.value).length > 0 && !empty.value ? 30_000 : 2000),
});

/** The zone of the address, once the list is there; null when the list does not have it. */
export const zone = computed(() => {
  const list = zones.data.value;
  return list ? (list.find((z) => z.id === zoneId.value) ?? null) : undefined;
});

const rangeKey = computed(() => {
  const r = range.value;
  return r.kind === 'relative' ? formatCode(r.minutes) : `${r.from}-${r.to}`;
});

const zoneRange = () => (zoneId.value ? `${zoneId.value}/${rangeKey.value}` : null);

/** The zone had no request in the range. */
export const empty: ReadonlySignal<boolean> = computed(() => dash.data.value?.totals.requests.all === 0);

function every(): number {
  const normal = refreshEvery(range.value, liveOn.value);
  return normal > 0 && empty.value ? Math.min(normal, 2000) : normal;
}

/** The refresh of the page, but not quicker than this; 0 stays 0. */
const atLeast = (ms: number) => (every() > 0 ? Math.max(every(), ms) : 0);

export const dash: Resource<Dashboard> = resource({
  key: zoneRange,
  fetch: (signal) => api.dashboard(zoneId.value!, range.value, signal),
  every,
  paused: hovering,
});

export const lat = resource({
  key: zoneRange,
  fetch: (signal) => api.latency(zoneId.value!, range.value, signal),
  // Its answer has the whole heatmap: not every second for the longer ranges.
  every: () => (lengthMinutes(range.value) > 30 ? atLeast(2000) : every()),
  paused: hovering,
});

export const topRows = 12;

export const topTable = resource({
  key: () => zoneId.value && `${zoneId.value}/${rangeKey.value}/${dimension.value}/${metric.value}`,
  fetch: (signal) => api.top(zoneId.value!, range.value, dimension.value, metric.value, topRows, signal),
  // Reads the raw events: not every second.
  every: () => atLeast(3000),
  paused: hovering,
});

export const deliveryEveryMs = 5000;

export const delivery = resource({
  key: () => (view.value === 'delivery' ? rangeKey.value : null),
  fetch: (signal) => api.delivery(range.value, signal),
  every: () => (range.value.kind === 'relative' ? deliveryEveryMs : 0),
});

// The previous period follows from what was answered, to the minute, so it is fetched once a minute at most.
const before = computed(() => {
  const d = dash.data.value;
  if (!d || dash.stale.value) return null;
  const p = previous(Date.parse(d.query.since), Date.parse(d.query.until), api.serverNow());
  return p ? `${zoneId.value}/${p.from}/${p.to}` : null;
});
const beforeRange = () => {
  const [, from, to] = (before.value ?? '//').split('/');
  return { kind: 'absolute' as const, from: Number(from), to: Number(to) };
};

export const prevDash = resource({
  key: () => before.value,
  fetch: (signal) => api.dashboard(zoneId.value!, beforeRange(), signal),
});

export const prevLat = resource({
  key: () => before.value,
  fetch: (signal): Promise<Latency> => api.latency(zoneId.value!, beforeRange(), signal),
});

export const stream = openLive(
  () => (zone.value ? zoneId.value : null),
  () => liveOn.value,
  () => paused.value,
);

/** The span on the x axis of every chart, in ms: what was answered, or what was asked while nothing is there yet. */
export const shownSpan: ReadonlySignal<{ from: number; to: number }> = computed(() => {
  const d = dash.data.value;
  if (d) return { from: Date.parse(d.query.since), to: Date.parse(d.query.until) };
  return bounds(range.value, api.serverNow());
});
