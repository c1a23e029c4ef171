// The page: what is shown follows from the zones that exist and the zone in the address.

import { useComputed, useSignalEffect } from '@preact/signals';
import { dateTime, zoneName } from './lib/time.ts';
import { Cards, periodText } from './panels/cards.tsx';
import { Bandwidth, LatencyHeat, LatencyLines, Requests, Uniques } from './panels/charts.tsx';
import { NoAnswer, NoRequests, NoZones, ZoneNotFound } from './panels/empty.tsx';
import { LiveStrip } from './panels/livestrip.tsx';
import { TopPanel, TopTabs } from './panels/top.tsx';
import { dash, prevDash, shownSpan, zone, zones } from './state/data.ts';
import { lastZone, setZone, utc, zoneId } from './state/page.ts';
import { Header } from './ui/header.tsx';
import { ShortcutSheet, useShortcuts } from './ui/shortcuts.tsx';

export function App() {
  useShortcuts();
  // No zone in the address: the one of last time, or the first that has a name.
  useSignalEffect(() => {
    const list = zones.data.value;
    if (zoneId.value || !list?.length) return;
    const last = lastZone();
    const first = list.find((z) => z.name !== 'unknown') ?? list[0]!;
    setZone((list.find((z) => z.id === last) ?? first).id, 'replace');
  });
  useSignalEffect(() => {
    document.title = zone.value ? `${zone.value.name} · Spate` : 'Spate';
  });
  return (
    <>
      <a class="skip" href="#main">
        Skip to the numbers
      </a>
      <Header />
      <Body />
      <ShortcutSheet />
    </>
  );
}

function Body() {
  const list = zones.data.value;
  if (!list && zones.error.value) return <NoAnswer />;
  if (list?.length === 0) return <NoZones />;
  if (list && zoneId.value && !zone.value) return <ZoneNotFound />;
  return <Dashboard />;
}

function Dashboard() {
  const empty = useComputed(() => dash.data.value?.totals.requests.all === 0 && !dash.stale.value);
  return (
    <main
      id="main"
      class="page"
      data-testid="dashboard"
      data-ready={dash.data.value !== undefined && !dash.stale.value}
    >
      <LiveStrip />
      <Cards />
      {empty.value ? (
        <NoRequests />
      ) : (
        <div class="grid">
          <Requests />
          <Bandwidth />
          <Uniques />
          <LatencyLines />
          <LatencyHeat />
          <div class="wide top-wrap">
            <TopTabs />
            <TopPanel />
          </div>
        </div>
      )}
      <Footnote />
    </main>
  );
}

function Footnote() {
  const d = dash.data.value;
  if (!d) return null;
  const { from, to } = shownSpan.value;
  return (
    <footer class="footnote" data-testid="footnote" data-since={d.query.since} data-until={d.query.until}>
      <span>
        {dateTime(from, utc.value)} – {dateTime(to, utc.value)} ({zoneName(utc.value)})
      </span>
      {prevDash.data.value && <span>Changes against {periodText()}</span>}
      <span>Every request counted, none sampled; unique visitors are estimated</span>
      <span>Hatched: still filling</span>
    </footer>
  );
}
