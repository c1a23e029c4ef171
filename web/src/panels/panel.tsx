// The frame of a panel: title, legend, table switch; skeleton, error with retry, old numbers dimmed.

import type { ComponentChildren } from 'preact';
import type { Series } from '../charts/model.ts';
import { hidden, isolateSeries, tables, toggleSeries, toggleTable } from '../state/page.ts';
import type { Resource } from '../state/resource.ts';
import { Icon } from '../ui/icons.tsx';

interface PanelProps<T> {
  id: string;
  title: string;
  /** What the title leaves open: the unit, the length of a point. */
  note?: string;
  resource: Resource<T>;
  /** Height of the skeleton in px. */
  height: number;
  class?: string;
  /** Right of the title. */
  actions?: ComponentChildren;
  children: (data: T) => ComponentChildren;
}

export function Panel<T>(p: PanelProps<T>) {
  const data = p.resource.data.value;
  const error = p.resource.error.value;
  const stale = p.resource.stale.value;
  return (
    <section class={`panel ${p.class ?? ''}`} aria-labelledby={`${p.id}-title`} data-testid={`panel-${p.id}`}>
      <header class="panel-head">
        <h2 id={`${p.id}-title`}>{p.title}</h2>
        {p.note && <span class="panel-note">{p.note}</span>}
        <div class="panel-actions">{p.actions}</div>
      </header>
      {error && data !== undefined && (
        <div class="panel-warning" role="alert">
          <Icon name="warn" /> Not up to date: {error.message}
          <button type="button" class="link" onClick={p.resource.retry}>
            Try again
          </button>
        </div>
      )}
      <div class={stale ? 'panel-body stale' : 'panel-body'} aria-busy={stale || p.resource.pending.value}>
        {data !== undefined ? (
          p.children(data)
        ) : error ? (
          <div
            class="panel-error"
            role="alert"
            style={{ minHeight: `${Math.min(p.height, 240)}px` }}
            data-testid={`error-${p.id}`}
          >
            <Icon name="warn" />
            <p>{error.message}</p>
            <button type="button" class="button" onClick={p.resource.retry} data-testid={`retry-${p.id}`}>
              Try again
            </button>
          </div>
        ) : (
          <div class="skeleton" style={{ height: `${p.height}px` }} />
        )}
      </div>
    </section>
  );
}

/** The switch between chart and table of a panel. */
export function TableSwitch({ panel, title }: { panel: string; title: string }) {
  const on = tables.value.has(panel);
  return (
    <button
      type="button"
      class="icon-button"
      aria-pressed={on}
      aria-label={on ? `${title} as chart` : `${title} as table`}
      title={on ? 'Chart' : 'Table'}
      data-testid={`table-${panel}`}
      onClick={() => toggleTable(panel)}
    >
      <Icon name={on ? 'chart' : 'table'} />
    </button>
  );
}

/** Whether a series of a panel is switched off. */
export const isHidden = (panel: string) => {
  const set = hidden.value;
  return (key: string) => set.has(`${panel}.${key}`);
};

/** Names of the series; a click switches one off and on, with Alt or Shift it shows only that one. */
export function Legend({ panel, series }: { panel: string; series: Series[] }) {
  const off = isHidden(panel);
  return (
    <ul class="legend" aria-label="Series">
      {series.map((s) => (
        <li key={s.key}>
          <button
            type="button"
            aria-pressed={!off(s.key)}
            title="Click: hide or show. Alt-click: only this one."
            data-testid={`legend-${panel}-${s.key}`}
            onClick={(e) => {
              const name = `${panel}.${s.key}`;
              if (e.altKey || e.shiftKey)
                isolateSeries(
                  name,
                  series.map((x) => `${panel}.${x.key}`),
                );
              else toggleSeries(name);
            }}
          >
            <span class={`swatch swatch-${s.kind}`} style={{ '--c': `var(${s.color})` }} />
            {s.label}
            {s.total && <b>{s.total}</b>}
          </button>
        </li>
      ))}
    </ul>
  );
}
