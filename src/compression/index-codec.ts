import type { Kernels, Pointer } from '../kernels/kernels';
import { type BitReader, type BitWriter, BLOCK_ENTRIES, malformed, type RicePair } from './bit-stream';

/**
 * How a block of indices is written. If Subset is possible, one bit says whether it is used. Two bits name one of the
 * other codes.
 */
enum IndexCode {
  /** The gaps in Rice code. 5 bits: the parameter. */
  Rice,
  /** The gaps by {@link Kernels.encodeClusters}. 5 and 5 bits: its parameters. */
  Clusters,
  /** A bit for each place, from the one after the last block's last index to this block's. 32 bits before: how many. */
  Bitmap,
  /** The gaps, each in as many bits as the widest. 6 bits before: how many. */
  Fixed,
  /** All gaps that are left in the tensor, by {@link Kernels.encodeSubset}. */
  Subset,
}

const CODE_BITS = 2;
const PARAMETER_BITS = 5;
const SPAN_BITS = 32;
const WIDTH_BITS = 6;

/** With up to this many indices, even one bit would cost more than a choice of codes can save. */
const WITHOUT_CHOICE = 16;

/**
 * With up to this many indices, Subset is tried: it is slow, but always near the entropy. With more, Rice's code is
 * near enough.
 */
const SUBSET_UNTIL = 512;

/** A block of the indices that are sent of a tensor, in ascending order. */
export interface IndexBlock {
  /** Elements of the tensor. */
  readonly elementCount: number;
  /** The lowest possible index: the one after the last index of the block before. */
  readonly first: number;
  /** How many indices of the tensor are not coded yet, those of this block included. */
  readonly left: number;
}

/** How many indices a block holds: {@link BLOCK_ENTRIES}, or what is left. */
export function blockCount({ left }: { readonly left: number }): number {
  return Math.min(left, BLOCK_ENTRIES);
}

/**
 * Appends a block of indices, in the code that takes the fewest bits.
 *
 * @param next The index after the last one.
 * @param gaps Scratch for as many uint32.
 */
export function encodeIndices(
  kernels: Kernels,
  block: IndexBlock,
  indices: Pointer,
  next: number,
  gaps: Pointer,
  writer: BitWriter,
): void {
  const { elementCount, first, left } = block;
  const places = elementCount - first;
  if (left === places) return; // all of them, as the receiver knows
  const count = blockCount(block);
  const gapBits = kernels.gapsOf(indices, count, first, gaps);
  if (left <= WITHOUT_CHOICE) {
    writer.at = kernels.encodeSubset(gaps, count, places, writer.at);
    return;
  }
  const span = next - first;
  const width = bitWidth(gapBits);
  const meanGap = span / count - 1;
  const maySubset = left <= SUBSET_UNTIL;
  const clusters = clusterParameters(kernels, gaps, count, meanGap);
  const start = writer.at;
  /** Writes the block in that code, and returns how many bits it took. */
  const write = (code: IndexCode): number => {
    writer.at = start;
    if (maySubset) writer.write(code === IndexCode.Subset ? 1 : 0, 1);
    if (code !== IndexCode.Subset) writer.write(code, CODE_BITS);
    switch (code) {
      case IndexCode.Rice: {
        const parameter = kernels.riceParameter(gaps, count, meanGap, 'far');
        writer.write(parameter, PARAMETER_BITS);
        writer.at = kernels.riceEncode(gaps, count, parameter, writer.at);
        break;
      }
      case IndexCode.Clusters:
        writer.write(clusters!.small, PARAMETER_BITS);
        writer.write(clusters!.parameter, PARAMETER_BITS);
        writer.at = kernels.encodeClusters(gaps, count, clusters!.small, clusters!.parameter, writer.at);
        break;
      case IndexCode.Bitmap:
        writer.write(span, SPAN_BITS);
        writer.at = kernels.encodeBitmap(gaps, count, writer.at);
        break;
      case IndexCode.Fixed:
        writer.write(width, WIDTH_BITS);
        writer.at = kernels.packBits(gaps, count, width, writer.at);
        break;
      case IndexCode.Subset:
        writer.at = kernels.encodeSubset(gaps, count, places, writer.at);
    }
    return writer.at - start;
  };
  // If a code's bits are known beforehand, it is written only if it takes the fewest.
  const codeBits = CODE_BITS + (maySubset ? 1 : 0);
  const bitmapBits = codeBits + SPAN_BITS + span;
  const fixedBits = codeBits + WIDTH_BITS + width * count;
  const riceBits = write(IndexCode.Rice);
  const riceIsBest = !maySubset && clusters === undefined && riceBits <= Math.min(bitmapBits, fixedBits);
  if (riceIsBest) return; // usually; trying the other codes would take much of the time
  const sizes: [IndexCode, bits: number][] = [
    [IndexCode.Bitmap, bitmapBits],
    [IndexCode.Fixed, fixedBits],
    [IndexCode.Rice, riceBits],
  ];
  if (clusters !== undefined) sizes.push([IndexCode.Clusters, write(IndexCode.Clusters)]);
  if (maySubset) sizes.push([IndexCode.Subset, write(IndexCode.Subset)]);
  const [best] = sizes.reduce((a, b) => (b[1] <= a[1] ? b : a));
  if (best !== sizes.at(-1)![0]) write(best);
}

/** Parameters for {@link Kernels.encodeClusters}, if it may pay because there are many small gaps. */
function clusterParameters(
  kernels: Kernels,
  gaps: Pointer,
  count: number,
  meanGap: number,
): { small: number; parameter: number } | undefined {
  // About what Rice's code takes for gaps of that mean between uniformly distributed indices.
  const riceBits = (mean: number) => Math.log2(mean + 1) + 1.5;
  let best: { small: number; parameter: number } | undefined;
  let least = riceBits(meanGap);
  for (let small = 0; 2 ** small < meanGap / 4; small += 2) {
    const far = count - kernels.countBelow(gaps, count, 2 ** small);
    if (far === 0) continue; // `Fixed` is better
    const farMean = (meanGap * count) / far;
    const bits = 1 + (small * (count - far)) / count + (riceBits(farMean) * far) / count;
    if (bits >= least) continue;
    least = bits;
    best = { small, parameter: Math.max(0, bitWidth(farMean) - 1) };
  }
  return best;
}

/**
 * Reads the gaps of a block. Those in Rice code may wait in `codes`.
 *
 * @throws ERR_PROTOCOL if the stream ends too early, or holds something else.
 */
export function readGaps(kernels: Kernels, block: IndexBlock, reader: BitReader, codes: RicePair, gaps: Pointer): void {
  const { elementCount, first, left } = block;
  const count = blockCount(block);
  const places = elementCount - first;
  if (left === places) {
    kernels.unpackBits(gaps, count, 0, reader.at); // zeros
    return;
  }
  const code = readCode(left, reader);
  switch (code) {
    case IndexCode.Rice: {
      const parameter = reader.read(PARAMETER_BITS);
      codes.read(gaps, count, parameter, reader);
      return;
    }
    case IndexCode.Clusters: {
      const small = reader.read(PARAMETER_BITS);
      const parameter = reader.read(PARAMETER_BITS);
      reader.advance(kernels.decodeClusters(gaps, count, small, parameter, reader.at, reader.until));
      return;
    }
    case IndexCode.Subset:
      reader.advance(kernels.decodeSubset(gaps, count, places, reader.at, reader.until));
      return;
    case IndexCode.Bitmap: {
      const span = reader.read(SPAN_BITS);
      const from = reader.at;
      reader.advance(from + span);
      if (kernels.decodeBitmap(gaps, count, span, from) === -1)
        throw malformed('holds a bitmap with another number of ones');
      return;
    }
    case IndexCode.Fixed: {
      const width = reader.read(WIDTH_BITS);
      if (width > 32) throw malformed('holds gaps of more than 32 bits');
      const from = reader.at;
      reader.advance(from + width * count);
      kernels.unpackBits(gaps, count, width, from);
    }
  }
}

/**
 * Turns the gaps of a block into indices, in place: ascending, from `first` on, all below elementCount, with room
 * behind them for the indices that are left. Returns the index after the last.
 *
 * @throws ERR_PROTOCOL if the gaps do not fit.
 */
export function finishIndices(kernels: Kernels, block: IndexBlock, gaps: Pointer): number {
  const { elementCount, first, left } = block;
  const count = blockCount(block);
  const next = kernels.indicesOf(gaps, count, first, elementCount, gaps);
  if (next === -1 || left - count > elementCount - next) throw malformed('holds an index past the end of its tensor');
  return next;
}

function readCode(left: number, reader: BitReader): IndexCode {
  if (left <= WITHOUT_CHOICE || (left <= SUBSET_UNTIL && reader.read(1) === 1)) return IndexCode.Subset;
  return reader.read(CODE_BITS);
}

/** How many bits the number takes, 0 for 0. */
function bitWidth(value: number): number {
  return 32 - Math.clz32(value);
}
