// Chooses the time range: presets, words ("last 3 h"), two moments; arrows step by the length of the range.

import { useState } from 'preact/hooks';
import { serverNow } from '../api/client.ts';
import { bounds, formatCode, parseMoment, parseText, presets, type Range, step } from '../lib/range.ts';
import { clock, date, inputValue, parts, zoneName } from '../lib/time.ts';
import { range, setRange, setUtc, utc } from '../state/page.ts';
import { Icon } from './icons.tsx';
import { Popover } from './popover.tsx';

/** "Last 30 min", or "12 Sep, 10:00 – 11:30". */
export function rangeText(r: Range, inUtc: boolean): string {
  if (r.kind === 'relative') {
    const preset = presets.find((p) => p.minutes === r.minutes);
    return preset?.label ?? `Last ${formatCode(r.minutes)}`;
  }
  const a = parts(r.from, inUtc);
  const b = parts(r.to, inUtc);
  const sameDay = a.day === b.day && a.month === b.month && a.year === b.year;
  const end = sameDay ? clock(r.to, inUtc) : `${date(r.to, inUtc)}, ${clock(r.to, inUtc)}`;
  return `${date(r.from, inUtc)}, ${clock(r.from, inUtc)} – ${end}`;
}

export function RangePicker() {
  const r = range.value;
  const atNow = r.kind === 'relative';
  return (
    <div class="range">
      <button
        type="button"
        class="button square"
        aria-label="Earlier"
        title="Earlier (←)"
        data-testid="range-back"
        onClick={() => setRange(step(r, -1, serverNow()))}
      >
        <Icon name="left" />
      </button>
      <Popover
        label={`Time range: ${rangeText(r, utc.value)}`}
        testid="range-picker"
        align="right"
        class="range-picker"
        button={
          <>
            <Icon name="calendar" />
            <span data-testid="range-text">{rangeText(r, utc.value)}</span>
            <Icon name="down" />
          </>
        }
      >
        {(close) => <RangeMenu close={close} />}
      </Popover>
      <button
        type="button"
        class="button square"
        aria-label="Later"
        title="Later (→)"
        disabled={atNow}
        data-testid="range-forward"
        onClick={() => setRange(step(r, 1, serverNow()))}
      >
        <Icon name="right" />
      </button>
    </div>
  );
}

function RangeMenu({ close }: { close: () => void }) {
  const r = range.value;
  const inUtc = utc.value;
  const now = serverNow();
  const b = bounds(r, now);
  const [text, setText] = useState('');
  const [from, setFrom] = useState(inputValue(b.from, inUtc));
  const [to, setTo] = useState(inputValue(b.to, inUtc));
  const typed = text.trim() ? parseText(text, now, inUtc) : undefined;
  const fromAt = parseMoment(from, now, inUtc)?.at;
  const toAt = parseMoment(to, now, inUtc)?.at;
  const custom =
    fromAt !== undefined && toAt !== undefined ? parseText(`${iso(fromAt)} to ${iso(toAt)}`, now, true) : undefined;
  const choose = (next: Range | undefined) => {
    if (!next) return;
    setRange(next);
    close();
  };
  return (
    <div class="range-menu">
      <ul class="presets" aria-label="Presets">
        {presets.map((p) => (
          <li key={p.code}>
            <button
              type="button"
              aria-pressed={r.kind === 'relative' && r.minutes === p.minutes}
              data-testid={`preset-${p.code}`}
              onClick={() => choose({ kind: 'relative', minutes: p.minutes })}
            >
              {p.label}
            </button>
          </li>
        ))}
      </ul>
      <div class="range-custom">
        <form
          onSubmit={(e) => {
            e.preventDefault();
            choose(typed);
          }}
        >
          <label>
            In words
            <input
              type="text"
              placeholder="last 90 min, -7d, yesterday, 2026-09-01"
              autocomplete="off"
              spellcheck={false}
              value={text}
              aria-invalid={text.trim() !== '' && !typed}
              data-testid="range-words"
              onInput={(e) => setText(e.currentTarget.value)}
            />
          </label>
          <p class="hint" aria-live="polite">
            {text.trim() === '' ? 'Enter applies it.' : typed ? rangeText(typed, inUtc) : 'Not understood yet.'}
          </p>
        </form>
        <form
          onSubmit={(e) => {
            e.preventDefault();
            choose(custom);
          }}
        >
          <label>
            From
            <input
              type="datetime-local"
              value={from}
              data-testid="range-from"
              onInput={(e) => setFrom(e.currentTarget.value)}
            />
          </label>
          <label>
            To
            <input
              type="datetime-local"
              value={to}
              data-testid="range-to"
              onInput={(e) => setTo(e.currentTarget.value)}
            />
          </label>
          <button type="submit" class="button primary" disabled={!custom} data-testid="range-apply">
            Apply
          </button>
        </form>
        <fieldset class="segmented">
          <legend class="visually-hidden">Time zone</legend>
          <button type="button" aria-pressed={!inUtc} data-testid="tz-local" onClick={() => setUtc(false)}>
            {zoneName(false)}
          </button>
          <button type="button" aria-pressed={inUtc} data-testid="tz-utc" onClick={() => setUtc(true)}>
            UTC
          </button>
        </fieldset>
      </div>
    </div>
  );
}

const iso = (ms: number) => new Date(ms).toISOString();
