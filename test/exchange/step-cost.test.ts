import { costOf } from '../../src/exchange/step-cost';

/** A gradient of the size of ResNet-50's. */
const ELEMENTS = 25_600_000;
const step = (density: number) => [
  {
    codec: { format: 'float16' as const },
    tensors: [{ elementCount: ELEMENTS, count: Math.ceil(ELEMENTS * density) }],
  },
];
const cheaper = (density: number, worldSize: number, isLocal: boolean) =>
  costOf(step(density), worldSize, isLocal).cheaper;

test.each([
  // The faster one, as measured: docs/performance.md.
  [2, true, { 0.25: 'dense', 0.0625: 'sparse', 0.015625: 'sparse', 0.001: 'sparse' }],
  [4, true, { 0.25: 'dense', 0.0625: 'sparse', 0.015625: 'sparse', 0.001: 'sparse' }],
  [4, false, { 0.25: 'sparse', 0.0625: 'sparse', 0.001: 'sparse' }],
  [64, false, { 0.25: 'dense', 0.0625: 'dense', 0.001: 'sparse' }],
])('a ring of %i, on one host: %p', (worldSize, isLocal, travels) => {
  for (const [density, expected] of Object.entries(travels)) {
    expect([density, cheaper(Number(density), worldSize, isLocal)]).toEqual([density, expected]);
  }
});

test('hops tell in a small model', () => {
  const small = [{ codec: { format: 'float16' as const }, tensors: [{ elementCount: 138_698, count: 34_675 }] }];
  expect(costOf(small, 4, true).cheaper).toBe('sparse');
});

test('as the density rises, travel changes once, from sparse to dense', () => {
  for (const worldSize of [2, 3, 8, 64]) {
    const travels = [0.0001, 0.001, 0.004, 0.015, 0.06, 0.25, 0.5, 0.9].map(density =>
      cheaper(density, worldSize, true),
    );
    expect(travels[0]).toBe('sparse');
    expect(travels.at(-1)).toBe('dense');
    expect(travels.filter((each, i) => i > 0 && each !== travels[i - 1])).toHaveLength(1);
  }
});

test('in a ring of one travel is sparse, and dense would send nothing', () => {
  expect(costOf(step(0.9), 1, true)).toEqual({ cheaper: 'sparse', denseBytes: 0 });
});

test('the dense ring sends 2(N − 1)/N of the gradient', () => {
  expect(costOf(step(0.001), 4, true).denseBytes).toBe(1.5 * 4 * ELEMENTS);
});
