// Reading the page.

export const dimensions = [
  'host',
  'country',
  'referer',
  'user_agent',
  'client_ip',
  'status',
  'browser',
  'os',
  'path',
  'bot',
];

/** Waits until the dashboard shows what it was asked for. */
export async function ready(page) {
  await page.locator('[data-testid=dashboard][data-ready=true]').waitFor();
  await page
    .locator('[data-testid=panel-latency] .skeleton, [data-testid=panel-top] .skeleton')
    .first()
    .waitFor({ state: 'detached' });
}

/** Waits until a condition holds; says what was waited for when it does not. */
export async function waitUntil(page, condition, what, ms = 10_000) {
  const end = Date.now() + ms;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`waited in vain for: ${what}`);
    await page.waitForTimeout(40);
  }
}

const cards = ['requests', 'bandwidth', 'uniques', 'cached', 'p50', 'p99', 'errors'];

/** The exact value behind each card, as the page has it; '' where it has none. */
export async function shownFigures(page) {
  const out = {};
  for (const c of cards) out[c] = await page.getByTestId(`value-${c}`).getAttribute('data-value');
  return out;
}

const units = {
  k: 1e3,
  M: 1e6,
  bn: 1e9,
  tn: 1e12,
  B: 1,
  kB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  PB: 1e15,
  µs: 1e-3,
  ms: 1,
  s: 1e3,
  min: 6e4,
  '%': 0.01,
};

/** What a person reads on each card, as a number; NaN where it is not one. '' stands for the dash. */
export async function readFigures(page) {
  const out = {};
  for (const c of cards) {
    const text = (await page.getByTestId(`value-${c}`).textContent()).replaceAll(',', '');
    const m = /^([\d.]+)\s*(\S*)$/u.exec(text);
    out[c] = text === '–' ? '' : m ? Number(m[1]) * (m[2] ? units[m[2]] : 1) : Number.NaN;
  }
  return out;
}

/** The same from the API's answers. */
export function figures(dashboard, latency) {
  const t = dashboard.totals;
  const all = t.requests.all;
  const failed = Object.entries(t.requests.http_status).reduce((a, [k, n]) => a + (/^5\d\d$/.test(k) ? n : 0), 0);
  const share = (n) => (all > 0 ? String(n / all) : '');
  const timed = latency.totals.count > 0;
  return {
    requests: String(all),
    bandwidth: String(t.bandwidth.all),
    uniques: String(t.uniques.all),
    cached: share(t.requests.cached),
    p50: timed ? String(latency.totals.p50_ms) : '',
    p99: timed ? String(latency.totals.p99_ms) : '',
    errors: share(failed),
  };
}

/** Numbers of a panel's table, row by row, null where it has none. */
export function tableRows(page, panel) {
  return page
    .locator(`[data-testid=data-${panel}] tbody tr`)
    .evaluateAll((rows) =>
      rows.map((r) =>
        [...r.querySelectorAll('td[data-value]')].map((c) => (c.dataset.value === '' ? null : Number(c.dataset.value))),
      ),
    );
}
