import { defineConfig } from 'vitest/config';
import { mockPlugin } from './dev/plugin.ts';

// SPATE_API names a running Spate (http://127.0.0.1:8080) to develop against; without it, `npm run dev` and
// `npm run preview` answer API calls with generated traffic. The build contains neither.
const api = process.env.SPATE_API;

export default defineConfig({
  plugins: api ? [] : [mockPlugin()],
  server: api ? { proxy: { '/client': api } } : {},
  preview: api ? { proxy: { '/client': api } } : {},
  build: {
    target: 'es2022',
    // light-dark() stays as it is.
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    cssCodeSplit: false,
  },
  test: { include: ['src/**/*.test.ts', 'dev/**/*.test.ts'], environment: 'node' },
});
