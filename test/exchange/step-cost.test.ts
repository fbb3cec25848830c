import { type LinkCost, localLinks } from '../../src/exchange/link-cost';
import { costOf } from '../../src/exchange/step-cost';

/** A gradient of the size of ResNet-50's. */
const ELEMENTS = 25_600_000;
const step = (density: number) => [
  {
    codec: { format: 'float16' as const },
    tensors: [{ elementCount: ELEMENTS, count: Math.ceil(ELEMENTS * density), dense: false }],
  },
];
/** Links of so many bits a second. */
const linksOf = (rate: number): LinkCost => ({ byteNs: 8e9 / rate, hopNs: 300_000 });
const GIGABIT = linksOf(1e9);
const cheapest = (density: number, worldSize: number, links: LinkCost) =>
  costOf(step(density), worldSize, links).cheapest;

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
])('a ring of %i, %s', (worldSize, _, links, travels) => {
  for (const [density, expected] of Object.entries(travels)) {
    expect([density, cheapest(Number(density), worldSize, links)]).toEqual([density, expected]);
  }
});

test('hops tell in a small model', () => {
  const small = [
    { codec: { format: 'float16' as const }, tensors: [{ elementCount: 138_698, count: 34_675, dense: false }] },
  ];
  expect(costOf(small, 4, localLinks()).cheapest).toBe('sparse');
});

test('as the density rises, travel changes once, from sparse to dense', () => {
  for (const worldSize of [2, 3, 8, 64]) {
    const travels = [0.0001, 0.001, 0.004, 0.015, 0.06, 0.25, 0.5, 0.9].map(density =>
      cheapest(density, worldSize, localLinks()),
    );
    expect(travels[0]).toBe('sparse');
    expect(travels.at(-1)).toBe('dense');
    expect(travels.filter((each, i) => i > 0 && each !== travels[i - 1])).toHaveLength(1);
  }
});

test('in a ring of one travel is sparse, and dense would send nothing', () => {
  expect(costOf(step(0.9), 1, localLinks())).toEqual({ cheapest: 'sparse', denseBytes: 0 });
});

test('the dense ring sends 2(N − 1)/N of the gradient', () => {
  expect(costOf(step(0.001), 4, localLinks()).denseBytes).toBe(1.5 * 4 * ELEMENTS);
});

test('tensors that are sent whole take the dense ring from some ranks on', () => {
  const resnet50 = [
    {
      codec: { format: 'float16' as const },
      tensors: [
        { elementCount: ELEMENTS, count: 25_600, dense: false },
        { elementCount: 54_120, count: 54_120, dense: true },
      ],
    },
  ];
  const travels = [2, 4, 8, 16, 64].map(worldSize => costOf(resnet50, worldSize, linksOf(1e8)).cheapest);
  expect(travels).toEqual(['sparse', 'mixed', 'mixed', 'mixed', 'mixed']);
  // A few numbers are gathered in any case: the dense ring would have no fewer bytes.
  const small = [
    { ...resnet50[0]!, tensors: [resnet50[0]!.tensors[0]!, { elementCount: 64, count: 64, dense: true }] },
  ];
  expect(costOf(small, 64, linksOf(1e8)).cheapest).toBe('sparse');
});
