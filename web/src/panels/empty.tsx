// What stands where there is nothing to show: how to send the first request, where to look instead.

import { useState } from 'preact/hooks';
import { presets } from '../lib/range.ts';
import { named, zone, zones } from '../state/data.ts';
import { liveOn, range, setRange, setZone, zoneId } from '../state/page.ts';
import { Icon } from '../ui/icons.tsx';
import { rangeText } from '../ui/rangepicker.tsx';
import { zonePickerOpen } from '../ui/zonepicker.tsx';
import { nginxDocs, nginxSnippet } from './snippet.ts';

function Snippet() {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(nginxSnippet);
      setCopied(true);
      setTimeout(() => setCopied(false), 2000);
    } catch {
      // not allowed on plain HTTP: the text can be selected
    }
  };
  return (
    <div class="snippet">
      <header>
        <span>nginx.conf</span>
        <button type="button" class="button small" onClick={copy}>
          <Icon name={copied ? 'check' : 'copy'} />
          {copied ? 'Copied' : 'Copy'}
        </button>
      </header>
      <pre>{nginxSnippet}</pre>
    </div>
  );
}

function Listening() {
  return (
    <p class="listening" role="status">
      <span class="dot dot-beat" />
      Listening. The first request appears here by itself.
    </p>
  );
}

function Steps() {
  return (
    <ol class="steps">
      <li>
        <h3>Let nginx report its requests</h3>
        <p>
          One line per server block. The module never delays or fails a request.{' '}
          <a href={nginxDocs} rel="noreferrer">
            The whole guide
          </a>
        </p>
        <Snippet />
      </li>
      <li>
        <h3>Or read the logs that are there already</h3>
        <pre class="command">spate import /var/log/nginx/access.log*</pre>
      </li>
      <li>
        <h3>Open a page of your site</h3>
        <Listening />
      </li>
    </ol>
  );
}

/** There is no zone at all: a fresh installation. */
export function NoZones() {
  return (
    <main class="welcome" data-testid="empty-install">
      <h1>No traffic yet</h1>
      <p class="lead">Spate is running and waiting. A zone appears here as soon as its first request arrives.</p>
      <Steps />
    </main>
  );
}

/** The zone is there, but not in this range. */
export function NoRequests() {
  const r = range.value;
  const fresh = named(zones.data.value).length === 0;
  const wider = presets.filter((p) => r.kind === 'absolute' || p.minutes > r.minutes);
  return (
    <section class="panel nothing" data-testid="empty-zone">
      <h2>
        {fresh
          ? 'No traffic yet'
          : `No requests to ${zone.value?.name} ${r.kind === 'relative' ? `in the ${rangeText(r, false).toLowerCase()}` : 'in this range'}`}
      </h2>
      {wider.length > 0 && !fresh && (
        <p class="look">
          Look further back:
          {wider.slice(-4).map((p) => (
            <button
              key={p.code}
              type="button"
              class="button small"
              onClick={() => setRange({ kind: 'relative', minutes: p.minutes })}
            >
              {p.short}
            </button>
          ))}
        </p>
      )}
      {r.kind === 'relative' && (
        <details open>
          <summary>{fresh ? 'Connect a site' : 'Not connected yet?'}</summary>
          <Steps />
        </details>
      )}
      {r.kind === 'absolute' && !liveOn.value && (
        <p class="muted">The range is fixed; it shows what was stored for it, and nothing was.</p>
      )}
    </section>
  );
}

/** The address names a zone that the list does not have. */
export function ZoneNotFound() {
  const list = zones.data.value ?? [];
  return (
    <main class="welcome" data-testid="zone-not-found">
      <h1>There is no such zone</h1>
      <p class="lead">
        Nothing here has the id <code>{zoneId.value}</code>. It may have been removed, or the link is not complete.
      </p>
      <p class="look">
        {list.slice(0, 5).map((z) => (
          <button key={z.id} type="button" class="button" onClick={() => setZone(z.id)}>
            {z.name}
          </button>
        ))}
        {list.length > 5 && (
          <button
            type="button"
            class="button"
            onClick={() => {
              zonePickerOpen.value = true;
            }}
          >
            All {list.length} zones…
          </button>
        )}
      </p>
    </main>
  );
}

/** The list of zones could not be read, and never was. */
export function NoAnswer() {
  return (
    <main class="welcome" data-testid="no-answer">
      <h1>The API does not answer</h1>
      <p class="lead">{zones.error.value?.message}</p>
      <button type="button" class="button primary" onClick={zones.retry}>
        Try again
      </button>
    </main>
  );
}
