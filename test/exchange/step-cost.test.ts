import { costOf } from '../../src/exchange/step-cost';

/** A gradient of the size of ResNet-50's. */
const ELEMENTS = 25_600_000;
const step = (density: number) => [
  {
    codec: { format: 'float16' as const },
    tensors: [{ elementCount: ELEMENTS, count: Math.ceil(ELEMENTS * density) }],
  },
];
const way = (density: number, worldSize: number, isLocal: boolean) => costOf(step(density), worldSize, isLocal).cheaper;

test.each([
  // As measured, the faster way: docs/performance.md.
  [2, true, { 0.25: 'dense', 0.0625: 'sparse', 0.015625: 'sparse', 0.001: 'sparse' }],
  [4, true, { 0.25: 'dense', 0.0625: 'sparse', 0.015625: 'sparse', 0.001: 'sparse' }],
  [4, false, { 0.25: 'sparse', 0.0625: 'sparse', 0.001: 'sparse' }],
  [64, false, { 0.25: 'dense', 0.0625: 'dense', 0.001: 'sparse' }],
])('a ring of %i, on one host: %p', (worldSize, isLocal, ways) => {
  for (const [density, expected] of Object.entries(ways)) {
    expect([density, way(Number(density), worldSize, isLocal)]).toEqual([density, expected]);
  }
});

test('hops tell in a small model', () => {
  const small = [{ codec: { format: 'float16' as const }, tensors: [{ elementCount: 138_698, count: 34_675 }] }];
  expect(costOf(small, 4, true).cheaper).toBe('sparse');
});

test('as density rises the way changes once, from sparse to dense', () => {
  for (const worldSize of [2, 3, 8, 64]) {
    const ways = [0.0001, 0.001, 0.004, 0.015, 0.06, 0.25, 0.5, 0.9].map(density => way(density, worldSize, true));
    expect(ways[0]).toBe('sparse');
    expect(ways.at(-1)).toBe('dense');
    expect(ways.filter((each, i) => i > 0 && each !== ways[i - 1])).toHaveLength(1);
  }
});

test('a ring of one takes the sparse way, and would send nothing by the other', () => {
  expect(costOf(step(0.9), 1, true)).toEqual({ cheaper: 'sparse', denseBytes: 0 });
});

test('the dense ring sends 2(N − 1)/N of the gradient', () => {
  expect(costOf(step(0.001), 4, true).denseBytes).toBe(1.5 * 4 * ELEMENTS);
});
