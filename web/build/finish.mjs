// After `vite build`: leaves a .br and a .gz beside every text file of dist, so that the server never compresses, and
// prints what a first visit loads. Fails when the shell (HTML, script, style) grows over its budget.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const dist = new URL('../dist', import.meta.url).pathname;
const budget = 60 * 1024;
let shell = 0;

// The licences of what ends up in the binary.
const parts = ['preact', '@preact/signals', '@preact/signals-core', 'uplot', '@fontsource-variable/inter'];
const licences = parts.map(
  (p) => `${p}\n\n${readFileSync(new URL(`../node_modules/${p}/LICENSE`, import.meta.url), 'utf8')}`,
);
writeFileSync(join(dist, 'licences.txt'), licences.join('\n\n----------\n\n'));

for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile()) continue;
  const name = join(entry.parentPath, entry.name);
  if (!/\.(html|js|css|svg|json|webmanifest|txt)$/.test(name)) continue;
  const raw = readFileSync(name);
  const gz = gzipSync(raw, { level: 9 });
  const br = brotliCompressSync(raw, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } });
  writeFileSync(`${name}.gz`, gz);
  writeFileSync(`${name}.br`, br);
  if (/\.(html|js|css)$/.test(name)) shell += gz.length;
  console.log(`${name.slice(dist.length + 1)}: ${raw.length} bytes, gzip ${gz.length}, brotli ${br.length}`);
}
writeFileSync(join(dist, '.gitkeep'), '');
console.log(`shell: ${(shell / 1024).toFixed(1)} KiB gzip of ${budget / 1024}`);
if (shell > budget) {
  console.error('the shell is over its budget');
  process.exit(1);
}
