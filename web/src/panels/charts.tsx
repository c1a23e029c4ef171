// The time charts of the page, each with its legend and its table.

import { useMemo } from 'preact/hooks';
import { serverNow } from '../api/client.ts';
import type { Dashboard, Latency } from '../api/types.ts';
import { Chart } from '../charts/chart.tsx';
import type { Points, Scale, Series } from '../charts/model.ts';
import { bytes, count, exact, exactBytes, millis } from '../lib/format.ts';
import { stepText } from '../lib/resolution.ts';
import { interval } from '../lib/time.ts';
import { dash, lat, shownSpan } from '../state/data.ts';
import { tables, utc } from '../state/page.ts';
import { HeatBody } from './heatmap.tsx';
import { isHidden, Legend, Panel, TableSwitch } from './panel.tsx';
import { bandwidthSeries, latencySeries, pointsOf, requestSeries, uniqueSeries } from './series.ts';

const requestScale: Scale = { axis: count, exact, whole: true };
const byteScale: Scale = { axis: bytes, exact: exactBytes, whole: true };
const latencyScale: Scale = { axis: millis, exact: millis, log: true };

interface BodyProps {
  panel: string;
  title: string;
  series: Series[];
  points: Points;
  scale: Scale;
  height: number;
  sum?: string;
}

/** Chart or table, as the switch says. */
export function ChartBody(p: BodyProps) {
  const { from, to } = shownSpan.value;
  if (tables.value.has(p.panel)) return <SeriesTable {...p} />;
  return (
    <Chart
      label={`${p.title}, ${p.points.since.length} points, one per ${stepText(p.points.step)}`}
      series={p.series}
      points={p.points}
      scale={p.scale}
      from={Math.min(from, p.points.since[0] ?? from)}
      to={Math.max(to, p.points.until.at(-1) ?? to)}
      hidden={isHidden(p.panel)}
      height={p.height}
      sum={p.sum}
    />
  );
}

/** Every point of a chart as a row, newest first. */
export function SeriesTable(p: BodyProps) {
  const rows = p.points.since.map((_, i) => i).reverse();
  return (
    <div class="table-scroll" style={{ maxHeight: `${p.height}px` }}>
      <table class="data" data-testid={`data-${p.panel}`}>
        <caption class="visually-hidden">{p.title}</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {p.series.map((s) => (
              <th scope="col" class="num" key={s.key}>
                {s.label}
              </th>
            ))}
            {p.sum && (
              <th scope="col" class="num">
                {p.sum}
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map((i) => (
            <tr key={p.points.since[i]}>
              <th scope="row">
                {interval(p.points.since[i]!, p.points.until[i]!, utc.value)}
                {i >= p.points.partial && <span class="tooltip-partial">still filling</span>}
              </th>
              {p.series.map((s) => (
                <td class="num" key={s.key} data-value={s.values[i] ?? ''}>
                  {p.scale.exact(s.values[i])}
                </td>
              ))}
              {p.sum && <td class="num">{p.scale.exact(p.series.reduce((a, s) => a + (s.values[i] ?? 0), 0))}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface TrafficPanelProps {
  id: string;
  title: string;
  series: (d: Dashboard) => Series[];
  scale: Scale;
  height: number;
  sum?: string;
  class?: string;
}

function TrafficPanel(p: TrafficPanelProps) {
  const d = dash.data.value;
  const model = useMemo(
    () => d && { series: p.series(d), points: pointsOf(d.timeseries, d.query.time_delta, serverNow()) },
    [d, p.series],
  );
  return (
    <Panel
      id={p.id}
      title={p.title}
      note={d && `per ${stepText(d.query.time_delta)}`}
      resource={dash}
      height={p.height}
      class={p.class}
      actions={
        <>
          {model && <Legend panel={p.id} series={model.series} />}
          <TableSwitch panel={p.id} title={p.title} />
        </>
      }
    >
      {() =>
        model && <ChartBody panel={p.id} title={p.title} {...model} scale={p.scale} height={p.height} sum={p.sum} />
      }
    </Panel>
  );
}

export const Requests = () => (
  <TrafficPanel
    id="requests"
    title="Requests"
    series={requestSeries}
    scale={requestScale}
    height={260}
    sum="All requests"
    class="wide"
  />
);

export const Bandwidth = () => (
  <TrafficPanel
    id="bandwidth"
    title="Bandwidth"
    series={bandwidthSeries}
    scale={byteScale}
    height={210}
    sum="All bytes"
  />
);

export const Uniques = () => (
  <TrafficPanel id="uniques" title="Unique visitors" series={uniqueSeries} scale={requestScale} height={210} />
);

/** Says why there is no latency, when there are requests. */
function NoDurations({ height }: { height: number }) {
  return (
    <div class="panel-empty" style={{ minHeight: `${height}px` }}>
      <p>No request in this range carries a duration.</p>
      <p class="muted">Combined logs have none; the nginx module and JSON logs with request_time do.</p>
    </div>
  );
}

const latencyHeight = 230;

function useLatency(): { series: Series[]; points: Points } | undefined {
  const l = lat.data.value;
  return useMemo(
    () => l && { series: latencySeries(l), points: pointsOf(l.timeseries, l.time_delta, serverNow()) },
    [l],
  );
}

export function LatencyLines() {
  const model = useLatency();
  return (
    <Panel
      id="latency"
      title="Latency"
      note={lat.data.value && `per ${stepText(lat.data.value.time_delta)}`}
      resource={lat}
      height={latencyHeight}
      actions={
        <>
          {model && <Legend panel="latency" series={model.series} />}
          <TableSwitch panel="latency" title="Latency" />
        </>
      }
    >
      {(l: Latency) =>
        l.totals.count === 0 || !model ? (
          <NoDurations height={latencyHeight} />
        ) : (
          <ChartBody panel="latency" title="Latency" {...model} scale={latencyScale} height={latencyHeight} />
        )
      }
    </Panel>
  );
}

export function LatencyHeat() {
  const model = useLatency();
  return (
    <Panel
      id="heatmap"
      title="Latency distribution"
      note="requests by duration"
      resource={lat}
      height={latencyHeight}
      actions={<TableSwitch panel="heatmap" title="Latency distribution" />}
    >
      {(l: Latency) =>
        l.totals.count === 0 || !model ? (
          <NoDurations height={latencyHeight} />
        ) : (
          <HeatBody latency={l} points={model.points} scale={latencyScale} height={latencyHeight} />
        )
      }
    </Panel>
  );
}
