import * as fc from 'fast-check';
import { SharedHeap } from '../../src/memory/shared-heap';

test('blocks are aligned, within the memory, and never overlap, whatever the order of allocations and releases', () => {
  const step = fc.oneof(
    fc.record({ allocate: fc.integer({ min: 0, max: 300_000 }) }),
    fc.record({ release: fc.nat({ max: 1000 }) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), steps => {
      const heap = new SharedHeap();
      const blocks: { start: number; bytes: number }[] = [];
      for (const each of steps) {
        if ('allocate' in each) {
          blocks.push({ start: heap.allocate(each.allocate), bytes: each.allocate });
        } else if (blocks.length > 0) {
          const [block] = blocks.splice(each.release % blocks.length, 1);
          heap.release(block!.start, block!.bytes);
        }
        const sorted = [...blocks].sort((a, b) => a.start - b.start || a.bytes - b.bytes);
        sorted.forEach(({ start, bytes }, i) => {
          expect(start % 16).toBe(0);
          expect(start).toBeGreaterThan(0);
          expect(start + bytes).toBeLessThanOrEqual(sorted[i + 1]?.start ?? heap.memory.buffer.byteLength);
        });
      }
    }),
    { numRuns: 50 },
  );
});

test('released memory serves again, for blocks of other sizes too', () => {
  const heap = new SharedHeap();
  const mebibyte = 1024 * 1024;
  for (let size = 1; size <= 200; size++) heap.release(heap.allocate(size * mebibyte), size * mebibyte);
  expect(heap.memory.buffer.byteLength).toBeLessThan(202 * mebibyte);

  const [first, second] = [heap.allocate(mebibyte), heap.allocate(mebibyte)];
  heap.allocate(64);
  heap.release(first, mebibyte);
  heap.release(second, mebibyte);
  expect(heap.allocate(2 * mebibyte)).toBe(first); // the two gaps were joined
});

test('a full memory is a coded error', () => {
  const heap = new SharedHeap();
  expect(() => heap.allocate(2 ** 32)).toThrow(expect.objectContaining({ code: 'ERR_OUT_OF_MEMORY' }));
});
