// What edges had to tell besides events: lines that are no requests, batches that were refused, damage.

import type { Delivery, Notices } from '../api/types.ts';
import { exact } from '../lib/format.ts';
import { dateTime } from '../lib/time.ts';
import { utc } from '../state/page.ts';

/** Kinds by name: what to call them, what they count, and what helps. */
const kinds: Record<string, { title: string; unit: string; help: string }> = {
  bad_line: { title: 'Lines refused', unit: 'lines', help: 'spate import --dry-run --bad FILE writes all of them' },
  refused_batch: {
    title: 'Batches refused',
    unit: 'events',
    help: 'they lie in the spool: spate spool ls, spate spool dump FILE',
  },
  damaged_spool: { title: 'Spool damaged', unit: 'times', help: 'spate spool verify; spate spool rescue FILE' },
};

export function NoticeList({ d }: { d: Delivery }) {
  if (d.notices.length === 0)
    return <div class="panel-empty">Nothing. No line or batch was refused in this range.</div>;
  return (
    <ul class="notices" data-testid="notices">
      {d.notices.map((n) => (
        <Notice key={`${n.edge} ${n.kind} ${n.source}`} n={n} />
      ))}
    </ul>
  );
}

function Notice({ n }: { n: Notices }) {
  const kind = kinds[n.kind] ?? { title: n.kind, unit: 'times', help: '' };
  return (
    <li data-testid="notice" data-kind={n.kind} data-count={n.count}>
      <details>
        <summary>
          <b>{kind.title}</b> <span class="notice-source">{n.source}</span>
          <span class="num">
            {exact(n.count)} {kind.unit}
          </span>
          <span class="muted">
            {n.edge}, last {dateTime(Date.parse(n.last), utc.value)}
          </span>
        </summary>
        <p>{n.reason}</p>
        {n.samples.map((s) => (
          <p key={`${s.time} ${s.line} ${s.text}`}>
            {s.line > 0 && <span class="muted">line {exact(s.line)}: </span>}
            {s.reason !== n.reason && `${s.reason}: `}
            <code>{s.text}</code>
          </p>
        ))}
        {kind.help && <p class="muted">{kind.help}</p>}
      </details>
    </li>
  );
}
