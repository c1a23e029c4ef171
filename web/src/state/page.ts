// The page's state in the browser: one signal that mirrors the address bar.

import { computed, signal } from '@preact/signals';
import type { Range } from '../lib/range.ts';
import { type Dimension, formatUrl, isLive, type Metric, type PageState, parseUrl } from './url.ts';

const page = signal<PageState>(parseUrl(location.pathname, location.search));

export const view = computed(() => page.value.view);
export const zoneId = computed(() => page.value.zone);
export const range = computed(() => page.value.range);
export const utc = computed(() => page.value.utc);
export const dimension = computed(() => page.value.dimension);
export const metric = computed(() => page.value.metric);
export const liveOn = computed(() => isLive(page.value));
export const hidden = computed(() => new Set(page.value.hidden));
export const tables = computed(() => new Set(page.value.tables));

/** Changes the state and the address; 'push' makes an entry that the back button undoes. */
function update(change: Partial<PageState>, how: 'push' | 'replace') {
  const next = { ...page.value, ...change };
  const url = formatUrl(next);
  if (url !== location.pathname + location.search) {
    if (how === 'push') history.pushState(null, '', url);
    else history.replaceState(null, '', url);
  }
  page.value = next;
}

addEventListener('popstate', () => {
  page.value = parseUrl(location.pathname, location.search);
});

const lastZoneKey = 'spate.zone';

/** The zone that was open last in this browser. */
export function lastZone(): string | null {
  try {
    return localStorage.getItem(lastZoneKey);
  } catch {
    return null;
  }
}

export function setZone(id: string, how: 'push' | 'replace' = 'push') {
  try {
    localStorage.setItem(lastZoneKey, id);
  } catch {
    // storage may be forbidden: the first zone opens next time
  }
  update({ view: 'traffic', zone: id }, how);
}

export const showDelivery = () => update({ view: 'delivery', zone: null, live: null }, 'push');
export const setRange = (r: Range) => update({ range: r, live: null }, 'push');
export const setUtc = (on: boolean) => update({ utc: on }, 'replace');
export const setLive = (on: boolean) => update({ live: on }, 'replace');
export const setDimension = (d: Dimension) => update({ dimension: d }, 'replace');
export const setMetric = (m: Metric) => update({ metric: m }, 'replace');

const toggled = (names: string[], name: string) =>
  names.includes(name) ? names.filter((x) => x !== name) : [...names, name];

export const toggleTable = (panel: string) => update({ tables: toggled(page.value.tables, panel) }, 'replace');
export const toggleSeries = (name: string) => update({ hidden: toggled(page.value.hidden, name) }, 'replace');

/** Shows only one series of a panel; all of them when it is the only one already. names are "panel.series". */
export function isolateSeries(name: string, all: string[]) {
  const others = all.filter((x) => x !== name);
  const rest = page.value.hidden.filter((x) => !all.includes(x));
  const isolated = others.every((x) => page.value.hidden.includes(x)) && !page.value.hidden.includes(name);
  update({ hidden: isolated ? rest : [...rest, ...others] }, 'replace');
}
