import { chartPage } from '../../../src/bench/collectives/chart-page';
import { chartsOf } from '../../../src/bench/collectives/charts';
import type { CollectiveRow } from '../../../src/bench/collectives/row';
import { readVersion } from '../../../src/version';
import { openInBrowser, testInBrowser } from '../../support/browser';

const row = (elements: number, more: Partial<CollectiveRow> = {}): CollectiveRow => ({
  ...{ collective: 'all-reduce', ranks: 4, elements, bytes: 4 * elements, type: 'float32', op: 'sum' },
  ...{
    transport: 'auto',
    carriedBy: ['tcp-lane-encrypted'],
    algorithm: 'ring',
    iterations: 5,
    timeUs: { min: 90 + elements, p50: 100 + elements, p99: 200 + elements },
  },
  ...{ algbwGBps: elements / 1e4, busbwGBps: elements / 1e5, wireBytesSent: 8 * elements, wrong: 0 },
  ...more,
});
const OPTIONS = { command: 'gradring bench all-reduce <&">', startedAt: new Date(Date.UTC(2020, 1, 2, 3, 4, 5)) };

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

/** What a browser makes of a page with these rows. */
const openRows = (rows: readonly CollectiveRow[], script?: string) => openInBrowser(chartPage(rows, OPTIONS), script);

testInBrowser.each([
  ['two curves', [row(1), row(4_096), row(1 << 20)], '2'],
  ['one point', [row(4_096)], '2'],
  ['none', [row(0)], undefined],
])('a browser draws it: %s', (_, rows, drawn) => {
  const { dom, console } = openRows(rows);
  expect(/<html[^>]* data-drawn="(\d+)"/.exec(dom)?.[1]).toBe(drawn);
  expect(dom).toMatch(/<h2>All rows<\/h2>/);
  if (drawn !== undefined) expect(dom).toMatch(/<canvas[^>]*>[^]*size[^]*p50/);
  expect(console).not.toMatch(/CONSOLE/);
});

testInBrowser('the legend has the values of the largest size until the pointer is at another, and again after', () => {
  const script = `
    const legends = [];
    const note = () => legends.push(document.querySelector('.u-legend').innerText.replace(/\\s+/g, ' '));
    const over = document.querySelector('.u-over');
    const plot = over.getBoundingClientRect();
    const point = type => over.dispatchEvent(new MouseEvent(type, { clientX: plot.left + 1, clientY: plot.top + 9 }));
    note();
    point('mouseenter');
    point('mousemove');
    note();
    point('mouseleave');
    note();
    document.documentElement.dataset.legends = JSON.stringify(legends);`;
  const { dom, console } = openRows([row(1), row(4_096), row(1 << 20)], script);
  const [before, during, after] = JSON.parse(
    /data-legends="([^"]*)"/.exec(dom)![1]!.replaceAll('&quot;', '"'),
  ) as string[];
  expect(before).toMatch(/^size ?4 MiB p50 ?1\.05 s p99 ?1\.05 s min ?1\.05 s$/);
  expect(during).toMatch(/^size ?4 B p50 ?101 µs p99 ?201 µs min ?91 µs$/);
  expect(after).toBe(before);
  expect(console).not.toMatch(/CONSOLE/);
});
