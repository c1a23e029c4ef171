// The bar at the top: what is shown (zone, time) and how (live, theme).

import { zoneName } from '../lib/time.ts';
import { liveText } from '../panels/livestrip.tsx';
import { dash, delivery, zone, zones } from '../state/data.ts';
import { liveOn, range, setLive, setUtc, showDelivery, utc, view } from '../state/page.ts';
import { setTheme, type Theme, theme } from '../state/theme.ts';
import { Icon, Logo } from './icons.tsx';
import { RangePicker } from './rangepicker.tsx';
import { helpOpen } from './shortcuts.tsx';
import { ZonePicker } from './zonepicker.tsx';

export function Header() {
  return (
    <header class="top-bar">
      <div class="top-bar-inner">
        <a class="brand" href="/" aria-label="Spate, start page">
          <Logo />
          <span>Spate</span>
        </a>
        {zones.data.value?.length !== 0 && <ZonePicker />}
        <a
          class="nav-link"
          href="/delivery"
          aria-current={view.value === 'delivery' ? 'page' : undefined}
          data-testid="nav-delivery"
          onClick={(e) => {
            if (e.ctrlKey || e.metaKey || e.shiftKey) return;
            e.preventDefault();
            showDelivery();
          }}
        >
          Delivery
        </a>
        <span class="grow" />
        {view.value === 'delivery' && <RangePicker />}
        {view.value === 'traffic' && zone.value !== null && (
          <>
            <LiveSwitch />
            <RangePicker />
          </>
        )}
        <div class="tools">
          <button
            type="button"
            class="icon-button text"
            aria-label={`Times in ${zoneName(utc.value)}. Switch`}
            title={`Times in ${zoneName(utc.value)} (u)`}
            data-testid="tz-switch"
            onClick={() => setUtc(!utc.value)}
          >
            {utc.value ? 'UTC' : 'Local'}
          </button>
          <ThemeSwitch />
          <button
            type="button"
            class="icon-button help-button"
            aria-label="Keyboard shortcuts"
            title="Keyboard shortcuts (?)"
            onClick={() => {
              helpOpen.value = true;
            }}
          >
            <Icon name="help" />
          </button>
        </div>
      </div>
      <span class="progress" hidden={!(view.value === 'delivery' ? delivery : dash).stale.value} />
    </header>
  );
}

function LiveSwitch() {
  if (range.value.kind === 'absolute') return null;
  const on = liveOn.value;
  const { text, tone } = on ? liveText() : { text: '', tone: 'wait' };
  return (
    <button
      type="button"
      class={`button live ${on ? `live-on live-${tone}` : ''}`}
      aria-pressed={on}
      title={on ? 'Every second. Numbers stand still while the pointer is over a chart.' : 'Refresh every second (l)'}
      data-testid="live-switch"
      onClick={() => setLive(!on)}
    >
      <span class={on && tone === 'ok' ? 'dot dot-beat' : 'dot'} />
      Live
      {on && (
        <span class="live-text" data-testid="live-text">
          {text}
        </span>
      )}
    </button>
  );
}

const order: Theme[] = ['system', 'light', 'dark'];
const themeIcons = { system: 'system', light: 'sun', dark: 'moon' } as const;

function ThemeSwitch() {
  const t = theme.value;
  const next = order[(order.indexOf(t) + 1) % order.length]!;
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={`Theme: ${t}. Change to ${next}`}
      title={`Theme: ${t}`}
      data-testid="theme-switch"
      data-theme-now={t}
      onClick={() => setTheme(next)}
    >
      <Icon name={themeIcons[t]} />
    </button>
  );
}
