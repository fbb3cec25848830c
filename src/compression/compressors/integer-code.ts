import type { Kernels, Pointer } from '../../kernels/kernels';
import { type BitReader, type BitWriter, BLOCK_ENTRIES, malformed } from '../bit-stream';

/** Scratch of {@link writeIntegers} and {@link readIntegers} in the memory of the kernels. */
export const INTEGERS_BYTES = 4 * BLOCK_ENTRIES;

/** The largest magnitude that is coded. All up to it are exact as float32. */
export const LARGEST_INTEGER = 2 ** 24;

const PARAMETER_BITS = 5;

/**
 * Appends whole numbers that are normally distributed, more or less. In blocks of {@link BLOCK_ENTRIES}: 5 bits with
 * the parameter, then 0, −1, 1, −2, 2, … as 0, 1, 2, 3, 4, … in Rice code. With a deviation of one to four that takes
 * some 5 % more than the entropy.
 *
 * @param integers Whole, at most {@link LARGEST_INTEGER}.
 * @param scratch {@link INTEGERS_BYTES}.
 */
export function writeIntegers(
  kernels: Kernels,
  buffer: ArrayBufferLike,
  integers: Float32Array,
  scratch: Pointer,
  writer: BitWriter,
): void {
  const symbols = new Uint32Array(buffer, scratch, BLOCK_ENTRIES);
  for (let start = 0; start < integers.length; start += BLOCK_ENTRIES) {
    const count = Math.min(BLOCK_ENTRIES, integers.length - start);
    let sum = 0;
    for (let i = 0; i < count; i++) {
      const integer = integers[start + i]!;
      const symbol = integer < 0 ? -2 * integer - 1 : 2 * integer;
      symbols[i] = symbol;
      sum += symbol;
    }
    const parameter = kernels.riceParameter(scratch, count, Math.floor(sum / count), 'near');
    writer.write(parameter, PARAMETER_BITS);
    writer.at = kernels.riceEncode(scratch, count, parameter, writer.at);
    writer.endBlock();
  }
}

/**
 * Reads what {@link writeIntegers} wrote, and returns the largest magnitude.
 *
 * @param take Called with each block: its symbols are in the scratch. Returns the largest.
 * @throws ERR_PROTOCOL if the stream ends early, or holds a larger number than `limit`.
 */
export function readIntegers(
  kernels: Kernels,
  reader: BitReader,
  { length, scratch, limit }: { length: number; scratch: Pointer; limit: number },
  take: (start: number, count: number) => number,
): number {
  let largest = 0;
  for (let start = 0; start < length; start += BLOCK_ENTRIES) {
    const count = Math.min(BLOCK_ENTRIES, length - start);
    reader.startBlock();
    const parameter = reader.read(PARAMETER_BITS);
    reader.advance(kernels.riceDecode(scratch, count, parameter, reader.at, reader.until));
    largest = Math.max(largest, take(start, count));
  }
  if (largest > 2 * limit) throw malformed('holds a number that is too large');
  return Math.ceil(largest / 2);
}
