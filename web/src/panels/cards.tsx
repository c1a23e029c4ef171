// The figures at the top: what the range holds, and how that differs from the period before.

import { serverNow } from '../api/client.ts';
import { type Delta, points, relative } from '../lib/delta.ts';
import { bytes, count, exact, exactBytes, millis, percent } from '../lib/format.ts';
import { lengthMinutes } from '../lib/range.ts';
import { dash, lat, prevDash, prevLat } from '../state/data.ts';
import { range } from '../state/page.ts';
import { Icon } from '../ui/icons.tsx';
import { cachedShare, comparable, errorRate } from './series.ts';

interface CardProps {
  id: string;
  label: string;
  /** What the label means, for those who ask. */
  hint: string;
  text: string;
  /** The exact figure, for the title and for tests. */
  exactText: string;
  value: number | null | undefined;
  delta?: Delta;
  spark: (number | null)[];
  color: string;
  state: 'pending' | 'stale' | 'fresh' | 'failed';
}

function Card(p: CardProps) {
  return (
    <li class={`card card-${p.state}`} title={`${p.hint}\n${p.exactText}`} data-testid={`card-${p.id}`}>
      <span class="card-label">{p.label}</span>
      {p.state === 'pending' ? (
        <span class="skeleton card-skeleton" />
      ) : (
        <>
          <span class="card-value" data-testid={`value-${p.id}`} data-value={p.value ?? ''}>
            {p.text}
          </span>
          <span class={`card-delta delta-${p.delta?.tone ?? 'none'}`} data-testid={`delta-${p.id}`}>
            {p.delta && (
              <>
                {p.delta.direction !== 'same' && <Icon name={p.delta.direction === 'up' ? 'up' : 'fall'} />}
                <span class="visually-hidden">{p.delta.direction === 'down' ? 'down' : 'up'} </span>
                {p.delta.text}
              </>
            )}
          </span>
          <Spark values={p.spark} color={p.color} />
        </>
      )}
    </li>
  );
}

/** A line without axes; points that are not known leave a gap. */
function Spark({ values, color }: { values: (number | null)[]; color: string }) {
  const known = values.filter((v): v is number => v !== null);
  if (known.length < 2) return null;
  const max = Math.max(...known, 0);
  const min = Math.min(...known, max);
  const lo = max > 0 && min / max > 0.6 ? min * 0.9 : 0; // a flat line far from 0 says nothing
  const y = (v: number) => 23 - (max > lo ? ((v - lo) / (max - lo)) * 21 : 0);
  let path = '';
  let pen = false;
  values.forEach((v, i) => {
    if (v === null) {
      pen = false;
      return;
    }
    path += `${pen ? 'L' : 'M'}${((i / (values.length - 1)) * 100).toFixed(2)} ${y(v).toFixed(2)}`;
    pen = true;
  });
  return (
    <svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">
      <path d={path} fill="none" stroke={`var(${color})`} vector-effect="non-scaling-stroke" />
    </svg>
  );
}

const stateOf = (r: typeof dash | typeof lat): CardProps['state'] =>
  r.pending.value ? (r.error.value ? 'failed' : 'pending') : r.stale.value ? 'stale' : 'fresh';

/** "the 30 min before". */
export function periodText(): string {
  const minutes = lengthMinutes(range.value);
  if (minutes % 1440 === 0) return minutes === 1440 ? 'the day before' : `the ${minutes / 1440} days before`;
  if (minutes % 60 === 0) return minutes === 60 ? 'the hour before' : `the ${minutes / 60} h before`;
  return `the ${minutes} min before`;
}

export function Cards() {
  const d = dash.data.value;
  const l = lat.data.value;
  const pd = prevDash.stale.value ? undefined : prevDash.data.value;
  const factor = d && pd ? comparable(d, pd, serverNow()) : undefined;
  const p = factor !== undefined ? pd?.totals : undefined;
  const pl = factor !== undefined && !prevLat.stale.value ? prevLat.data.value : undefined;
  const t = d?.totals;
  const series = d?.timeseries ?? [];
  const times = l?.timeseries ?? [];
  const scale = (n: number | undefined) => (n === undefined || factor === undefined ? undefined : n * factor);
  const traffic = stateOf(dash);
  const timing = stateOf(lat);
  const had = (x: typeof l) => (x && x.totals.count > 0 ? x.totals : undefined);
  const cards: CardProps[] = [
    {
      id: 'requests',
      label: 'Requests',
      hint: 'HTTP requests in the range',
      text: count(t?.requests.all),
      exactText: exact(t?.requests.all),
      value: t?.requests.all,
      delta: relative(t?.requests.all, scale(p?.requests.all), 'neither'),
      spark: series.map((s) => s.requests.all),
      color: '--s-2xx',
      state: traffic,
    },
    {
      id: 'bandwidth',
      label: 'Bandwidth',
      hint: 'Bytes sent to clients',
      text: bytes(t?.bandwidth.all),
      exactText: exactBytes(t?.bandwidth.all),
      value: t?.bandwidth.all,
      delta: relative(t?.bandwidth.all, scale(p?.bandwidth.all), 'neither'),
      spark: series.map((s) => s.bandwidth.all),
      color: '--s-cached',
      state: traffic,
    },
    {
      id: 'uniques',
      label: 'Unique visitors',
      hint: 'Different client addresses, estimated',
      text: count(t?.uniques.all),
      exactText: exact(t?.uniques.all),
      value: t?.uniques.all,
      // Uniques do not grow with the length of a range: no scaling.
      delta: factor && Math.abs(factor - 1) < 0.04 ? relative(t?.uniques.all, p?.uniques.all, 'neither') : undefined,
      spark: series.map((s) => s.uniques.all),
      color: '--s-uniques',
      state: traffic,
    },
    {
      id: 'cached',
      label: 'Cached',
      hint: 'Share of requests answered from the cache',
      text: percent(t && cachedShare(t)),
      exactText: t ? `${exact(t.requests.cached)} of ${exact(t.requests.all)}` : '',
      value: t && cachedShare(t),
      delta: points(t && cachedShare(t), p && cachedShare(p), 'up'),
      spark: series.map((s) => cachedShare(s) ?? null),
      color: '--s-cached',
      state: traffic,
    },
    {
      id: 'p50',
      label: 'Latency p50',
      hint: 'Half of the requests took at most this long',
      text: millis(had(l)?.p50_ms),
      exactText: l ? `${exact(l.totals.count)} requests with a duration` : '',
      value: had(l)?.p50_ms,
      delta: relative(had(l)?.p50_ms, had(pl)?.p50_ms, 'down'),
      spark: times.map((x) => (x.count > 0 ? (x.p50_ms ?? null) : null)),
      color: '--s-p50',
      state: timing,
    },
    {
      id: 'p99',
      label: 'Latency p99',
      hint: '99 of 100 requests took at most this long',
      text: millis(had(l)?.p99_ms),
      exactText: l ? `${exact(l.totals.count)} requests with a duration` : '',
      value: had(l)?.p99_ms,
      delta: relative(had(l)?.p99_ms, had(pl)?.p99_ms, 'down'),
      spark: times.map((x) => (x.count > 0 ? (x.p99_ms ?? null) : null)),
      color: '--s-p99',
      state: timing,
    },
    {
      id: 'errors',
      label: 'Server errors',
      hint: 'Share of requests answered with 5xx',
      text: percent(t && errorRate(t)),
      exactText: t ? `5xx of ${exact(t.requests.all)} requests` : '',
      value: t && errorRate(t),
      delta: points(t && errorRate(t), p && errorRate(p), 'down'),
      spark: series.map((s) => errorRate(s) ?? null),
      color: '--s-5xx',
      state: traffic,
    },
  ];
  return (
    <ul class="cards" aria-label={`Totals, with the change against ${periodText()}`} data-testid="cards">
      {cards.map((c) => (
        <Card key={c.id} {...c} />
      ))}
    </ul>
  );
}
