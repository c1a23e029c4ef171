// The page that shows whether everything that edges took in is stored, each once.

import type { Delivery, EdgeDelivery } from '../api/types.ts';
import { bytes, exact, millis, span } from '../lib/format.ts';
import { clock, dateTime, zoneName } from '../lib/time.ts';
import { delivery } from '../state/data.ts';
import { utc } from '../state/page.ts';
import { Icon } from '../ui/icons.tsx';
import { NoticeList } from './notices.tsx';
import { Panel } from './panel.tsx';
import { strip } from './strip.ts';

const cells = 90;

export function DeliveryPage() {
  const d = delivery.data.value;
  return (
    <main id="main" class="page" data-testid="delivery" data-ready={d !== undefined && !delivery.stale.value}>
      {d && <Verdict d={d} />}
      <Panel id="delivery" title="Edges" note="by what became of their events" resource={delivery} height={300}>
        {(data: Delivery) => <Edges d={data} />}
      </Panel>
      <Panel id="notices" title="Needs attention" note="what edges had to tell" resource={delivery} height={60}>
        {(data: Delivery) => <NoticeList d={data} />}
      </Panel>
      {d && (
        <footer class="footnote">
          <span>
            {dateTime(Date.parse(d.query.since), utc.value)} – {dateTime(Date.parse(d.query.until), utc.value)} (
            {zoneName(utc.value)}), whole minutes
          </span>
          <span>Judged up to {clock(Date.parse(d.settled), utc.value, true)}</span>
          <span>
            {d.backlog.known
              ? `On the bus: ${exact(d.backlog.messages)} batches${d.backlog.messages ? `, the oldest for ${span(d.backlog.seconds)}` : ''}`
              : 'On the bus: not known'}
          </span>
        </footer>
      )}
    </main>
  );
}

function Verdict({ d }: { d: Delivery }) {
  return (
    <section
      class={`panel verdict verdict-${d.complete ? 'good' : 'bad'}`}
      role="status"
      data-testid="verdict"
      data-complete={d.complete}
    >
      <Icon name={d.complete ? 'check' : 'warn'} />
      <div>
        <h1>{d.complete ? 'Complete' : 'Not complete'}</h1>
        <p class="muted">
          {exact(d.totals.stored)} events stored, {bytes(d.totals.bytes)} in {exact(d.totals.batches)} batches;{' '}
          {exact(d.totals.duplicates)} batches came twice and count once.
        </p>
        {d.reasons.length > 0 && (
          <ul class="reasons" data-testid="reasons">
            {d.reasons.map((r) => (
              <li key={r}>{r}</li>
            ))}
          </ul>
        )}
      </div>
    </section>
  );
}

const columns: [keyof EdgeDelivery['totals'], string, string, boolean][] = [
  ['accepted', 'Accepted', 'Events that the edge has taken in', false],
  ['stored', 'Stored', 'Events in the store', false],
  ['pending', 'Pending', 'Events accepted and not stored yet', true],
  ['missing', 'Missing', 'Batches that never came, though later ones did', true],
  ['refused', 'Refused', 'Batches that were set aside', true],
  ['dropped', 'Dropped', 'Events that a web server gave up because its buffer was full', true],
  ['duplicates', 'Duplicates', 'Batches that came again and were dropped', false],
  ['late', 'Late', 'Events stored later than the limit', false],
];

function Edges({ d }: { d: Delivery }) {
  if (d.edges.length === 0) return <div class="panel-empty">No events in this range.</div>;
  const from = Date.parse(d.query.since);
  const to = Date.parse(d.query.until);
  return (
    <div class="table-scroll">
      <table class="data edges" data-testid="edges">
        <caption class="visually-hidden">What became of events, by edge</caption>
        <thead>
          <tr>
            <th scope="col">Edge</th>
            {columns.map(([key, label, hint]) => (
              <th key={key} scope="col" class="num" title={hint}>
                {label}
              </th>
            ))}
            <th scope="col" class="num" title="Greatest age of a batch when it was stored">
              Oldest
            </th>
            <th scope="col">By the minute</th>
          </tr>
        </thead>
        <tbody>
          {d.edges.map((e) => (
            <tr key={e.edge} data-testid="edge-row" data-key={e.edge} data-stored={e.totals.stored}>
              <th scope="row">{e.edge || 'Not known'}</th>
              {columns.map(([key, , , wrong]) => (
                <td key={key} class={wrong && e.totals[key] > 0 ? 'num bad' : wrong ? 'num muted' : 'num'}>
                  {exact(e.totals[key])}
                </td>
              ))}
              <td class="num muted">{millis(e.totals.oldest_ms)}</td>
              <td>
                <Strip edge={e} from={from} to={to} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Strip({ edge, from, to }: { edge: EdgeDelivery; from: number; to: number }) {
  const list = strip(edge, from, to, cells);
  const most = Math.max(...list.map((c) => c.stored), 1);
  return (
    <svg
      class="minute-strip"
      viewBox={`0 0 ${list.length} 24`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`${edge.edge || 'Not known'}: ${list.filter((c) => c.state === 'bad').length} of ${list.length} spans with something wrong`}
    >
      {list.map((c, i) => {
        const height = c.state === 'none' ? 1 : 4 + (19 * c.stored) / most;
        return (
          <rect key={c.from} class={`cell-${c.state}`} x={i + 0.08} y={24 - height} width={0.84} height={height}>
            <title>{`${clock(c.from, utc.value)} – ${clock(c.to, utc.value)}: ${exact(c.stored)} stored`}</title>
          </rect>
        );
      })}
    </svg>
  );
}
