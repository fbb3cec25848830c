import { type GradientCodec, GradientDecoder } from '../compression/gradient-codec';
import { type Section, sectionsOf, streamsOfSection } from '../compression/gradient-streams';
import type { ValueFormat } from '../compression/value-format';
import type { Kernels, Pointer } from '../kernels/kernels';
import { decodeGradientPayload, type ExpectedTensor, type ReceivedPayload } from '../wire/gradient-payload';
import { allGatherLists } from './all-gather';
import { blaming } from './blaming';
import type { CollectiveCall } from './collective-call';

/** The tensors in one memory. Each rank sends them as one frame. */
export interface SparsePart {
  /** This rank's payload. If a gradient is not finite, the payloads of all parts say so. */
  readonly payload: Uint8Array;
  /** The same on all ranks. */
  readonly format: ValueFormat;
  readonly tensors: readonly ExpectedTensor[];
  /**
   * Decodes the payloads of all ranks, and adds them in the order of ranks.
   *
   * @throws GradringError `ERR_PROTOCOL`, naming the rank, for a payload that does not fit the tensors.
   */
  readonly sum: (payloads: readonly ReceivedPayload[]) => void;
}

/** A tensor with NaN or infinity. Then no rank applies the step. */
export interface NonFinite {
  /** The rank whose gradient it is; `undefined` if only the sum overflows. */
  readonly rank: number | undefined;
  /** Its number among all tensors. */
  readonly tensor: number;
}

/** What the ranks learn of each other in a step, beside the sums: the same on all. */
export interface Agreed {
  /** Set if some rank's gradient was not finite. Then no rank has an update. */
  readonly nonFinite?: NonFinite | undefined;
  /** The bits that some rank has told. 0 if a gradient was not finite. */
  readonly notices: number;
}

/**
 * Sparse all-reduce: gathers the payloads of all ranks (see {@link allGatherLists}). Then every rank decodes and adds
 * them **in the order of ranks**, so all get the same bits. Each rank sends N − 1 payloads, and holds as many until all
 * have arrived.
 *
 * @param parts One for each memory that has some of the tensors, the same on all ranks.
 * @returns what the payloads tell. If a tensor was not finite, the one of the lowest such rank: the sums are not valid.
 * @throws GradringError `ERR_PROTOCOL`, naming the rank, for a payload that does not fit the tensors. Then the sums
 *   are not valid.
 */
export async function sparseAllReduce(call: CollectiveCall, parts: readonly SparsePart[]): Promise<Agreed> {
  const bodies = await allGatherLists(
    call,
    parts.map(({ payload }) => payload),
  );
  const tensorCount = parts.reduce((sum, { tensors }) => sum + tensors.length, 0);
  const bytes = bodies.flat().reduce((sum, body) => sum + body.length, 0);
  const args = { sequence: call.sequence, stage: 'sum', tensors: tensorCount, bytes };
  return call.observer.record('decode', args, () => decodeAndSum(parts, bodies, tensorCount));
}

function decodeAndSum(parts: readonly SparsePart[], bodies: readonly Uint8Array[][], tensorCount: number): Agreed {
  const payloads: ReceivedPayload[][] = parts.map(() => []);
  for (const [rank, ofRank] of bodies.entries()) {
    for (const [i, { format, tensors }] of parts.entries()) {
      const payload = blaming(rank, () => decodeGradientPayload(ofRank[i]!, format, tensors, tensorCount));
      if ('nonFiniteTensor' in payload) return { nonFinite: { rank, tensor: payload.nonFiniteTensor }, notices: 0 };
      payloads[i]!.push(payload);
    }
  }
  for (const [i, part] of parts.entries()) part.sum(payloads[i]!);
  return { notices: payloads.flat().reduce((bits, { notices }) => bits | notices, 0) };
}

/** A tensor to sum over the ranks. */
export interface SummedTensor {
  readonly elementCount: number;
  /** Where the sum goes: elementCount float32, 16-byte aligned. Overwrites what was there. */
  readonly sum: Pointer;
}

/** Scratch for the decoders of several ranks, in the memory of the sums, 16-byte aligned. It may be empty. */
export interface DecoderRoom {
  readonly start: Pointer;
  readonly bytes: number;
}

/** The input of {@link sumPayloads}, beside the payloads: tensors in one memory. */
export interface Sums {
  readonly kernels: Kernels;
  readonly codec: GradientCodec;
  readonly tensors: readonly SummedTensor[];
  readonly room: DecoderRoom;
  /** Called with each region of a sum when it is complete and still in the cache. Its start is 16-byte aligned. */
  readonly onSummed?: (tensor: number, region: Pointer, elementCount: number) => void;
}

/** How much of a sum is worked on at a time: half a megabyte, which stays in the cache. A whole number of blocks. */
const REGION_ELEMENTS = 128 * 1024;

/**
 * Sets the sums to zero, then adds every rank's payload, **in the order of ranks**.
 *
 * @throws GradringError `ERR_PROTOCOL`, naming the rank, for a payload that does not fit the tensors. Then the sums
 *   are not valid.
 */
export function sumPayloads(sums: Sums, payloads: readonly ReceivedPayload[]): void {
  for (const section of sectionsOf(sums.tensors)) sumSection(sums, payloads, section);
}

/**
 * {@link sumPayloads} for the tensors of a section. Threads may do so side by side, each with a codec and room of its
 * own.
 *
 * Entries are scattered over tensors that are larger than the cache, and each would cost a cache miss. So several
 * payloads are decoded side by side, one region of the sum at a time: one in the codec's workspace, and as many more as
 * there is room for.
 */
export function sumSection(
  { kernels, codec, tensors, room, onSummed }: Sums,
  payloads: readonly ReceivedPayload[],
  section: Section,
): void {
  const { workspaceBytes } = GradientDecoder;
  const atOnce = 1 + Math.floor(room.bytes / workspaceBytes);
  for (let first = 0; first < payloads.length; first += atOnce) {
    const decoders = payloads.slice(first, first + atOnce).map(({ streams }, i) => {
      const workspace = i === 0 ? undefined : room.start + (i - 1) * workspaceBytes;
      return blaming(first + i, () => codec.decoderOf(streamsOfSection(streams, section), workspace));
    });
    const inOrder = (run: (decoder: GradientDecoder, rank: number) => void) =>
      decoders.forEach((decoder, i) => blaming(first + i, () => run(decoder, first + i)));
    for (let t = section.from; t < section.until; t++) {
      const { sum, elementCount } = tensors[t]!;
      inOrder((decoder, rank) => decoder.startTensor({ elementCount, count: payloads[rank]!.counts[t]! }));
      for (let start = 0; start < elementCount; start += REGION_ELEMENTS) {
        const end = Math.min(elementCount, start + REGION_ELEMENTS);
        if (first === 0) kernels.clear(sum + 4 * start, end - start);
        inOrder(decoder => decoder.addBelow(end, sum));
        if (first + atOnce >= payloads.length) onSummed?.(t, sum + 4 * start, end - start);
      }
    }
    inOrder(decoder => decoder.finish());
  }
}
