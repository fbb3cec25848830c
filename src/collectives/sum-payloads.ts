import type { GradientCodec } from '../compression/gradient-codec';
import { GradientDecoder } from '../compression/gradient-decoder';
import type { Kernels, Pointer } from '../kernels/kernels';
import type { ExpectedTensor, ReceivedPayload } from '../wire/gradient-payload';
import { RankEntries } from './rank-entries';

/** A tensor to sum over the ranks. */
export interface SummedTensor extends ExpectedTensor {
  /** Where the sum goes: elementCount float32, 16-byte aligned. Overwrites what was there. */
  readonly sum: Pointer;
}

/** Scratch for the decoders of several ranks, in the memory of the sums, 16-byte aligned. It may be empty. */
export interface DecoderRoom {
  readonly start: Pointer;
  readonly bytes: number;
}

/** The input of {@link sumPayloads}, beside the payloads. */
export interface SummedPart {
  readonly kernels: Kernels;
  readonly codec: GradientCodec;
  readonly tensors: readonly SummedTensor[];
  readonly room: DecoderRoom;
  /** Called with each region of a sum when it is complete and still in the cache. Its start is 16-byte aligned. */
  readonly onSummed?: (tensor: number, region: Pointer, elementCount: number) => void;
}

/** How much of a sum is worked on at a time: half a megabyte, which stays in the cache. A whole number of blocks. */
export const REGION_ELEMENTS = 128 * 1024;

/**
 * Sets the sums of a part to zero, then adds every rank's payload, **in the order of ranks**.
 *
 * Entries are scattered over tensors that are larger than the cache, and each would cost a cache miss. So several
 * payloads are decoded side by side, one region of the sum at a time: one in the codec's workspace, and as many more as
 * there is room for.
 *
 * @throws GradringError `ERR_PROTOCOL`, naming the rank, for a payload that does not fit the tensors. Then the sums
 *   are not valid.
 */
export function sumPayloads(
  { kernels, codec, tensors, room, onSummed }: SummedPart,
  payloads: readonly ReceivedPayload[],
): void {
  const { workspaceBytes } = GradientDecoder;
  const atOnce = 1 + Math.floor(room.bytes / workspaceBytes);
  for (let first = 0; first < payloads.length; first += atOnce) {
    const ranks = payloads.slice(first, first + atOnce).map(({ counts, streams }, i) => {
      const workspace = i === 0 ? undefined : room.start + (i - 1) * workspaceBytes;
      return new RankEntries(first + i, kernels, counts, codec.decoderOf(streams, workspace));
    });
    tensors.forEach(({ sum, elementCount }, t) => {
      for (const rank of ranks) rank.startTensor(t, elementCount);
      for (let start = 0; start < elementCount; start += REGION_ELEMENTS) {
        const end = Math.min(elementCount, start + REGION_ELEMENTS);
        if (first === 0) kernels.clear(sum + 4 * start, end - start);
        for (const rank of ranks) rank.addBelow(end, sum);
        if (first + atOnce >= payloads.length) onSummed?.(t, sum + 4 * start, end - start);
      }
    });
    for (const rank of ranks) rank.finish();
  }
}
