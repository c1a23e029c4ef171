// What is tried, in order: [name, browser options, step].

import { dimensions, figures, readFigures, ready, shownFigures, tableRows, waitUntil } from './page.mjs';

const fixed = { reducedMotion: true };

/** The page of the zone with a range; waits until it has drawn what it asked for. */
async function visit(t, query) {
  await t.page.goto(`${t.base}/zones/${t.zone}?${query}`);
  await ready(t.page);
}

/** Asks the API itself, without the page. */
async function ask(t, what, params) {
  const url = new URL(`${t.base}/client/v4/zones/${t.zone}/analytics/${what}`);
  for (const [k, v] of Object.entries(params)) url.searchParams.set(k, v);
  const res = await fetch(url);
  const body = await res.json();
  if (!body.success) throw new Error(`${url}: ${JSON.stringify(body.errors)}`);
  return body;
}

async function numbers(t) {
  await visit(t, `range=${t.range}&live=0`);
  const dash = await t.api.after(0, 'dashboard', (a) => a.url.searchParams.get('until') === '0');
  const lat = await t.api.after(0, 'latency', (a) => a.url.searchParams.get('until') === '0');
  const own = Object.fromEntries(dash.url.searchParams);
  t.check(dash.body.result.totals.requests.all > 0, `no traffic in the last ${t.range}: nothing to compare`);
  await waitUntil(t.page, async () => (await shownFigures(t.page)).requests !== '', 'figures');
  const want = figures(dash.body.result, lat.body.result);
  t.equal(await shownFigures(t.page), want, 'cards');
  const read = await readFigures(t.page);
  for (const [card, value] of Object.entries(want)) {
    // Three digits are shown: half a percent at most is lost.
    const near = value === '' ? read[card] === '' : Math.abs(read[card] - Number(value)) <= 0.0051 * Number(value);
    t.check(near, `card ${card} reads ${read[card]}, the API has ${value}`);
  }

  // The same question asked without the page, before and after a reload: the page lies between.
  const first = (await ask(t, 'dashboard', own)).result.totals;
  await t.page.reload();
  await ready(t.page);
  const shown = await shownFigures(t.page);
  const last = (await ask(t, 'dashboard', own)).result.totals;
  for (const [name, read] of [
    ['requests', (x) => x.requests.all],
    ['bandwidth', (x) => x.bandwidth.all],
  ]) {
    const [lo, hi] = [read(first), read(last)].sort((a, b) => a - b);
    t.check(Number(shown[name]) >= lo && Number(shown[name]) <= hi, `${name}: ${shown[name]} is not in ${lo}..${hi}`);
  }
  await t.shot(t.page, 'light', { fullPage: true });
}

async function charts(t) {
  await visit(t, `range=${t.range}&live=0&table=requests,bandwidth,uniques,latency,heatmap`);
  const { body } = await t.api.after(0, 'dashboard', (a) => a.url.searchParams.get('until') === '0');
  const lat = (await t.api.after(0, 'latency', (a) => a.url.searchParams.get('until') === '0')).body.result;
  const points = body.result.timeseries.toReversed();
  const sum = (map, first) =>
    Object.entries(map).reduce((a, [k, n]) => a + (k.length === 3 && k[0] === first ? n : 0), 0);
  const classes = (p) => ['2', '3', '4', '5'].map((c) => sum(p.requests.http_status, c));
  t.equal(
    (await tableRows(t.page, 'requests')).map((r) => r.slice(0, 4)),
    points.map(classes),
    'requests by status class',
  );
  t.equal(
    await tableRows(t.page, 'bandwidth'),
    points.map((p) => [p.bandwidth.cached, p.bandwidth.uncached]),
    'bandwidth',
  );
  t.equal(
    await tableRows(t.page, 'uniques'),
    points.map((p) => [p.uniques.all]),
    'uniques',
  );
  if (lat.totals.count > 0) {
    const want = lat.timeseries
      .toReversed()
      .map((p) => [p.p50_ms, p.p95_ms, p.p99_ms].map((v) => (p.count > 0 ? v : null)));
    t.equal(await tableRows(t.page, 'latency'), want, 'latency');
    t.check(await t.page.getByTestId('data-heatmap').isVisible(), 'the heatmap has no table');
  }
  await t.page.getByTestId('table-requests').click();
  await t.page.locator('[data-testid=panel-requests] canvas').waitFor();
  t.check(
    !new URL(t.page.url()).searchParams.get('table').includes('requests'),
    'the table switch is not in the address',
  );
}

async function ranges(t) {
  await visit(t, 'range=1h&live=0');
  const p = t.page;
  let mark = t.api.mark;
  await p.getByTestId('range-picker').click();
  await p.getByTestId('preset-24h').click();
  await t.api.after(mark, 'dashboard', (a) => a.url.searchParams.get('since') === '-1440');
  await ready(p);
  t.check(p.url().includes('range=24h'), 'a preset is not in the address');
  t.equal(await p.getByTestId('range-text').textContent(), 'Last 24 hours', 'range text');
  mark = t.api.mark;
  await p.getByTestId('range-picker').click();
  await p.getByTestId('range-words').fill('last 3 h');
  await t.shot(p, 'range-menu');
  await p.getByTestId('range-words').press('Enter');
  await t.api.after(mark, 'dashboard', (a) => a.url.searchParams.get('since') === '-180');
  t.check(p.url().includes('range=3h'), 'words are not in the address');
  await p.getByTestId('range-picker').click();
  await p.getByTestId('range-from').fill('2026-01-05T10:00');
  await p.getByTestId('range-to').fill('2026-01-05T12:00');
  mark = t.api.mark;
  await p.getByTestId('range-apply').click();
  const asked = await t.api.after(mark, 'dashboard', (a) => a.url.searchParams.get('until')?.includes('2026-01-05'));
  // Berlin in winter: an hour before UTC.
  t.equal(asked.url.searchParams.get('since'), '2026-01-05T09:00:00Z', 'custom range in local time');
  await p.goBack();
  t.check(p.url().includes('range=3h'), 'back does not return to the range before');
  await p.getByTestId('range-back').click();
  t.check(p.url().includes('from='), 'the arrow does not step back');
  await p.getByTestId('range-forward').click();
  await waitUntil(p, async () => p.url().includes('range=3h'), 'the arrow back to now');
  await p.getByTestId('tz-switch').click();
  t.check(p.url().includes('tz=utc'), 'UTC is not in the address');
}

async function zoom(t) {
  await visit(t, `range=${t.range}&live=0`);
  const p = t.page;
  const area = p.locator('[data-testid=panel-requests] .u-over');
  await area.scrollIntoViewIfNeeded();
  const box = await area.boundingBox();
  const at = (x) => [box.x + box.width * x, box.y + box.height / 2];

  // The tooltip under the cursor has the figures of one point.
  const { body } = await t.api.after(0, 'dashboard', (a) => a.url.searchParams.get('until') === '0');
  await p.mouse.move(...at(0.62));
  await p.getByTestId('tooltip').waitFor();
  const tip = await p.getByTestId('tooltip').locator('tr').last().locator('td').textContent();
  const sums = body.result.timeseries.map((x) => x.requests.all.toLocaleString('en-US'));
  t.check(sums.includes(tip), `the tooltip has ${tip}, which is no point of the answer`);
  await t.shot(p, 'tooltip');

  const mark = t.api.mark;
  await p.mouse.move(...at(0.4));
  await p.mouse.down();
  await p.mouse.move(...at(0.5), { steps: 4 });
  await p.mouse.move(...at(0.7), { steps: 4 });
  await p.mouse.up();
  await waitUntil(p, async () => p.url().includes('from='), 'a brushed range in the address');
  await t.api.after(mark, 'dashboard', (a) => a.url.searchParams.get('since').includes('T'));
  const q = new URL(p.url()).searchParams;
  const span = (Date.parse(q.get('to')) - Date.parse(q.get('from'))) / 60_000;
  const whole = (Date.parse(body.query.until) - Date.parse(body.query.since)) / 60_000;
  t.check(Math.abs(span / whole - 0.3) < 0.05, `brushing 30 % of ${whole} min gave ${span} min`);
  await p.goBack();
  await ready(p);
  t.check(p.url().includes(`range=${t.range}`), 'back does not undo the zoom');

  const chart = p.locator('[data-testid=panel-requests] .chart');
  await p.mouse.move(5, 5);
  await chart.focus();
  await chart.press('End');
  await p.getByTestId('tooltip').waitFor();
  // The page may have refreshed in the meantime: any answer's last point will do.
  const ends = t.api.all('dashboard').map((a) => a.body.result.timeseries.at(-1).requests.all.toLocaleString('en-US'));
  const end = await p.getByTestId('tooltip').locator('tr').last().locator('td').textContent();
  t.check(ends.includes(end), `the End key shows ${end}, which no answer has as its last point`);
  await chart.press('Escape');
}

async function legend(t) {
  await visit(t, `range=${t.range}&live=0`);
  const p = t.page;
  const s4xx = p.getByTestId('legend-requests-s4xx');
  await s4xx.click();
  t.equal(await s4xx.getAttribute('aria-pressed'), 'false', 'legend entry off');
  t.check(p.url().includes('hide=requests.s4xx'), 'a hidden series is not in the address');
  await p.getByTestId('legend-requests-s2xx').click({ modifiers: ['Alt'] });
  t.equal(await p.getByTestId('legend-requests-s5xx').getAttribute('aria-pressed'), 'false', 'only one series');
  t.equal(await p.getByTestId('legend-requests-s2xx').getAttribute('aria-pressed'), 'true', 'only one series');
}

async function tops(t) {
  await visit(t, `range=${t.range}&live=0`);
  const p = t.page;
  const shown = () =>
    p
      .getByTestId('top-row')
      .evaluateAll((list) => list.map((r) => [r.dataset.key, Number(r.dataset.requests), Number(r.dataset.bytes)]));
  // A tab that was open before shows its old numbers until the new ones are there: wait for those of the answer.
  const same = async (mark, fits, what) => {
    let rows;
    let want;
    await waitUntil(
      p,
      async () => {
        want = (await t.api.after(mark, 'top', fits)).body.result.rows.map((r) => [r.value, r.requests, r.bytes]);
        rows = await shown();
        return JSON.stringify(rows) === JSON.stringify(want);
      },
      what,
      5000,
    ).catch(() => {});
    t.equal(rows, want, what);
    t.check(what.includes('bot') || rows.length > 0, `${what} is empty`);
  };
  for (const dim of dimensions) {
    const mark = t.api.mark;
    await p.getByTestId(`tab-${dim}`).click();
    await same(dim === 'path' ? mark : 0, (a) => a.url.searchParams.get('dimension') === dim, `top ${dim}`);
    t.equal(await p.getByTestId(`tab-${dim}`).getAttribute('aria-selected'), 'true', `tab ${dim}`);
  }
  await p.getByTestId('metric-bytes').click();
  await same(0, (a) => a.url.searchParams.get('metric') === 'bytes', 'top bot by bytes');
  t.check(p.url().includes('metric=bytes') && p.url().includes('by=bot'), 'tab and metric are not in the address');
}

async function live(t) {
  await visit(t, 'range=30m');
  const p = t.page;
  t.equal(await p.getByTestId('live-switch').getAttribute('aria-pressed'), 'true', 'live by default');
  await p.getByTestId('live-text').filter({ hasText: 'behind' }).waitFor();
  const mark = t.api.mark;
  await waitUntil(p, async () => t.api.count('dashboard', mark) >= 3, 'three refreshes', 8000);
  await t.shot(p, 'live');
  await p.getByTestId('live-strip').hover();
  await p.getByTestId('live-text').filter({ hasText: 'paused' }).waitFor();
  await p.mouse.move(5, 5);
  await p.getByTestId('live-text').filter({ hasText: 'behind' }).waitFor();
  await p.getByTestId('live-switch').click();
  t.check(p.url().includes('live=0'), 'live off is not in the address');
  t.equal(await p.getByTestId('live-strip').count(), 0, 'live strip while off');
}

async function dark(t) {
  await visit(t, `range=${t.range}&live=0`);
  const p = t.page;
  const back = () => p.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await back();
  const button = p.getByTestId('theme-switch');
  while ((await button.getAttribute('data-theme-now')) !== 'dark') await button.click();
  t.check((await back()) !== light, 'the dark theme changes nothing');
  await p.reload();
  await ready(p);
  t.check((await back()) !== light, 'the theme is forgotten');
  await t.shot(p, 'dark', { fullPage: true });
}

async function keys(t) {
  await visit(t, `range=${t.range}&live=0`);
  const p = t.page;
  await p.keyboard.press('/');
  await p.getByTestId('zone-search').waitFor();
  await p.keyboard.type('no zone has this name');
  t.equal(await p.getByTestId('zone-option').count(), 0, 'zones found');
  await p.keyboard.press('Escape');
  t.equal(await p.getByTestId('zone-search').count(), 0, 'search after Escape');
  await p.keyboard.press('/');
  await p.getByTestId('zone-option').first().waitFor();
  await t.shot(p, 'zones');
  const first = await p.getByTestId('zone-option').first().locator('span').first().textContent();
  await p.keyboard.press('Enter');
  await waitUntil(p, async () => (await p.getByTestId('zone-name').textContent()) === first, 'the first zone opened');
  await p.evaluate(() => document.activeElement.blur());
  await p.keyboard.press('u');
  await waitUntil(p, async () => p.url().includes('tz=utc'), 'u for UTC');
  const nameless = await p.evaluate(() =>
    [...document.querySelectorAll('button')]
      .filter((b) => !b.textContent.trim() && !b.ariaLabel)
      .map((b) => b.outerHTML),
  );
  t.equal(nameless, [], 'buttons without a name');
}

/** A zone without requests teaches, and shows the first one within seconds without a click. */
async function firstRequest(t) {
  await t.page.route('**/analytics/dashboard?*', async (route) => {
    const res = await route.fetch();
    const body = await res.json();
    for (const p of [body.result.totals, ...body.result.timeseries]) {
      p.requests = { ...p.requests, all: 0, cached: 0, uncached: 0, http_status: {} };
    }
    await route.fulfill({ response: res, json: body });
  });
  await visit(t, `range=${t.range}`);
  const p = t.page;
  await p.getByTestId('empty-zone').waitFor();
  t.check(
    (await p.getByTestId('empty-zone').textContent()).includes('spate_log.conf'),
    'the empty page does not teach',
  );
  await t.shot(p, 'empty');
  await p.unrouteAll({ behavior: 'ignoreErrors' });
  const started = Date.now();
  await p.getByTestId('panel-requests').waitFor();
  t.check(Date.now() - started < 5000, `the first request appeared after ${Date.now() - started} ms`);
}

/** One panel fails: it says so and offers to try again; the others go on, and old numbers stay. */
async function failures(t) {
  const p = t.page;
  const broken = {
    status: 500,
    json: { success: false, errors: [{ code: 1100, message: 'it broke' }], messages: [], result: null },
  };
  await p.route('**/analytics/top?*', (route) => route.fulfill(broken));
  await visit(t, `range=${t.range}&live=0`);
  await p.getByTestId('error-top').filter({ hasText: 'it broke' }).waitFor();
  t.check(Number((await shownFigures(p)).requests) > 0, 'a broken table empties the cards');
  await t.shot(p, 'failure', { fullPage: true });
  await p.unrouteAll({ behavior: 'ignoreErrors' });
  await p.getByTestId('retry-top').click();
  await p.getByTestId('top-row').first().waitFor();

  await p.route('**/analytics/dashboard?*', (route) => route.fulfill(broken));
  await p.getByTestId('live-switch').click();
  await p.getByTestId('panel-requests').getByText('Not up to date: it broke').waitFor();
  t.check(Number((await shownFigures(p)).requests) > 0, 'a failed refresh takes the old numbers away');
}

async function unknownZone(t) {
  await t.page.goto(`${t.base}/zones/00000000000000000000000000000000`);
  await t.page.getByTestId('zone-not-found').waitFor();
  await t.shot(t.page, 'zone-not-found');
}

async function mobile(t) {
  await visit(t, `range=${t.range}&live=0`);
  const wide = await t.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  t.check(wide <= 0, `the page is ${wide} px wider than the screen`);
  await t.shot(t.page, 'mobile', { fullPage: true });
  await t.page.getByTestId('range-picker').click();
  const first = await t.page.getByTestId('preset-30m').boundingBox();
  const last = await t.page.getByTestId('range-apply').boundingBox();
  t.check(
    first.y >= 0 && last.y + last.height <= 844,
    `the range menu reaches from ${first.y} to ${last.y + last.height}`,
  );
  await t.shot(t.page, 'mobile-range');
  await t.page.getByTestId('preset-30d').click();
  t.check(t.page.url().includes('range=30d'), 'a preset on a small screen');
}

export const steps = [
  ['numbers', fixed, numbers],
  ['charts', fixed, charts],
  ['ranges', fixed, ranges],
  ['zoom', fixed, zoom],
  ['legend', fixed, legend],
  ['tops', fixed, tops],
  ['live', fixed, live],
  ['dark', fixed, dark],
  ['keys', fixed, keys],
  ['first request', fixed, firstRequest],
  ['failures', { ...fixed, expected: /status of 500/ }, failures],
  ['unknown zone', { ...fixed, expected: /status of 404/ }, unknownZone],
  ['mobile', { ...fixed, width: 390, height: 844, mobile: true }, mobile],
];
