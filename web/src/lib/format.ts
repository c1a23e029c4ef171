// Numbers as people read them. A non-breaking thin space (U+202F) stands between number and unit; a missing value is
// an en dash, never 0.

const thin = '\u202f';
/** What stands for a value that is not known. */
export const missing = '–';

type Maybe = number | null | undefined;

const known = (n: Maybe): n is number => typeof n === 'number' && Number.isFinite(n);

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/** The whole number with groups: 1,234,567. For tooltips, tables and titles. */
export function exact(n: Maybe): string {
  return known(n) ? whole.format(n) : missing;
}

/** Three significant digits, trailing zeros kept off: 1.2, 12.3, 123. */
function three(n: number): string {
  const a = Math.abs(n);
  const digits = a >= 99.95 ? 0 : a >= 9.995 ? 1 : 2;
  return String(Number(n.toFixed(digits)));
}

function scaled(n: number, step: number, units: string[]): string {
  let v = n;
  let i = 0;
  // 999.5 would print as 1000: it belongs to the next unit.
  while (Math.abs(v) >= step - step / 2000 && i < units.length - 1) {
    v /= step;
    i++;
  }
  const unit = units[i];
  const number = i === 0 ? three(Math.round(v * 100) / 100) : three(v);
  return unit ? number + thin + unit : number;
}

/** A count: 0, 999, 9,999, then 12.3 k, 1.2 M, 3.4 bn, 5.6 tn. */
export function count(n: Maybe): string {
  if (!known(n)) return missing;
  if (Math.abs(n) < 10_000 && Number.isInteger(n)) return whole.format(n);
  return scaled(n, 1000, ['', 'k', 'M', 'bn', 'tn']);
}

/** Bytes in decimal units: 512 B, 1.2 kB, 3.4 GB. */
export function bytes(n: Maybe): string {
  return known(n) ? scaled(n, 1000, ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB']) : missing;
}

/** The whole number of bytes: 1,234 B. */
export function exactBytes(n: Maybe): string {
  return known(n) ? `${whole.format(n) + thin}B` : missing;
}

/** A rate per second: 0.4/s, 12/s, 1.2 k/s. */
export function rate(n: Maybe): string {
  if (!known(n)) return missing;
  return `${n === 0 ? '0' : n < 10 ? three(n) : count(Math.round(n))}/s`;
}

/** Milliseconds, in the unit that fits: 250 µs, 1.23 ms, 45.6 ms, 1.2 s, 2 min. */
export function millis(n: Maybe): string {
  if (!known(n)) return missing;
  const a = Math.abs(n);
  if (a === 0) return `0${thin}ms`;
  if (a < 0.9995) return `${three(n * 1000)}${thin}µs`;
  if (a < 999.5) return `${three(n)}${thin}ms`;
  if (a < 119_950) return `${three(n / 1000)}${thin}s`;
  return `${three(n / 60_000)}${thin}min`;
}

/** A share of 0..1 as percent: 0 %, < 0.01 %, 0.42 %, 99.9 %, 100 %. Never rounds up to 100 % or down to 0 %. */
export function percent(share: Maybe): string {
  if (!known(share)) return missing;
  const p = share * 100;
  if (p === 0) return `0${thin}%`;
  if (p > 0 && p < 0.01) return `<${thin}0.01${thin}%`;
  if (p > 99.99 && p < 100) return `>${thin}99.99${thin}%`;
  if (p > 99.9 && p < 100) return `${p.toFixed(2)}${thin}%`;
  return `${three(p)}${thin}%`;
}

/** A span of seconds in words for a person: 1 s, 45 s, 3 min, 2 h, 5 d. */
export function span(seconds: Maybe): string {
  if (!known(seconds)) return missing;
  const s = Math.max(0, seconds);
  if (s < 60) return `${Math.round(s)}${thin}s`;
  if (s < 3600) return `${Math.round(s / 60)}${thin}min`;
  if (s < 48 * 3600) return `${three(s / 3600)}${thin}h`;
  return `${three(s / 86400)}${thin}d`;
}
