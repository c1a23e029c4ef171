// Times as text, in the machine's zone or in UTC, on a 24-hour clock, dates as "12 Sep".

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const days = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];

/** The parts of a moment in the chosen zone. */
export interface Parts {
  year: number;
  month: number;
  day: number;
  weekday: number;
  hour: number;
  minute: number;
  second: number;
}

export function parts(ms: number, utc: boolean): Parts {
  const d = new Date(ms);
  return utc
    ? {
        year: d.getUTCFullYear(),
        month: d.getUTCMonth(),
        day: d.getUTCDate(),
        weekday: d.getUTCDay(),
        hour: d.getUTCHours(),
        minute: d.getUTCMinutes(),
        second: d.getUTCSeconds(),
      }
    : {
        year: d.getFullYear(),
        month: d.getMonth(),
        day: d.getDate(),
        weekday: d.getDay(),
        hour: d.getHours(),
        minute: d.getMinutes(),
        second: d.getSeconds(),
      };
}

const two = (n: number) => String(n).padStart(2, '0');

/** "14:05", or "14:05:09" with seconds. */
export function clock(ms: number, utc: boolean, seconds = false): string {
  const p = parts(ms, utc);
  return `${two(p.hour)}:${two(p.minute)}${seconds ? `:${two(p.second)}` : ''}`;
}

/** "12 Sep", with the year when it is not the one of now. */
export function date(ms: number, utc: boolean, now = Date.now()): string {
  const p = parts(ms, utc);
  const year = p.year === parts(now, utc).year ? '' : ` ${p.year}`;
  return `${p.day} ${months[p.month]}${year}`;
}

/** "Fri 12 Sep, 14:05". */
export function dateTime(ms: number, utc: boolean, now = Date.now()): string {
  return `${days[parts(ms, utc).weekday]} ${date(ms, utc, now)}, ${clock(ms, utc)}`;
}

/** One point of a chart: "Fri 12 Sep, 14:05 – 14:20", "Fri 12 Sep" for a whole day. */
export function interval(from: number, to: number, utc: boolean): string {
  const a = parts(from, utc);
  const b = parts(to - 1, utc);
  const sameDay = a.day === b.day && a.month === b.month && a.year === b.year;
  if (sameDay && to - from >= 86_400_000 - 3_600_000) return `${days[a.weekday]} ${date(from, utc)}`;
  if (sameDay) return `${days[a.weekday]} ${date(from, utc)}, ${clock(from, utc)} – ${clock(to, utc)}`;
  if (a.hour === 0 && a.minute === 0 && clock(to, utc) === '00:00') return `${date(from, utc)} – ${date(to - 1, utc)}`;
  return `${date(from, utc)}, ${clock(from, utc)} – ${date(to, utc)}, ${clock(to, utc)}`;
}

/** The name of the zone as people know it: "UTC", "Europe/Berlin". */
export function zoneName(utc: boolean): string {
  return utc ? 'UTC' : Intl.DateTimeFormat().resolvedOptions().timeZone || 'local time';
}

/** Labels of a time axis, from ticks in ms and their distance: clock below a day (with the date where it changes), else dates. */
export function axisLabels(ticks: number[], distance: number, utc: boolean): string[] {
  let lastDay = -1;
  return ticks.map((t, i) => {
    const p = parts(t, utc);
    const newDay = p.day !== lastDay;
    lastDay = p.day;
    if (distance >= 28 * 86_400_000)
      return p.month === 0 || i === 0 ? `${months[p.month]} ${p.year}` : months[p.month]!;
    if (distance >= 86_400_000) return `${p.day} ${months[p.month]}`;
    const text = distance < 60_000 ? clock(t, utc, true) : clock(t, utc);
    const atMidnight = p.hour === 0 && p.minute === 0 && p.second === 0;
    return newDay && (i > 0 || atMidnight) ? `${text}\n${p.day} ${months[p.month]}` : text;
  });
}

/** The value of an <input type="datetime-local"> for a moment, in the chosen zone. */
export function inputValue(ms: number, utc: boolean): string {
  const p = parts(ms, utc);
  return `${p.year}-${two(p.month + 1)}-${two(p.day)}T${two(p.hour)}:${two(p.minute)}`;
}
