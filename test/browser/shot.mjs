// Takes one screenshot: node shot.mjs URL FILE [light|dark] [WIDTHxHEIGHT] [full]
import { open } from './browser.mjs';

const [url, file, theme = 'light', size = '1440x900', full] = process.argv.slice(2);
if (!url || !file) {
  console.error('usage: node shot.mjs URL FILE [light|dark] [WIDTHxHEIGHT] [full]');
  process.exit(2);
}
const [width, height] = size.split('x').map(Number);
const { page, problems, close } = await open({ width, height, theme });
try {
  await page.goto(url);
  await page.waitForTimeout(1500);
  await page.screenshot({ path: file, fullPage: full === 'full' });
} finally {
  await close();
}
for (const p of problems) console.error(p);
