import { describe, expect, it } from 'vitest';
import { bytes, count, exact, exactBytes, millis, missing, percent, rate, span } from './format.ts';

const plain = (s: string) => s.replaceAll('\u202f', ' ');

const table = (f: (n: number | null | undefined) => string, cases: [number | null | undefined, string][]) => {
  for (const [n, want] of cases) it(`${n} is ${want}`, () => expect(plain(f(n))).toBe(want));
};

describe('count', () => {
  table(count, [
    [null, missing],
    [undefined, missing],
    [Number.NaN, missing],
    [Number.POSITIVE_INFINITY, missing],
    [0, '0'],
    [7, '7'],
    [0.25, '0.25'],
    [999, '999'],
    [9999, '9,999'],
    [10_000, '10 k'],
    [12_345, '12.3 k'],
    [999_499, '999 k'],
    [999_500, '1 M'],
    [1_234_567, '1.23 M'],
    [3_400_000_000, '3.4 bn'],
    [1e13, '10 tn'],
    [1.5e16, '15000 tn'],
    [-12_345, '-12.3 k'],
  ]);
});

describe('bytes', () => {
  table(bytes, [
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1 kB'],
    [1234, '1.23 kB'],
    [3_400_000_000, '3.4 GB'],
    [2.72e15, '2.72 PB'],
    [null, missing],
  ]);
});

describe('millis', () => {
  table(millis, [
    [0, '0 ms'],
    [0.25, '250 µs'],
    [1.234, '1.23 ms'],
    [45.67, '45.7 ms'],
    [999.4, '999 ms'],
    [999.6, '1 s'],
    [61_000, '61 s'],
    [180_000, '3 min'],
    [null, missing],
  ]);
});

describe('percent', () => {
  table(percent, [
    [0, '0 %'],
    [0.00001, '< 0.01 %'],
    [0.0042, '0.42 %'],
    [0.5, '50 %'],
    [0.9995, '99.95 %'],
    [0.99999, '> 99.99 %'],
    [1, '100 %'],
    [undefined, missing],
  ]);
});

it('writes exact figures with groups', () => {
  expect(exact(1234567)).toBe('1,234,567');
  expect(plain(exactBytes(1234567))).toBe('1,234,567 B');
});

it('writes rates and spans', () => {
  expect(rate(0)).toBe('0/s');
  expect(rate(0.4)).toBe('0.4/s');
  expect(plain(rate(12_345))).toBe('12.3 k/s');
  expect(plain(span(0.4))).toBe('0 s');
  expect(plain(span(75))).toBe('1 min');
  expect(plain(span(7200))).toBe('2 h');
  expect(plain(span(5 * 86400))).toBe('5 d');
});
