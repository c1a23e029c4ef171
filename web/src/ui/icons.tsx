// Icons, drawn on a grid of 16 with the colour of the text.

const paths = {
  left: 'M10 3 5 8l5 5',
  right: 'm6 3 5 5-5 5',
  down: 'm4 6 4 4 4-4',
  search: 'M11 11l3 3M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Z',
  table: 'M2.500 3.500h11v9h-11zM2.500 6.500h11M2.500 9.500h11M6.500 6.500v6',
  chart: 'M2.500 13.500h11M4.500 11V7M8 11V3M11.500 11V5.500',
  sun: 'M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1',
  moon: 'M13.500 9.500A6 6 0 0 1 6.500 2.500a6 6 0 1 0 7 7Z',
  system: 'M2 3h12v8H2zM6 14h4M8 11v3',
  copy: 'M5.500 5.500h8v8h-8zM10.500 5.500v-3h-8v8h3',
  check: 'm3 8.500 3.500 3.500L13 4.500',
  up: 'M8 13V3M4 7l4-4 4 4',
  fall: 'M8 3v10M4 9l4 4 4-4',
  warn: 'M8 2 1.500 13.500h13zM8 6.500v3M8 11.500v.2',
  calendar: 'M2.500 3.500h11v10h-11zM2.500 6.500h11M5.500 2v3M10.500 2v3',
  help: 'M6 6a2 2 0 1 1 2.700 1.900c-.5.200-.7.500-.7 1.100M8 11.300v.1M8 14.500a6.500 6.500 0 1 0 0-13 6.500 6.500 0 0 0 0 13Z',
  close: 'm4 4 8 8M12 4l-8 8',
};

export type IconName = keyof typeof paths;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path
        d={paths[name]}
        fill="none"
        stroke="currentColor"
        stroke-width="1.5"
        stroke-linecap="round"
        stroke-linejoin="round"
      />
    </svg>
  );
}

export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path
        d="M6 12.5c3.300-4 6.700-4 10 0s6.700 4 10 0M6 20.500c3.300-4 6.700-4 10 0s6.700 4 10 0"
        fill="none"
        stroke="#fff"
        stroke-width="3"
        stroke-linecap="round"
      />
    </svg>
  );
}
