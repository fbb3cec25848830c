import { ENTRY_ROUTES } from '../../../src/compression/dgc-options';
import { type LinkCost, localLinks } from '../../../src/exchange/link-cost';
import { chooseRoute, type CostedTensor, expectedLoad, pricesOf } from '../../../src/exchange/routes/choose-route';
import { ring } from '../../../src/exchange/routes/ring';

/** A gradient of the size of ResNet-50's. */
const ELEMENTS = 25_600_000;
const step = (density: number): CostedTensor[] => [
  { elementCount: ELEMENTS, count: Math.ceil(ELEMENTS * density), isWhole: false },
];
/** Links of so many bits a second. */
const linksOf = (rate: number): LinkCost => ({ byteNs: 8e9 / rate, hopNs: 300_000 });
const GIGABIT = linksOf(1e9);
const routeOf = (tensors: readonly CostedTensor[], worldSize: number, links: LinkCost) =>
  chooseRoute(expectedLoad(tensors, 'float16'), pricesOf(worldSize, links));
const cheapest = (density: number, worldSize: number, links: LinkCost) => routeOf(step(density), worldSize, links);

test.each([
  // The faster one, as measured: docs/performance.md.
  [2, 'one host', localLinks(), { 0.25: 'dense', 0.0625: 'sparse', 0.015625: 'sparse', 0.001: 'sparse' }],
  [4, 'one host', localLinks(), { 0.25: 'dense', 0.0625: 'sparse', 0.015625: 'sparse', 0.001: 'sparse' }],
  [4, '1 Gbit/s', GIGABIT, { 0.25: 'sparse', 0.0625: 'sparse', 0.001: 'sparse' }],
  [64, '1 Gbit/s', GIGABIT, { 0.25: 'dense', 0.0625: 'dense', 0.001: 'sparse' }],
  // 109 MB instead of 184, and more work.
  [10, '10 Gbit/s', linksOf(1e10), { 0.25: 'dense' }],
  [10, '100 Mbit/s', linksOf(1e8), { 0.25: 'sparse' }],
  [10, 'one host, links paced to 100 Mbit/s', localLinks(80), { 0.25: 'sparse' }],
])('a ring of %i, %s', (worldSize, _, links, routes) => {
  for (const [density, expected] of Object.entries(routes)) {
    expect([density, cheapest(Number(density), worldSize, links)]).toEqual([density, expected]);
  }
});

test('hops tell in a small model', () => {
  const small = [{ elementCount: 138_698, count: 34_675, isWhole: false }];
  expect(routeOf(small, 4, localLinks())).toBe('sparse');
});

test('as the density rises, the route changes once, from sparse to dense', () => {
  for (const worldSize of [2, 3, 8, 64]) {
    const routes = [0.0001, 0.001, 0.004, 0.015, 0.06, 0.25, 0.5, 0.9].map(density =>
      cheapest(density, worldSize, localLinks()),
    );
    expect(routes[0]).toBe('sparse');
    expect(routes.at(-1)).toBe('dense');
    expect(routes.filter((each, i) => i > 0 && each !== routes[i - 1])).toHaveLength(1);
  }
});

test('the reduce-scatter is the fastest of all routes where many ranks have slow links, and taken only if it is allowed', () => {
  const load = expectedLoad(step(0.001), 'float16');
  const among = (worldSize: number, links: LinkCost) => chooseRoute(load, pricesOf(worldSize, links), ENTRY_ROUTES);
  expect([1, 2, 4, 8, 64].map(worldSize => among(worldSize, linksOf(1e8)))).toEqual([
    ...['sparse', 'sparse', 'scatter', 'scatter', 'scatter'],
  ]);
  expect([2, 4].map(worldSize => among(worldSize, localLinks()))).toEqual(['sparse', 'sparse']);
  const far: LinkCost = { ...linksOf(1e8), hopNs: 50_000_000 };
  expect(among(8, far)).toBe('sparse');
  for (const worldSize of [4, 64]) expect(cheapest(0.001, worldSize, linksOf(1e8))).toBe('sparse');
});

test('a ring of one takes the first route', () => {
  expect(cheapest(0.9, 1, localLinks())).toBe('sparse');
});

test('the dense ring sends 2(N − 1)/N of the gradient', () => {
  const sent = (worldSize: number) =>
    ring.cost(expectedLoad(step(0.001), 'float16'), pricesOf(worldSize, localLinks()))!.sentBytes;
  expect([1, 4].map(sent)).toEqual([0, 1.5 * 4 * ELEMENTS]);
});

test('tensors that are sent whole take the dense ring from some ranks on', () => {
  const sparse = { elementCount: ELEMENTS, count: 25_600, isWhole: false };
  const whole = (elementCount: number) => ({ elementCount, count: elementCount, isWhole: true });
  const routes = [2, 4, 8, 16, 64].map(worldSize => routeOf([sparse, whole(54_120)], worldSize, linksOf(1e8)));
  expect(routes).toEqual(['sparse', 'mixed', 'mixed', 'mixed', 'mixed']);
  // A few numbers are gathered in any case: the dense ring would have no fewer bytes.
  expect(routeOf([sparse, whole(64)], 64, linksOf(1e8))).toBe('sparse');
});
