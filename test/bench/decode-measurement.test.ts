import { measureDecoding, memoryBytes } from '../../src/bench/decode-measurement';
import { SharedHeap } from '../../src/memory/shared-heap';
import { instantiateMeasuredKernels, type MeasuredKernels } from '../../src/bench/stream-floor';

const ELEMENTS = 100_000;
const RANKS = 3;
const COUNT = 500;

function measure(heap = new SharedHeap(), change = (kernels: MeasuredKernels) => kernels) {
  const kernels = change(instantiateMeasuredKernels(heap.memory));
  return measureDecoding(heap, kernels, {
    elements: ELEMENTS,
    density: COUNT / ELEMENTS,
    ranks: RANKS,
    format: 'float32',
    iterations: 4,
    seed: 1,
  });
}

test('floor and sum take turns; the sum is of as many entries as the ranks have, the same in each turn', () => {
  const heap = new SharedHeap();
  const { memory } = heap;
  const calls: string[] = [];
  const sums: Float32Array[] = [];
  const added = new Map<number, number>();
  let sum = -1;
  const endTurn = (): void => {
    if (sum !== -1) sums.push(new Float32Array(memory.buffer, sum, ELEMENTS).slice());
  };
  measure(heap, kernels => ({
    ...kernels,
    streamFloor: (gradient, momentum, residual, count) => {
      endTurn();
      calls.push('floor');
      expect(count).toBe(ELEMENTS);
      kernels.streamFloor(gradient, momentum, residual, count);
    },
    // The tensor is smaller than a region, so that each rank's entries are added at once.
    scatterAddBelow: (into, indices, values, from, until, limit) => {
      calls.push('add');
      sum = into;
      if (sums.length === 0) {
        const of = new Float32Array(memory.buffer, values, until).subarray(from);
        new Uint32Array(memory.buffer, indices, until)
          .subarray(from)
          .forEach((index, i) => added.set(index, Math.fround((added.get(index) ?? 0) + of[i]!)));
      }
      return kernels.scatterAddBelow(into, indices, values, from, until, limit);
    },
  }));
  endTurn();
  const turn = ['floor', ...Array.from({ length: RANKS }, () => 'add')];
  expect(calls.slice(0, 8)).toEqual([...turn, ...turn]);
  expect(sums.length).toBeGreaterThan(4); // Some were not timed.
  for (const found of sums) expect(found).toEqual(sums[0]);
  // Ranks have entries of their own, though a few may be of the same element.
  expect(added.size).toBeGreaterThan(0.95 * RANKS * COUNT);
  const nonZero = [...sums[0]!.entries()].filter(([, value]) => value !== 0);
  expect(new Map(nonZero)).toEqual(new Map([...added].sort(([a], [b]) => a - b)));
});

test('times are in order, and the payloads as large as they should be', () => {
  const { timeMs, floorMs, timesFloor, payloadBytes } = measure();
  expect(timeMs.min).toBeGreaterThan(0);
  expect(timeMs.p50).toBeGreaterThanOrEqual(timeMs.min);
  expect(timeMs.p99).toBeGreaterThanOrEqual(timeMs.p50);
  expect(timesFloor).toBeCloseTo(timeMs.p50 / floorMs, 1);
  // Some 9 bits an index, and at most 32 a value.
  expect(payloadBytes).toBeGreaterThan((COUNT * (8 + 16)) / 8);
  expect(payloadBytes).toBeLessThan((COUNT * (11 + 32)) / 8);
});

test('the heap gets its memory back', () => {
  const heap = new SharedHeap();
  const before = heap.allocate(64);
  measure(heap);
  expect(heap.allocate(64)).toBe(before + 64);
});

test('the memory is about 16 bytes an element, half a byte for gathered entries, and 8 for each that is sent', () => {
  expect(memoryBytes({ elements: 25_600_000, density: 0.25 }) / 25_600_000).toBeCloseTo(18.5, 1);
});
