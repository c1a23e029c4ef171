// The live stream: the last two minutes, second by second.

import { computed, effect, type ReadonlySignal, signal } from '@preact/signals';
import { liveUrl } from '../api/client.ts';
import type { LivePoint, Tick } from '../api/types.ts';
import { pageHidden } from './resource.ts';

export const liveSeconds = 120;

// Counts up to open the stream anew after an answer that the browser takes as final.
const retry = signal(0);

export type LiveState = 'off' | 'connecting' | 'open' | 'lost';

export interface Live {
  state: ReadonlySignal<LiveState>;
  /** One point a second, oldest first, without holes; the last one is the second of the last tick. */
  points: ReadonlySignal<LivePoint[]>;
  /** How far the newest stored event is behind, by the server; undefined before the first tick. */
  lag: ReadonlySignal<number | undefined>;
  /** Seconds since the last tick came, by the page's clock: what the page itself is behind. */
  silence: ReadonlySignal<number>;
  dispose: () => void;
}

/** Joins a tick into the points held by second and drops those older than the window. Exported for tests. */
export function merge(held: Map<number, LivePoint>, tick: Tick): number {
  const now = Math.floor(typeof tick.now === 'number' ? tick.now : Date.parse(tick.now) / 1000);
  for (const p of tick.points ?? []) held.set(p.t, p);
  for (const t of held.keys()) if (t <= now - liveSeconds || t > now + 1) held.delete(t);
  return now;
}

/** The window that ends at now, with empty seconds filled in. Exported for tests. */
export function window(held: Map<number, LivePoint>, now: number): LivePoint[] {
  const out: LivePoint[] = [];
  for (let t = now - liveSeconds + 1; t <= now; t++) {
    out.push(held.get(t) ?? { t, requests: 0, bytes: 0, s2xx: 0, s3xx: 0, s4xx: 0, s5xx: 0 });
  }
  return out;
}

/** Opens the stream of a zone while on() is true and the page is visible. While paused() the points stand still. */
export function live(zone: () => string | null, on: () => boolean, paused: () => boolean): Live {
  const state = signal<LiveState>('off');
  const points = signal<LivePoint[]>([]);
  const lag = signal<number | undefined>(undefined);
  const silence = signal(0);
  const hidden = pageHidden();
  const pausedNow = computed(paused);
  const wanted = computed(() => (on() && !hidden.value ? zone() : null));

  const stop = effect(() => {
    const z = wanted.value;
    state.value = z ? 'connecting' : 'off';
    lag.value = undefined;
    silence.value = 0;
    points.value = [];
    if (!z) return;
    const held = new Map<number, LivePoint>();
    let last = Date.now();
    let newest = 0;
    const source = new EventSource(liveUrl(z));
    source.addEventListener('tick', (e) => {
      let tick: Tick;
      try {
        tick = JSON.parse((e as MessageEvent<string>).data) as Tick;
      } catch {
        return; // one broken line: the next tick is a second away
      }
      newest = merge(held, tick);
      last = Date.now();
      state.value = 'open';
      lag.value = tick.lag_seconds;
      silence.value = 0;
      if (!pausedNow.peek()) points.value = window(held, newest);
    });
    let again: ReturnType<typeof setTimeout> | undefined;
    source.onerror = () => {
      state.value = 'lost';
      // The browser reconnects by itself unless the answer was final.
      if (source.readyState === EventSource.CLOSED) {
        clearTimeout(again);
        again = setTimeout(() => retry.value++, 3000);
      }
    };
    const clock = setInterval(() => {
      silence.value = Math.floor((Date.now() - last) / 1000);
      if (silence.value > 4 && state.peek() === 'open') state.value = 'lost';
    }, 1000);
    const resume = effect(() => {
      if (!pausedNow.value && newest > 0) points.value = window(held, newest);
    });
    retry.value;
    return () => {
      source.close();
      clearInterval(clock);
      clearTimeout(again);
      resume();
    };
  });

  return { state, points, lag, silence, dispose: stop };
}
