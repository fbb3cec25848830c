import { parseSize, sizesBetween, sizeText } from '../../../src/bench/collectives/byte-sizes';
import { collectiveNamed } from '../../../src/bench/collectives/collectives';
import type { CollectiveName } from '../../../src/bench/collectives/collective-benchmark';
import type { Words } from '../../../src/bench/collectives/options';
import { planOf } from '../../../src/bench/collectives/plan';
import { bitsPerSecond } from '../../../src/bench/collectives/netlab';
import { TimeLeft } from '../../../src/bench/collectives/time-left';

const plan = (name: CollectiveName, words: Partial<Words> = {}, ranks = 4) =>
  planOf(
    collectiveNamed(name),
    {
      ...{ json: false, 'no-check': false, transport: 'auto', 'step-factor': '4' },
      ...{ density: '0.001', values: 'float16', way: 'auto', ...words },
    },
    ranks,
  );
const elementsOf = (name: CollectiveName, words: Partial<Words>, ranks?: number) =>
  plan(name, words, ranks).cases.map(({ elements }) => elements);

test.each([
  ['4', 4],
  ['64K', 65_536],
  ['1m', 2 ** 20],
  ['100MB', 100 * 2 ** 20],
  ['1.5KiB', 1_536],
  ['4G', 2 ** 32],
])('size %s is %i bytes', (text, bytes) => {
  expect(parseSize(text, 'max-bytes')).toBe(bytes);
});

test.each(['', '0', '-4', '5G', '1T', '4 4', '0.5', 'K', '1e3', '0x10'])("'%s' is no size", text => {
  expect(() => parseSize(text, 'max-bytes')).toThrow(`--max-bytes is '${text}'; it must be a size from 1 to 4G`);
});

test('sizes for people', () => {
  expect([1, 1_023, 1_024, 1_536, 2 ** 20, 3 * 2 ** 30].map(sizeText)).toEqual([
    '1 B',
    '1023 B',
    '1 KiB',
    '1.5 KiB',
    '1 MiB',
    '3 GiB',
  ]);
});

test('sizes grow by the factor, and always grow', () => {
  expect(sizesBetween(4, 256, 4)).toEqual([4, 16, 64, 256]);
  expect(sizesBetween(4, 255, 4)).toEqual([4, 16, 64]);
  expect(sizesBetween(1, 5, 1.1)).toEqual([1, 2, 3, 4, 5]);
});

test('elements follow from the sizes, each number once', () => {
  expect(elementsOf('all-reduce', { 'min-bytes': '1', 'max-bytes': '64' })).toEqual([1, 4, 16]);
  expect(elementsOf('all-reduce', { type: 'float64', 'max-bytes': '64' })).toEqual([1, 2, 8]);
  expect(elementsOf('reduce-scatter', { type: 'uint8', 'max-bytes': '64' })).toEqual([4, 16, 64]);
  expect(elementsOf('all-gather', { 'max-bytes': '1K' }, 3)).toEqual([3, 6, 18, 66, 258]);
  expect(elementsOf('barrier', {})).toEqual([0]);
  expect(elementsOf('sparse-all-reduce', {})).toEqual([1_000_000, 25_600_000]);
  expect(elementsOf('sparse-all-reduce', { elements: '7,9' })).toEqual([7, 9]);
  expect(elementsOf('sparse-all-reduce', { 'min-bytes': '4K', 'max-bytes': '64K' })).toEqual([1_024, 4_096, 16_384]);
});

test('large arrays have fewer iterations, within bounds', () => {
  const cases = plan('all-reduce', { 'max-bytes': '1G' }).cases;
  expect(cases[0]).toMatchObject({ elements: 1, iterations: 200, warmUp: 100, warmUpMs: 500 });
  expect(cases.at(-1)).toMatchObject({ elements: 2 ** 28, iterations: 5, warmUp: 3 });
  expect(cases.find(({ elements }) => elements === 2 ** 22)!.iterations).toBe(16);
  const asked = plan('all-reduce', { iterations: '3', 'warm-up': '0' }).cases[0];
  expect(asked).toMatchObject({ iterations: 3, warmUp: 0, warmUpMs: 0 });
  const long = plan('all-reduce', { iterations: '30', 'warm-up': '2.5s' }).cases[0];
  expect(long).toMatchObject({ iterations: 30, warmUp: 15, warmUpMs: 2500 });
  const two = plan('all-reduce', { 'min-bytes': '1M', 'max-bytes': '4M' }).cases;
  expect(two.map(({ warmUpMs }) => warmUpMs)).toEqual([1500, 1500]);
});

test('a sparse plan has every combination', () => {
  const words = { elements: '10', density: '0.1,0.2', values: 'int8,log4', way: 'sparse,dense' };
  expect(plan('sparse-all-reduce', words).cases.map(({ sparse }) => Object.values(sparse!).join())).toEqual(
    ['0.1,int8', '0.1,log4', '0.2,int8', '0.2,log4'].flatMap(each => [`${each},sparse`, `${each},dense`]),
  );
});

test('a broadcast ends at rank 0 unless another root is named', () => {
  expect(plan('broadcast').cases[0]!.root).toBe(1);
  expect(plan('broadcast', {}, 1).cases[0]!.root).toBe(0);
  expect(plan('broadcast', { root: '3' }).cases[0]!.root).toBe(3);
});

test('the encryption of links is in the plan, or else left to the environment', () => {
  const linksOfPlan = (words: Partial<Words>) => plan('all-reduce', words).links;
  expect(linksOfPlan({ transport: 'tcp', encryption: 'off' })).toEqual({ transport: 'tcp', encryption: 'off' });
  expect(linksOfPlan({})).toEqual({ transport: 'auto' });
});

test.each<[CollectiveName, Partial<Words>, string]>([
  ['all-reduce', { 'min-bytes': '2K', 'max-bytes': '1K' }, '--min-bytes 2K is more than --max-bytes 1K'],
  ['all-reduce', { 'step-factor': '1' }, "--step-factor is '1'; it must be a number greater than 1"],
  ['all-reduce', { iterations: '0' }, "--iterations is '0'; it must be a whole number, 1 or more"],
  [
    'all-reduce',
    { 'warm-up': '-1' },
    "--warm-up is '-1'; it must be a whole number, 0 or more, or seconds, such as 5s",
  ],
  ['all-reduce', { 'warm-up': '-1s' }, "--warm-up is '-1s'; it must be a whole number, 0 or more, or seconds"],
  ['all-reduce', { 'warm-up': 's' }, "--warm-up is 's'; it must be a whole number, 0 or more, or seconds"],
  [
    'all-reduce',
    { type: 'float' },
    "--type is 'float'; it must be one of float32, float64, float16, bfloat16, int32, int64, uint64, uint8",
  ],
  ['all-reduce', { op: 'median' }, "--op is 'median'; it must be one of sum, product, mean, min, max"],
  [
    'all-reduce',
    { op: 'mean', type: 'int32' },
    '--op mean needs a float type, because means of --type int32 are not whole',
  ],
  ['all-reduce', { transport: 'udp' }, "--transport is 'udp'; it must be one of auto, tcp, ipc"],
  ['all-reduce', { encryption: 'no' }, "--encryption is 'no'; it must be one of auto, on, off"],
  ['broadcast', { root: '4' }, "--root is '4'; it must be a rank, 0 … 3"],
  ['sparse-all-reduce', { density: '1' }, "--density is '1'; it must be more than 0 and less than 1"],
  ['sparse-all-reduce', { way: 'fast' }, "--way is 'fast'; it must be one of auto, sparse, dense"],
  ['sparse-all-reduce', { elements: '5', 'max-bytes': '1K' }, 'Use either --elements or sizes in bytes'],
])('%s refuses %j', (name, words, message) => {
  expect(() => plan(name, words)).toThrow(message);
});

test('rates of links', () => {
  expect([bitsPerSecond('1gbit'), bitsPerSecond('2.5mbit'), bitsPerSecond('100kbit')]).toEqual([1e9, 2.5e6, 1e5]);
  for (const wrong of ['1', '0gbit', '1gbps', 'fast', '-1gbit']) {
    expect(() => bitsPerSecond(wrong)).toThrow(`--netlab is '${wrong}'; it must be a rate such as 10mbit`);
  }
});

test('the time left counts bytes and iterations', () => {
  let now = 0;
  const { cases } = plan('all-reduce', { 'min-bytes': '1M', 'max-bytes': '4M', iterations: '8', 'warm-up': '2' });
  const left = new TimeLeft(cases, () => now);
  expect(left.text({ row: 0, iterations: 0 })).toBe('');
  now = 5_000; // for 5 of 10 iterations of 1.25 MiB; to come are 5 more, and 10 of 4.25 MiB
  expect(left.text({ row: 0, iterations: 5 })).toBe('39 s left');
  now = 10_000;
  expect(left.text({ row: 1, iterations: 0 })).toBe('34 s left');
  now = 100_000;
  expect(left.text({ row: 1, iterations: 1 })).toBe('4 min left');
});

test('the time left counts the time of a warm-up', () => {
  let now = 0;
  const { cases } = plan('all-reduce', { 'min-bytes': '1M', 'max-bytes': '4M', iterations: '8', 'warm-up': '5s' });
  const left = new TimeLeft(cases, () => now);
  expect(left.text({ row: 0, iterations: 0 })).toBe('');
  now = 4_000; // for 4 of 12 iterations of 1.25 MiB; to come are 8 more, 12 of 4.25 MiB, and both warm-ups' times
  expect(left.text({ row: 0, iterations: 4 })).toBe('59 s left');
  now = 10_000; // 5 of those for 5 iterations
  expect(left.text({ row: 0, iterations: 5 })).toBe('53 s left');
});
