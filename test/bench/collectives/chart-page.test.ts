import { chartPage } from '../../../src/bench/collectives/chart-page';
import { chartsOf } from '../../../src/bench/collectives/charts';
import type { CollectiveRow } from '../../../src/bench/collectives/row';
import { readVersion } from '../../../src/version';
import { OPTIONS, row } from './chart-rows';

test('one collective has its median with a band, and its busbw', () => {
  const [time, bandwidth, ...more] = chartsOf([row(16), row(1), row(64, { busbwGBps: 0 })]);
  expect(more).toEqual([]);
  expect(time).toMatchObject({ unit: 'µs', xs: [4, 64, 256], band: [1, 2] });
  expect(time!.series.map(({ label, values }) => [label, ...values])).toEqual([
    ['p50', 101, 116, 164],
    ['p99', 201, 216, 264],
    ['min', 91, 106, 154],
  ]);
  expect(bandwidth!.note).toMatch(/^busbw is .* Compare it with the speed of your network\.$/);
  expect(bandwidth!.series).toEqual([
    { label: 'float32, sum', color: 1, values: [1 / 1e5, 16 / 1e5, null], thin: false },
  ]);
});

test('several densities or ways have a curve each', () => {
  const sparse = { type: undefined, op: undefined, values: 'int8', way: 'sparse' } as unknown as Partial<CollectiveRow>;
  const rows = [
    row(1, { ...sparse, density: 0.1 }),
    row(9, { ...sparse, density: 0.1 }),
    row(9, { ...sparse, density: 0.2 }),
  ];
  const [time] = chartsOf(rows);
  expect(time!.series.map(({ label, values }) => [label, ...values])).toEqual([
    ['density 0.1, int8, sparse', 101, 109],
    ['density 0.2, int8, sparse', null, 109],
  ]);
  expect(time!.band).toBeUndefined();
});

test('a barrier has no charts', () => {
  expect(chartsOf([row(0)])).toEqual([]);
});

test('the page holds everything: table, parameters, licence, and fetches nothing', () => {
  const page = chartPage([row(1), row(1_024)], OPTIONS);
  expect(page).toContain('<h1>all-reduce, 4 ranks</h1>');
  expect(page).toContain('<dd>gradring bench all-reduce &lt;&amp;&quot;&gt;</dd>');
  expect(page).toContain('2020-02-02 03:04:05 UTC');
  expect(page).toContain(`<dd>gradring ${readVersion()}, Node ${process.version}, `);
  expect(page).toContain('<dd>a TCP connection beside each ZeroMQ link, encrypted (TLS) (--transport auto)</dd>');
  expect(page).toContain('<dd>by the ring</dd>');
  expect(page).toContain('<td>1,024</td>');
  expect(page).toContain('Permission is hereby granted');
  expect(page).not.toMatch(/<(script|img|link)[^>]*(src|href)="(?!data:)/);
  expect(page).not.toMatch(/@import|url\(/);
});

// What a browser draws: test/slow/browser-pages.test.ts.
