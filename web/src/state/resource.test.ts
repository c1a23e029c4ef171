import { signal } from '@preact/signals';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ApiError } from '../api/client.ts';
import { type Resource, resource } from './resource.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

const settle = () => vi.advanceTimersByTimeAsync(0);

/** A resource whose answers the test gives by hand. */
function setup(every = 0) {
  const key = signal<string | null>('a');
  const paused = signal(false);
  const calls: { key: string; signal: AbortSignal; done: (v: string) => void; fail: (e: unknown) => void }[] = [];
  const r: Resource<string> = resource({
    key: () => key.value,
    fetch: (s) =>
      new Promise((done, fail) => {
        calls.push({ key: key.peek()!, signal: s, done, fail });
      }),
    every: () => every,
    paused: () => paused.value,
  });
  return { key, paused, calls, r };
}

describe('resource', () => {
  it('is pending, then has its value', async () => {
    const { calls, r } = setup();
    expect(r.pending.value).toBe(true);
    calls[0]!.done('1');
    await settle();
    expect([r.data.value, r.pending.value, r.stale.value]).toEqual(['1', false, false]);
  });

  it('keeps the old value, stale, until the new key has its own, and aborts the old request', async () => {
    const { key, calls, r } = setup();
    calls[0]!.done('a1');
    await settle();
    key.value = 'b';
    expect([r.data.value, r.stale.value]).toEqual(['a1', true]);
    key.value = 'c';
    expect(calls[1]!.signal.aborted).toBe(true);
    calls[1]!.done('too late');
    await settle();
    expect(r.data.value).toBe('a1');
    calls[2]!.done('c1');
    await settle();
    expect([r.data.value, r.stale.value]).toEqual(['c1', false]);
  });

  it('shows a kept value at once when going back, and fetches it anew', async () => {
    const { key, calls, r } = setup();
    calls[0]!.done('a1');
    await settle();
    key.value = 'b';
    calls[1]!.done('b1');
    await settle();
    key.value = 'a';
    expect([r.data.value, r.stale.value, calls.length]).toEqual(['a1', false, 3]);
  });

  it('fetches again after its time, never two at once', async () => {
    const { calls, r } = setup(1000);
    calls[0]!.done('1');
    await settle();
    await vi.advanceTimersByTimeAsync(999);
    expect(calls).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(calls).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(5000);
    expect(calls).toHaveLength(2);
    calls[1]!.done('2');
    await vi.advanceTimersByTimeAsync(1);
    expect(calls).toHaveLength(3);
    expect(r.data.value).toBe('2');
    r.dispose();
  });

  it('starts nothing while paused, and at once afterwards', async () => {
    const { calls, paused, r } = setup(1000);
    calls[0]!.done('1');
    await settle();
    paused.value = true;
    await vi.advanceTimersByTimeAsync(10_000);
    expect(calls).toHaveLength(1);
    paused.value = false;
    await vi.advanceTimersByTimeAsync(1);
    expect(calls).toHaveLength(2);
    r.dispose();
  });

  it('keeps the value when a refresh fails, waits longer, and recovers', async () => {
    const { calls, r } = setup(1000);
    calls[0]!.done('1');
    await vi.advanceTimersByTimeAsync(1000);
    calls[1]!.fail(new ApiError(500, 1, 'broken'));
    await settle();
    expect([r.data.value, r.error.value?.message]).toEqual(['1', 'broken']);
    await vi.advanceTimersByTimeAsync(4000);
    expect(calls).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(1000);
    calls[2]!.done('3');
    await settle();
    expect([r.data.value, r.error.value]).toEqual(['3', undefined]);
    r.dispose();
  });

  it('tries again when asked', async () => {
    const { calls, r } = setup();
    calls[0]!.fail(new ApiError(500, 1, 'broken'));
    await settle();
    expect(r.error.value?.message).toBe('broken');
    r.retry();
    expect(r.error.value).toBeUndefined();
    expect(calls).toHaveLength(2);
  });

  it('shows nothing without a key', async () => {
    const { key, calls, r } = setup();
    calls[0]!.done('1');
    await settle();
    key.value = null;
    expect(r.data.value).toBeUndefined();
  });
});
