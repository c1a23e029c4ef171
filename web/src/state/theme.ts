// Light, dark, or as the system says. Charts are drawn on canvas, so they read their colours from here.

import { computed, signal } from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark';
const storageKey = 'spate.theme';

function stored(): Theme {
  const t = document.documentElement.dataset.theme;
  return t === 'light' || t === 'dark' ? t : 'system';
}

export const theme = signal<Theme>(stored());

const query = matchMedia('(prefers-color-scheme: dark)');
const systemDark = signal(query.matches);
query.addEventListener('change', () => {
  systemDark.value = query.matches;
});

/** Whether the page is dark now. */
export const dark = computed(() => (theme.value === 'system' ? systemDark.value : theme.value === 'dark'));

export function setTheme(t: Theme) {
  if (t === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = t;
  try {
    if (t === 'system') localStorage.removeItem(storageKey);
    else localStorage.setItem(storageKey, t);
  } catch {
    // storage may be forbidden: the choice lasts as long as the page
  }
  theme.value = t;
}

let probe: HTMLElement | undefined;

/** The colour that a custom property has now, as the canvas understands it. */
export function color(property: string): string {
  if (!probe) {
    probe = document.createElement('i');
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(${property})`;
  return getComputedStyle(probe).color;
}
