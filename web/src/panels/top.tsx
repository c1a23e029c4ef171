// The most frequent values of a dimension.

import type { Top, TopRow } from '../api/types.ts';
import { share } from '../lib/delta.ts';
import { bytes, count, exact, exactBytes, percent } from '../lib/format.ts';
import { interval } from '../lib/time.ts';
import { topTable } from '../state/data.ts';
import { dimension, metric, setDimension, setMetric, utc } from '../state/page.ts';
import { type Dimension, dimensions } from '../state/url.ts';
import { Panel } from './panel.tsx';

const botNames: Record<string, string> = {
  '': 'Not a known bot',
  search_engine: 'Search engines',
  ai_crawler: 'AI crawlers',
  seo: 'SEO tools',
  monitor: 'Monitors',
  feed: 'Feed readers',
  tool: 'Tools and libraries',
  scanner: 'Scanners',
  other_bot: 'Other bots',
};

const emptyNames: Partial<Record<Dimension, string>> = {
  referer: 'Direct, no referer',
  user_agent: 'No user agent',
  host: 'No host',
  country: 'Unknown country',
};

let regions: Intl.DisplayNames | undefined;

/** A value of a dimension as people call it. */
export function valueName(dim: Dimension, value: string): string {
  if (dim === 'bot') return botNames[value] ?? value;
  if (dim === 'country') {
    if (value === '' || value === 'XX') return 'Unknown country';
    try {
      regions ??= new Intl.DisplayNames(['en'], { type: 'region' });
      return regions.of(value) ?? value;
    } catch {
      return value; // not a region code
    }
  }
  if (value === '') return emptyNames[dim] ?? 'Unknown';
  return value;
}

const monospaced = new Set<Dimension>(['path', 'client_ip', 'user_agent', 'referer', 'host']);

export function TopPanel() {
  const dim = dimension.value;
  const by = metric.value;
  return (
    <Panel
      id="top"
      title="Top"
      note={dimensions.find(([d]) => d === dim)?.[1].toLowerCase()}
      resource={topTable}
      height={380}
      class="wide"
      actions={
        <fieldset class="segmented">
          <legend class="visually-hidden">Order by</legend>
          {(['requests', 'bytes'] as const).map((m) => (
            <button
              key={m}
              type="button"
              aria-pressed={by === m}
              data-testid={`metric-${m}`}
              onClick={() => setMetric(m)}
            >
              {m === 'requests' ? 'Requests' : 'Bandwidth'}
            </button>
          ))}
        </fieldset>
      }
    >
      {(data: Top) => <TopBody data={data} />}
    </Panel>
  );
}

/** The row of dimensions above the table; stays usable while the table has an error. */
export function TopTabs() {
  const dim = dimension.value;
  const key = (e: KeyboardEvent) => {
    const at = dimensions.findIndex(([d]) => d === dim);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: dimensions.length - 1 }[e.key];
    if (next === undefined) return;
    e.preventDefault();
    e.stopPropagation();
    const d = dimensions[(next + dimensions.length) % dimensions.length]![0];
    setDimension(d);
    document.getElementById(`tab-${d}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Dimension" onKeyDown={key}>
      {dimensions.map(([d, label]) => (
        <button
          key={d}
          id={`tab-${d}`}
          type="button"
          role="tab"
          aria-selected={dim === d}
          tabIndex={dim === d ? 0 : -1}
          data-testid={`tab-${d}`}
          onClick={() => setDimension(d)}
        >
          {label}
        </button>
      ))}
    </div>
  );
}

function TopBody({ data }: { data: Top }) {
  const dim = data.dimension as Dimension;
  const by = metric.value;
  if (data.rows.length === 0) {
    return <div class="panel-empty">Nothing in this range.</div>;
  }
  const most = Math.max(...data.rows.map((r) => r[by]), 1);
  return (
    <div class="table-scroll">
      <table class="data top" data-testid="top-table">
        <caption class="visually-hidden">Top values by {by}</caption>
        <thead>
          <tr>
            <th scope="col">{dimensions.find(([d]) => d === dim)?.[1] ?? dim}</th>
            <th scope="col" class="num">
              Share
            </th>
            <th scope="col" class="num">
              Requests
            </th>
            <th scope="col" class="num">
              Bandwidth
            </th>
            <th scope="col" class="num">
              Errors
            </th>
          </tr>
        </thead>
        <tbody>
          {data.rows.map((r) => (
            <Row key={r.value} dim={dim} row={r} width={r[by] / most} part={share(r[by], data.total[by])} />
          ))}
        </tbody>
      </table>
      <TopNote data={data} />
    </div>
  );
}

/** Says where counts may be too small, and of which range they are when single requests of the one asked for are gone. */
function TopNote({ data }: { data: Top }) {
  const { error_bound: bound, widened } = data;
  const by = metric.value;
  if (!widened && bound[by] === 0) return null;
  return (
    <p class="footnote" data-testid="top-note" data-bound={bound[by]}>
      {widened && `Of ${interval(Date.parse(widened.since), Date.parse(widened.until), utc.value)}. `}
      {bound[by] > 0 &&
        `From the lists kept of past hours and days: ≥ is at least. A value in none of them has at most ${
          by === 'bytes' ? bytes(bound.bytes) : `${exact(bound.requests)} requests`
        }.`}
    </p>
  );
}

/** What a count that may be too small lies between. */
function between(n: number, more: number, text: (n: number) => string): string {
  return more > 0 ? `${text(n)} to ${text(n + more)}` : text(n);
}

/** A count that may be too small. */
function atLeast(n: number, more: number, text: (n: number) => string): string {
  return more > 0 ? `≥ ${text(n)}` : text(n);
}

function Row({ dim, row, width, part }: { dim: Dimension; row: TopRow; width: number; part?: number }) {
  const name = valueName(dim, row.value);
  const failed = share(row.errors, row.requests);
  const more = row.error_bound;
  return (
    <tr data-testid="top-row" data-key={row.value} data-requests={row.requests} data-bytes={row.bytes}>
      <th scope="row">
        <span class="bar" style={{ width: `${Math.max(0.4, width * 100)}%` }} />
        {dim === 'country' && <span class="code">{row.value || 'XX'}</span>}
        <span class={monospaced.has(dim) && row.value !== '' ? 'value mono' : 'value'} title={name}>
          {name}
        </span>
      </th>
      <td class="num muted">{percent(part)}</td>
      <td class="num" title={between(row.requests, more.requests, exact)}>
        {atLeast(row.requests, more.requests, count)}
      </td>
      <td class="num" title={between(row.bytes, more.bytes, exactBytes)}>
        {atLeast(row.bytes, more.bytes, bytes)}
      </td>
      <td
        class={failed && failed > 0.01 ? 'num bad' : 'num muted'}
        title={`${exact(row.errors)} answered with 4xx or 5xx`}
      >
        {row.errors > 0 ? percent(failed) : '0'}
      </td>
    </tr>
  );
}
