// Drives the dashboard as a person would and compares every number it shows with what the API says.
//
//   node run.mjs --base http://127.0.0.1:8080 --zone ID --out DIR [--range 24h] [--only STEP]
//
// The range must hold some traffic of the zone. Screenshots go to DIR. Exits 1 with the reasons when a check fails, 2
// when it cannot run. CHROMIUM names the browser (default /usr/bin/chromium).
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { open } from './browser.mjs';
import { Recorder } from './recorder.mjs';
import { steps } from './steps.mjs';

const { values: args } = parseArgs({
  options: {
    base: { type: 'string' },
    zone: { type: 'string' },
    out: { type: 'string', default: 'out' },
    range: { type: 'string', default: '24h' },
    only: { type: 'string' },
  },
});
if (!args.base || !args.zone) {
  console.error('usage: node run.mjs --base URL --zone ID --out DIR [--range 24h] [--only STEP]');
  process.exit(2);
}
mkdirSync(args.out, { recursive: true });

const reasons = [];
let checks = 0;

/** What every step gets. check counts and remembers; equal compares by JSON. */
const tools = {
  base: args.base.replace(/\/$/, ''),
  zone: args.zone,
  range: args.range,
  check(ok, what) {
    checks++;
    if (!ok) reasons.push(what);
  },
  equal(got, want, what) {
    checks++;
    const [g, w] = [JSON.stringify(got), JSON.stringify(want)];
    if (g !== w) reasons.push(`${what}: the page has ${g}, the API ${w}`);
  },
  shot: (page, name, options) => page.screenshot({ path: join(args.out, `${name}.png`), ...options }),
};

for (const [name, options, step] of steps) {
  if (args.only && args.only !== name) continue;
  const before = reasons.length;
  const started = Date.now();
  const browser = await open(options);
  try {
    await step({ ...tools, page: browser.page, api: new Recorder(browser.page) });
  } catch (err) {
    reasons.push(`${name}: ${err.message.split('\n').slice(0, 6).join(' | ')}`);
    await tools.shot(browser.page, `failed-${name.replaceAll(' ', '-')}`).catch(() => {});
  }
  for (const p of browser.problems.filter((p) => !options?.expected?.test(p))) reasons.push(`${name}: ${p}`);
  await browser.page.unrouteAll({ behavior: 'ignoreErrors' });
  await browser.close();
  console.log(`${reasons.length === before ? 'ok  ' : 'FAIL'} ${name} (${Date.now() - started} ms)`);
}

for (const r of reasons) console.error(`- ${r}`);
console.log(`${checks} checks, ${reasons.length} problems`);
process.exit(reasons.length ? 1 : 0);
