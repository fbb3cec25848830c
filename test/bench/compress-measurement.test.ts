import { measureCompression, memoryBytes } from '../../src/bench/compress-measurement';
import { GradientSource } from '../../src/bench/gradient-source';
import { SharedHeap } from '../../src/memory/shared-heap';
import { instantiateMeasuredKernels, type MeasuredKernels } from '../../src/bench/stream-floor';

const ELEMENTS = 200_000;

/** The kernels, with a record of the calls that tell the parts of a step apart. */
function recorded(kernels: MeasuredKernels): {
  kernels: MeasuredKernels;
  calls: string[];
  pointers: Record<string, Set<number>>;
} {
  const calls: string[] = [];
  const pointers = { floor: new Set<number>(), step: new Set<number>(), gradient: new Set<number>() };
  return {
    calls,
    pointers,
    kernels: {
      ...kernels,
      sumOfSquares: (data, count) => {
        calls.push('norm');
        return kernels.sumOfSquares(data, count);
      },
      streamFloor: (gradient, momentum, residual, count) => {
        calls.push('floor');
        pointers.gradient.add(gradient);
        pointers.floor.add(momentum).add(residual);
        kernels.streamFloor(gradient, momentum, residual, count);
      },
      accumulate: (accumulation, gathering) => {
        calls.push('compress');
        pointers.gradient.add(accumulation.gradient);
        pointers.step.add(accumulation.momentum).add(accumulation.residual);
        return kernels.accumulate(accumulation, gathering);
      },
      // Once a block.
      quantize: (values, count, quantization, symbols) => {
        if (calls.at(-1) !== 'encode') calls.push('encode');
        return kernels.quantize(values, count, quantization, symbols);
      },
      settle: (momentum, residual, indices, values, count) => {
        calls.push('settle');
        kernels.settle(momentum, residual, indices, values, count);
      },
    },
  };
}

function measure(clipNorm?: number) {
  const heap = new SharedHeap();
  const record = recorded(instantiateMeasuredKernels(heap.memory));
  const source = new GradientSource('normal', ELEMENTS, 1);
  const before = heap.allocate(64);
  const times = measureCompression(heap, record.kernels, source, {
    elements: ELEMENTS,
    density: 0.01,
    format: 'float16',
    iterations: 2,
    clipNorm,
  });
  return { times, before, after: heap.allocate(64), ...record };
}

test('floor and step take turns, over memory of their own but the same gradient', () => {
  const { calls, pointers, times } = measure();
  const turn = ['floor', 'compress', 'encode', 'settle'];
  expect(calls.slice(0, 8)).toEqual([...turn, ...turn]);
  expect(calls.length % 4).toBe(0);
  expect(calls.length / 4).toBeGreaterThan(2); // Some were not timed.
  expect([pointers['floor']!.size, pointers['step']!.size, pointers['gradient']!.size]).toEqual([2, 2, 1]);
  expect(new Set([...pointers['floor']!, ...pointers['step']!]).size).toBe(4);
  expect(Object.keys(times.phaseMs)).toEqual(['compressMs', 'encodeMs', 'settleMs']);
});

test('the norm is a phase of a step that clips', () => {
  const { calls, times } = measure(1);
  expect(calls.slice(0, 5)).toEqual(['floor', 'norm', 'compress', 'encode', 'settle']);
  expect(Object.keys(times.phaseMs)).toEqual(['normMs', 'compressMs', 'encodeMs', 'settleMs']);
});

test('the heap gets its memory back', () => {
  const { before, after } = measure();
  expect(after).toBe(before + 64);
});

test('the memory is about 20 bytes an element and 8 for each that is sent', () => {
  expect(memoryBytes({ elements: 25_600_000, density: 0.25 }) / 25_600_000).toBeCloseTo(22.5, 1);
});
