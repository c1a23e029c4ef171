// A value fetched by key, with stale-while-revalidate: the last value stays visible (marked stale when it belongs to
// another key) until the next one is there. Requests of one resource never overlap; a hidden page does not poll.

import { computed, effect, type ReadonlySignal, type Signal, signal, untracked } from '@preact/signals';
import { ApiError } from '../api/client.ts';

export interface Resource<T> {
  /** The last value, of whatever key. */
  data: ReadonlySignal<T | undefined>;
  /** The value shown belongs to another key than the one wanted: draw it dimmed. */
  stale: ReadonlySignal<boolean>;
  /** Nothing to show yet: draw a skeleton. */
  pending: ReadonlySignal<boolean>;
  /** Why the last attempt for this key did not succeed. */
  error: ReadonlySignal<ApiError | undefined>;
  retry: () => void;
  /** Stops fetching. */
  dispose: () => void;
}

export interface ResourceOptions<T> {
  /** What to fetch; null: nothing. A new key aborts the running request. */
  key: () => string | null;
  fetch: (signal: AbortSignal) => Promise<T>;
  /** Milliseconds between two fetches of the same key; 0: fetch once. */
  every?: () => number;
  /** While true no new fetch is started. */
  paused?: () => boolean;
  /** How many values of earlier keys are kept for going back. */
  keep?: number;
}

const errorPauseMs = 5000;

/** Creates a resource; it works until dispose is called. */
export function resource<T>(o: ResourceOptions<T>): Resource<T> {
  const cache = new Map<string, T>();
  const shown: Signal<{ key: string; value: T } | undefined> = signal(undefined);
  const error: Signal<{ key: string; err: ApiError } | undefined> = signal(undefined);
  const attempt = signal(0);
  const key = computed(o.key);
  const every = computed(() => o.every?.() ?? 0);
  const paused = computed(() => o.paused?.() ?? false);
  const hidden = pageHidden();

  const remember = (k: string, value: T) => {
    cache.delete(k);
    cache.set(k, value);
    if (cache.size > (o.keep ?? 12)) cache.delete(cache.keys().next().value as string);
    shown.value = { key: k, value };
  };

  const dispose = effect(() => {
    const k = key.value;
    attempt.value;
    if (k === null) {
      shown.value = undefined;
      error.value = undefined;
      return;
    }
    const cached = cache.get(k);
    if (cached !== undefined && shown.peek()?.key !== k) shown.value = { key: k, value: cached };
    const control = new AbortController();
    let stopped = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let unwatch: (() => void) | undefined;

    const run = async () => {
      const started = Date.now();
      let failed = false;
      try {
        const value = await o.fetch(control.signal);
        if (stopped) return;
        remember(k, value);
        error.value = undefined;
      } catch (err) {
        if (stopped) return;
        failed = true;
        error.value = { key: k, err: err instanceof ApiError ? err : new ApiError(0, 0, String(err)) };
      }
      schedule(started, failed);
    };
    // Waits until the time has come and the page is visible and not paused.
    const schedule = (started: number, failed: boolean) => {
      unwatch = effect(() => {
        clearTimeout(timer);
        const wait = every.value;
        if (wait === 0 || hidden.value || paused.value) return;
        const due = started + (failed ? Math.max(wait, errorPauseMs) : wait) - Date.now();
        timer = setTimeout(
          () => {
            unwatch?.();
            void run();
          },
          Math.max(0, due),
        );
      });
    };
    untracked(() => void run());
    return () => {
      stopped = true;
      control.abort();
      clearTimeout(timer);
      unwatch?.();
    };
  });

  return {
    data: computed(() => shown.value?.value),
    stale: computed(() => shown.value !== undefined && shown.value.key !== key.value),
    pending: computed(() => shown.value === undefined),
    error: computed(() => (error.value?.key === key.value ? error.value?.err : undefined)),
    retry: () => {
      error.value = undefined;
      attempt.value++;
    },
    dispose,
  };
}

let hiddenSignal: Signal<boolean> | undefined;

/** Whether the page is in the background. */
export function pageHidden(): ReadonlySignal<boolean> {
  if (!hiddenSignal) {
    const s = signal(typeof document !== 'undefined' && document.hidden);
    hiddenSignal = s;
    if (typeof document !== 'undefined') {
      document.addEventListener('visibilitychange', () => {
        s.value = document.hidden;
      });
    }
  }
  return hiddenSignal;
}
