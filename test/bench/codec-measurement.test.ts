import { measureCodec } from '../../src/bench/codec-measurement';
import { GradientSource } from '../../src/bench/gradient-source';
import { SharedHeap } from '../../src/memory/shared-heap';
import { VALUE_FORMATS, type ValueFormat } from '../../src/compression/value-format';
import type { KernelMemory } from '../../src/kernel-memory';
import type { Kernels } from '../../src/kernels/kernels';
import { instantiateKernels } from '../../src/kernels/wasm-kernels';

const MODEL = [
  { name: 'weights', shape: [300, 500] },
  { name: 'bias', shape: [500] },
  { name: 'filter', shape: [3, 3, 64, 32] },
];
const SPARSE = 150_000 + 18_432;
const PARAMETERS = SPARSE + 500;

function measure({
  format = 'float16',
  density = 0.01,
  model = MODEL,
  change = kernels => kernels,
  heap = new SharedHeap(),
}: {
  format?: ValueFormat;
  density?: number;
  model?: typeof MODEL;
  change?: (kernels: Kernels, memory: KernelMemory) => Kernels;
  heap?: SharedHeap;
} = {}) {
  const kernels = change(instantiateKernels(heap.memory), heap.memory);
  const source = new GradientSource('normal', 150_000, 1);
  return measureCodec(heap, kernels, { model, format, density }, { steps: 2, source, sourceLength: 150_000, seed: 2 });
}

describe.each(VALUE_FORMATS)('%s', format => {
  test.each([0.0001, 0.01, 0.25, 0.5])('its numbers fit together at density %d', density => {
    const sizes = measure({ format, density });
    const { indexBytes, sparseValueBytes, denseValueBytes, overheadBytes, wireBytes, sparseEntries } = sizes;
    expect([sizes.parameters, sizes.denseBytes]).toEqual([PARAMETERS, 4 * PARAMETERS]);
    expect(indexBytes + sparseValueBytes + denseValueBytes + overheadBytes).toBe(wireBytes);
    expect(sizes.compressionRatio).toBeCloseTo((4 * PARAMETERS) / wireBytes, 3);
    expect(sparseEntries).toBe(Math.ceil(150_000 * density) + Math.ceil(18_432 * density));
    expect(sizes.denseEntries).toBe(500);
    expect(sizes.bitsPerIndex).toBeCloseTo((8 * indexBytes) / sparseEntries, 3);
    expect(sizes.bitsPerValue).toBeCloseTo((8 * sparseValueBytes) / sparseEntries, 3);
    expect(sizes.bitsPerDenseValue).toBeCloseTo((8 * denseValueBytes) / 500, 3);
    // Header and payload table, with the framing.
    expect(overheadBytes).toBeGreaterThan(64 + 2 + 20);
    expect(overheadBytes).toBeLessThan(150);
    // Where few indices are sent, that they come in whole bytes counts.
    expect(sizes.bitsPerIndex).toBeGreaterThan(sizes.entropyBitsPerIndex * 0.97);
    expect(sizes.bitsPerIndex).toBeLessThan(sizes.entropyBitsPerIndex * 1.05);
  });
});

test('the same arguments give the same bytes, whatever was measured before', () => {
  const heap = new SharedHeap();
  const first = measure({ heap });
  measure({ heap, format: 'log4', density: 0.25 });
  expect(measure({ heap })).toEqual(first);
});

test('a model without dense tensors says nothing of their values', () => {
  const sizes = measure({ model: [MODEL[0]!] });
  expect(sizes).toMatchObject({ denseEntries: 0, denseValueBytes: 0 });
  expect(sizes).not.toHaveProperty('bitsPerDenseValue');
});

test('the heap gets its memory back', () => {
  const heap = new SharedHeap();
  const before = heap.allocate(64);
  measure({ heap });
  expect(heap.allocate(64)).toBe(before + 64);
});

test.each<[string, (kernels: Kernels, memory: KernelMemory) => Partial<Kernels>]>([
  [
    'an index',
    (kernels, memory) => ({
      indicesOf: (gaps, count, first, elementCount, indices) => {
        const next = kernels.indicesOf(gaps, count, first, elementCount, indices);
        new Uint32Array(memory.buffer, indices, count)[count - 1]! ^= 1;
        return next;
      },
    }),
  ],
  [
    "a value's last bit",
    (kernels, memory) => ({
      dequantize: (symbols, count, quantization, values) => {
        const valid = kernels.dequantize(symbols, count, quantization, values);
        new Uint32Array(memory.buffer, values, count)[0]! ^= 1;
        return valid;
      },
    }),
  ],
])('that %s is decoded wrongly is noticed', (_, change) => {
  expect(() => measure({ change: (kernels, memory) => ({ ...kernels, ...change(kernels, memory) }) })).toThrow(
    /^Entries 0 to 1023 of tensor 0 were not decoded as they were sent\.$/,
  );
});
