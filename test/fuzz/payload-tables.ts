import type { ExpectedTensor } from '../../src/wire/gradient-payload';

/** Tensors whose counts all ranks know. */
const known = (...tensors: [elementCount: number, count: number][]): ExpectedTensor[] =>
  tensors.map(([elementCount, count]) => ({ elementCount, count }));
/** Tensors of which the sender says how many elements travel. */
const told = (...elementCounts: number[]): ExpectedTensor[] =>
  elementCounts.map(elementCount => ({ elementCount, count: undefined }));

/**
 * The tensors that fuzzed payloads are for, with all that blocks can be: few indices and many, those without a choice
 * of codes, with `Subset` and without; nothing, all but one and all of a tensor; the end of a tensor at the end of a
 * block and just after it. An input names one by its number, so new ones go to the end.
 */
export const TABLES: readonly (readonly ExpectedTensor[])[] = [
  known([2000, 12], [64, 64], [0, 0], [100, 0], [1, 1], [300, 40], [20, 19]),
  known([50_000, 600]),
  told(300, 17, 0, 1, 40),
  known([3000, 2500], [1030, 1029], [1024, 1024]),
  known([1025, 1025], [1026, 1025], [40_000, 513]),
  // The largest that a memory has room for: sums of gaps come near to 2³¹.
  told(2 ** 30 - 1),
  known([2 ** 30 - 1, 17], [2 ** 30 - 1, 600]),
  // Streams that take several windows.
  known([2 ** 20, 48_000]),
  // Several sections, one of them without entries.
  known([2 ** 20, 300], [2 ** 20, 0], [90, 90], [2 ** 20, 40]),
];
