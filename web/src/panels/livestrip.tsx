// The last two minutes, second by second, and how far behind they are.

import { useEffect, useRef } from 'preact/hooks';
import type { LivePoint } from '../api/types.ts';
import { bytes, count, millis, rate, span } from '../lib/format.ts';
import { hoverEnd, hoverStart, paused, stream } from '../state/data.ts';
import { liveSeconds } from '../state/live.ts';
import { liveOn } from '../state/page.ts';
import { color, dark } from '../state/theme.ts';

const colors = ['--s-2xx', '--s-3xx', '--s-4xx', '--s-5xx'];
const averageOver = 10; // s

/** Draws a column per second, stacked by status class; the newest second is on the right. */
function draw(canvas: HTMLCanvasElement, points: LivePoint[]) {
  const ratio = devicePixelRatio;
  const w = Math.round(canvas.clientWidth * ratio);
  const h = Math.round(canvas.clientHeight * ratio);
  if (canvas.width !== w) canvas.width = w;
  if (canvas.height !== h) canvas.height = h;
  const ctx = canvas.getContext('2d');
  if (!ctx || w === 0) return;
  ctx.clearRect(0, 0, w, h);
  const fills = colors.map(color);
  const max = Math.max(1, ...points.map((p) => p.requests));
  const each = w / liveSeconds;
  const gap = Math.min(2 * ratio, each * 0.25);
  ctx.fillStyle = color('--grid');
  ctx.fillRect(0, h - ratio, w, ratio);
  points.forEach((p, i) => {
    const known = [p.s2xx, p.s3xx, p.s4xx, p.s5xx];
    let y = h;
    known.forEach((n, k) => {
      if (!n) return;
      const tall = (n / max) * (h - ratio);
      ctx.fillStyle = fills[k]!;
      ctx.fillRect(Math.round(i * each), y - tall, Math.max(1, Math.round(each - gap)), tall);
      y -= tall;
    });
  });
}

const mean = (points: LivePoint[], value: (p: LivePoint) => number) =>
  points.length ? points.reduce((a, p) => a + value(p), 0) / points.length : 0;

/** The newest seconds that have arrived: those within the lag are not there yet, and the next one is still filling. */
export function settled(points: LivePoint[], lagSeconds: number): LivePoint[] {
  const end = points.length - 1 - Math.min(30, Math.ceil(Math.max(0, lagSeconds)));
  return points.slice(Math.max(0, end - averageOver), Math.max(0, end));
}

/** Median of what is known; percentiles of seconds cannot be averaged, the middle one stands for them. */
function middle(points: LivePoint[], value: (p: LivePoint) => number | null | undefined): number | undefined {
  const known = points.map(value).filter((v): v is number => v != null);
  known.sort((a, b) => a - b);
  return known[Math.floor(known.length / 2)];
}

export function LiveStrip() {
  const canvas = useRef<HTMLCanvasElement>(null);
  const points = stream.points.value;
  const isDark = dark.value;
  useEffect(() => {
    const el = canvas.current;
    if (!el) return;
    draw(el, points);
    const watch = new ResizeObserver(() => draw(el, points));
    watch.observe(el);
    return () => watch.disconnect();
  }, [points, isDark]);
  if (!liveOn.value) return null;
  const peak = Math.max(0, ...points.map((p) => p.requests));
  const recent = settled(points, stream.lag.value ?? 0);
  return (
    <section
      class="panel strip"
      aria-label="Live, the last two minutes"
      data-testid="live-strip"
      onPointerEnter={hoverStart}
      onPointerLeave={hoverEnd}
    >
      <dl class="strip-figures">
        <div>
          <dt>Now</dt>
          <dd data-testid="live-rate">{rate(mean(recent, (p) => p.requests))}</dd>
        </div>
        <div>
          <dt>Sent</dt>
          <dd>{bytes(mean(recent, (p) => p.bytes))}/s</dd>
        </div>
        <div>
          <dt>p50 · p99</dt>
          <dd>
            {millis(middle(recent, (p) => p.p50_ms))} · {millis(middle(recent, (p) => p.p99_ms))}
          </dd>
        </div>
      </dl>
      <div class="strip-chart">
        <canvas ref={canvas} role="img" aria-label={`Requests per second, the last two minutes; most ${count(peak)}`} />
        <span class="strip-scale">2 min ago</span>
        {peak > 0 && <span class="strip-scale strip-peak">peak {rate(peak)}</span>}
        <span class="strip-scale strip-now">now</span>
      </div>
    </section>
  );
}

/** What the live switch says: how far the numbers are behind, or why they stand still. */
export function liveText(): { text: string; tone: 'ok' | 'wait' | 'bad' } {
  const state = stream.state.value;
  if (paused.value) return { text: 'paused', tone: 'wait' };
  if (state === 'connecting') return { text: 'connecting', tone: 'wait' };
  if (state === 'lost') {
    const s = stream.silence.value;
    return { text: s > 0 ? `no news for ${span(s)}` : 'reconnecting', tone: 'bad' };
  }
  const lag = stream.lag.value;
  if (lag === undefined) return { text: '', tone: 'wait' };
  const behind = Math.max(0, lag) + stream.silence.value;
  return { text: `${span(Math.max(1, Math.ceil(behind)))} behind`, tone: behind > 10 ? 'wait' : 'ok' };
}
