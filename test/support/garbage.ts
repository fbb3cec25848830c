import * as buffers from '../../src/memory/buffers';

/**
 * Leaves what closed exchanges had to the next collection. A collection of the heap of a test takes most of the time of
 * a small exchange; test/exchange/several-arenas.test.ts shows, in a process of its own, that the memory is given back.
 */
export function collectLess(): void {
  jest.spyOn(buffers, 'collectGarbage').mockImplementation(() => undefined);
}
