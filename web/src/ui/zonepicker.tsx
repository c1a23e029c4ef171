// Chooses the zone: a button that opens a search over all zones. "/" opens it, 1-9 pick one of the first nine.

import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Zone } from '../api/types.ts';
import { zone, zones } from '../state/data.ts';
import { setZone, zoneId } from '../state/page.ts';
import { Icon } from './icons.tsx';
import { Popover } from './popover.tsx';

export const zonePickerOpen = signal(false);

const shown = 100;

/** Zones whose name or host holds the text; those that begin with it first. */
export function findZones(list: Zone[], text: string): Zone[] {
  const t = text.trim().toLowerCase();
  if (!t) return list;
  const hit = list.filter((z) => z.name.includes(t) || z.hosts?.some((h) => h.includes(t)));
  return [...hit.filter((z) => z.name.startsWith(t)), ...hit.filter((z) => !z.name.startsWith(t))];
}

export function ZonePicker() {
  const name = zone.value?.name;
  return (
    <Popover
      open={zonePickerOpen}
      label={name ? `Zone ${name}. Choose another` : 'Choose a zone'}
      testid="zone-picker"
      class="zone-picker"
      button={
        <>
          <span class="zone-name" data-testid="zone-name">
            {name ?? (zone.value === undefined ? ' ' : 'Choose a zone')}
          </span>
          <Icon name="down" />
        </>
      }
    >
      {(close) => <ZoneSearch close={close} />}
    </Popover>
  );
}

function ZoneSearch({ close }: { close: () => void }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  const all = zones.data.value ?? [];
  const found = findZones(all, text);
  const list = found.slice(0, shown);
  useEffect(() => input.current?.focus(), []);
  useEffect(() => {
    document.getElementById(`zone-option-${at}`)?.scrollIntoView({ block: 'nearest' });
  }, [at]);
  const pick = (z: Zone | undefined) => {
    if (!z) return;
    setZone(z.id);
    close();
  };
  const key = (e: KeyboardEvent) => {
    if (e.key === 'ArrowDown') setAt(Math.min(list.length - 1, at + 1));
    else if (e.key === 'ArrowUp') setAt(Math.max(0, at - 1));
    else if (e.key === 'Enter') pick(list[at]);
    else return;
    e.preventDefault();
  };
  return (
    <>
      <div class="search">
        <Icon name="search" />
        <input
          ref={input}
          type="text"
          role="combobox"
          aria-expanded="true"
          aria-controls="zone-list"
          aria-activedescendant={list[at] ? `zone-option-${at}` : undefined}
          aria-label="Search zones"
          placeholder={`Search ${all.length} ${all.length === 1 ? 'zone' : 'zones'}`}
          autocomplete="off"
          spellcheck={false}
          value={text}
          data-testid="zone-search"
          onInput={(e) => {
            setText(e.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={key}
        />
      </div>
      <div class="options" role="listbox" id="zone-list" aria-label="Zones">
        {list.map((z, i) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the search field
          // biome-ignore lint/a11y/useFocusableInteractive: focus stays in the search field
          <div
            key={z.id}
            id={`zone-option-${i}`}
            role="option"
            aria-selected={i === at}
            class={z.id === zoneId.value ? 'current' : ''}
            data-testid="zone-option"
            onPointerMove={() => setAt(i)}
            onClick={() => pick(z)}
          >
            <span>{z.name}</span>
            {z.id === zoneId.value && <Icon name="check" />}
            {!text && i < 9 && <kbd>{i + 1}</kbd>}
          </div>
        ))}
        {list.length === 0 && <div class="none">No zone matches.</div>}
        {found.length > shown && <div class="none">{found.length - shown} more: type to narrow down.</div>}
      </div>
    </>
  );
}
