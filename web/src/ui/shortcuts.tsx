// Keys that work anywhere on the page, and the sheet that lists them.

import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { serverNow } from '../api/client.ts';
import { step } from '../lib/range.ts';
import { zones } from '../state/data.ts';
import { liveOn, range, setLive, setRange, setUtc, setZone, utc } from '../state/page.ts';
import { Icon } from './icons.tsx';
import { zonePickerOpen } from './zonepicker.tsx';

export const helpOpen = signal(false);

const sheet: [string, string][] = [
  ['/', 'Search zones'],
  ['1 – 9', 'Open one of the first nine zones'],
  ['← →', 'Step the time range back and forth'],
  ['l', 'Live on and off'],
  ['u', 'UTC or local time'],
  ['drag', 'Zoom into a part of a chart; the back button returns'],
  ['Alt-click', 'On a legend: only this series'],
  ['?', 'This list'],
];

/** Acts on a key pressed outside of any field; gives whether it was one of ours. */
function act(key: string): boolean {
  switch (key) {
    case '/':
      zonePickerOpen.value = true;
      return true;
    case '?':
      helpOpen.value = !helpOpen.value;
      return true;
    case 'l':
      if (range.value.kind === 'relative') setLive(!liveOn.value);
      return true;
    case 'u':
      setUtc(!utc.value);
      return true;
    case 'ArrowLeft':
      setRange(step(range.value, -1, serverNow()));
      return true;
    case 'ArrowRight':
      if (range.value.kind === 'absolute') setRange(step(range.value, 1, serverNow()));
      return true;
  }
  const z = /^[1-9]$/.test(key) ? zones.data.value?.[Number(key) - 1] : undefined;
  if (z) setZone(z.id);
  return z !== undefined;
}

export function useShortcuts() {
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
      if ((e.target as HTMLElement).closest('input, textarea, select, [role=dialog]')) return;
      if (act(e.key)) e.preventDefault();
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, []);
}

export function ShortcutSheet() {
  const ref = useRef<HTMLDialogElement>(null);
  const open = helpOpen.value;
  useEffect(() => {
    if (open) ref.current?.showModal();
    else ref.current?.close();
  }, [open]);
  const close = () => {
    helpOpen.value = false;
  };
  return (
    <dialog ref={ref} class="sheet" aria-labelledby="sheet-title" onClose={close}>
      <header>
        <h2 id="sheet-title">Keyboard</h2>
        <button type="button" class="icon-button" aria-label="Close" onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      <dl>
        {sheet.map(([k, what]) => (
          <div key={k}>
            <dt>
              <kbd>{k}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </dialog>
  );
}
