// A time chart: canvas, tooltip, keyboard. The panel around it has legend and table.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type uPlot from 'uplot';
import { interval } from '../lib/time.ts';
import { hoverEnd, hoverStart } from '../state/data.ts';
import { setRange, utc as utcSignal } from '../state/page.ts';
import { dark } from '../state/theme.ts';
import type { Points, Scale, Series } from './model.ts';
import { createPlot, plotData, pointAt } from './plot.ts';

interface Cursor {
  index: number;
  left: number;
  top: number;
  value: number;
}

interface ChartProps {
  label: string;
  series: Series[];
  points: Points;
  scale: Scale;
  from: number;
  to: number;
  hidden: (key: string) => boolean;
  height: number;
  underlay?: (u: uPlot) => void;
  extent?: () => Iterable<number>;
  /** Rows below the series in the tooltip. */
  more?: (index: number, value: number) => ComponentChildren;
  /** Shows the sum of stacked series in the tooltip under this name. */
  sum?: string;
}

const minuteMs = 60_000;

/** Zooms to a brushed span, widened to whole minutes. */
function zoom(from: number, to: number) {
  const a = Math.floor(from / minuteMs) * minuteMs;
  const b = Math.max(a + minuteMs, Math.ceil(to / minuteMs) * minuteMs);
  setRange({ kind: 'absolute', from: a, to: b });
}

export function Chart(props: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [cursor, setCursor] = useState<Cursor | null>(null);
  const utc = utcSignal.value;
  const isDark = dark.value;
  // A new plot only when its structure changes; new numbers go into the one that is there.
  const structure = `${props.series.map((s) => `${s.key}:${s.kind}`)}|${props.scale.log}|${utc}|${isDark}|${props.height}`;

  useEffect(() => {
    const el = host.current;
    if (!el) return;
    const u = createPlot({
      host: el,
      height: props.height,
      utc,
      input: () => latest.current,
      underlay: props.underlay && ((p) => latest.current.underlay?.(p)),
      extent: props.extent && (() => latest.current.extent?.() ?? []),
      onCursor: setCursor,
      onZoom: zoom,
    });
    plot.current = u;
    const watch = new ResizeObserver(() => {
      const width = el.clientWidth;
      if (width > 0 && width !== u.width) u.setSize({ width, height: latest.current.height });
    });
    watch.observe(el);
    return () => {
      watch.disconnect();
      u.destroy();
      plot.current = null;
    };
  }, [structure]);

  useEffect(() => {
    plot.current?.setData(plotData(props));
  }, [props.series, props.points, props.from, props.to, props.hidden, structure]);

  const leave = useRef<(() => void) | null>(null);
  useEffect(() => () => leave.current?.(), []);
  const enter = () => {
    if (leave.current) return;
    hoverStart();
    leave.current = () => {
      leave.current = null;
      hoverEnd();
    };
  };

  const key = (e: KeyboardEvent) => {
    const n = props.points.since.length;
    const u = plot.current;
    if (!u || n === 0) return;
    const at = cursor?.index ?? n;
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: n - 1 }[e.key];
    if (e.key === 'Escape') setCursor(null);
    if (next === undefined) return;
    e.preventDefault();
    e.stopPropagation();
    setCursor(pointAt(u, Math.max(0, Math.min(n - 1, next))));
  };

  return (
    <div
      class="chart"
      role="img"
      tabIndex={0}
      aria-label={`${props.label}. Arrow keys read the points; the panel can also show a table.`}
      style={{ height: `${props.height}px` }}
      onPointerEnter={enter}
      onPointerLeave={() => leave.current?.()}
      onKeyDown={key}
      onBlur={() => setCursor(null)}
    >
      <div ref={host} class="chart-host" />
      {cursor && <Tooltip {...props} cursor={cursor} utc={utc} width={host.current?.clientWidth ?? 0} />}
    </div>
  );
}

function Tooltip(p: ChartProps & { cursor: Cursor; utc: boolean; width: number }) {
  const { index, left, top, value } = p.cursor;
  const since = p.points.since[index];
  const until = p.points.until[index];
  if (since === undefined || until === undefined) return null;
  const right = left > p.width * 0.55;
  // Stacks read from the top, as they are drawn.
  const visible = p.series.filter((s) => !p.hidden(s.key));
  const rows = p.sum ? [...visible].reverse() : visible;
  const sum = rows.reduce((a, s) => a + (s.values[index] ?? 0), 0);
  return (
    <div
      class="tooltip"
      role="status"
      data-testid="tooltip"
      style={{
        top: `${Math.max(0, Math.min(top - 12, p.height - 150))}px`,
        ...(right ? { right: `${p.width - left + 14}px` } : { left: `${left + 14}px` }),
      }}
    >
      <div class="tooltip-time">
        {interval(since, until, p.utc)}
        {index >= p.points.partial && <span class="tooltip-partial">still filling</span>}
      </div>
      <table>
        <tbody>
          {rows.map((s) => (
            <tr key={s.key}>
              <th scope="row">
                <span class={`swatch swatch-${s.kind}`} style={{ '--c': `var(${s.color})` }} />
                {s.label}
              </th>
              <td>{p.scale.exact(s.values[index])}</td>
            </tr>
          ))}
          {p.sum && rows.length > 1 && (
            <tr class="tooltip-sum">
              <th scope="row">{p.sum}</th>
              <td>{p.scale.exact(sum)}</td>
            </tr>
          )}
          {p.more?.(index, value)}
        </tbody>
      </table>
    </div>
  );
}
