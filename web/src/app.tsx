// The page: what is shown follows from the zones that exist and the zone in the address.

import { useSignalEffect } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { dateTime, zoneName } from './lib/time.ts';
import { Cards, periodText } from './panels/cards.tsx';
import { Bandwidth, LatencyHeat, LatencyLines, Requests, Uniques } from './panels/charts.tsx';
import { DeliveryPage } from './panels/delivery.tsx';
import { NoAnswer, NoRequests, NoZones, ZoneNotFound } from './panels/empty.tsx';
import { LiveStrip } from './panels/livestrip.tsx';
import { TopPanel, TopTabs } from './panels/top.tsx';
import { dash, empty, named, prevDash, shownSpan, zone, zones } from './state/data.ts';
import { lastZone, setZone, utc, view, zoneId } from './state/page.ts';
import { Header } from './ui/header.tsx';
import { ShortcutSheet, useShortcuts } from './ui/shortcuts.tsx';

export function App() {
  useShortcuts();
  const waited = useRef(false);
  useSignalEffect(() => {
    const list = zones.data.value;
    if (!list?.length || view.value === 'delivery') return;
    const first = named(list)[0];
    if (!zoneId.value) {
      // No zone in the address: the one of last time, or the first that has a name.
      const last = list.find((z) => z.id === lastZone());
      setZone((last ?? first ?? list[0]!).id, 'replace');
    } else if (first && zone.value?.name === 'unknown' && waited.current && empty.value) {
      // A fresh installation: the first site has just sent its first request.
      setZone(first.id, 'replace');
    }
    waited.current = !first;
  });
  useSignalEffect(() => {
    if (view.value === 'delivery') document.title = 'Delivery · Spate';
    else document.title = zone.value ? `${zone.value.name} · Spate` : 'Spate';
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
  if (view.value === 'delivery') return <DeliveryPage />;
  const list = zones.data.value;
  if (!list && zones.error.value) return <NoAnswer />;
  if (list?.length === 0) return <NoZones />;
  if (list && zoneId.value && !zone.value) return <ZoneNotFound />;
  return <Dashboard />;
}

function Dashboard() {
  const nothing = empty.value && !dash.stale.value;
  return (
    <main
      id="main"
      class="page"
      data-testid="dashboard"
      data-ready={dash.data.value !== undefined && !dash.stale.value}
    >
      <LiveStrip />
      <Cards />
      {nothing ? (
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
