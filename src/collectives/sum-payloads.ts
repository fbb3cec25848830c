import { type GradientCodec, GradientDecoder } from '../compression/gradient-codec';
import { type Section, sectionsOf, streamsOfSection } from '../compression/gradient-streams';
import type { Kernels, Pointer } from '../kernels/kernels';
import type { ReceivedPayload } from '../wire/gradient-payload';
import { GradringError } from '../errors';

/** Runs a reader of a rank's payload. If it fails, throws `ERR_PROTOCOL` with the rank that made the payload. */
export function blaming<T>(rank: number, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof GradringError && error.code === 'ERR_OUT_OF_MEMORY') throw error; // this rank's own fault
    const words = `Rank ${rank} sent a bad payload: ${(error as Error).message}`;
    throw new GradringError('ERR_PROTOCOL', words, { rank }, { cause: error });
  }
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
    const ranks = payloads.slice(first, first + atOnce).map(({ counts, streams }, i) => {
      const workspace = i === 0 ? undefined : room.start + (i - 1) * workspaceBytes;
      const ofSection = blaming(first + i, () => streamsOfSection(streams, section));
      return new RankEntries(first + i, kernels, counts, codec.decoderOf(ofSection, workspace));
    });
    for (let t = section.from; t < section.until; t++) {
      const { sum, elementCount } = tensors[t]!;
      for (const rank of ranks) rank.startTensor(t, elementCount);
      for (let start = 0; start < elementCount; start += REGION_ELEMENTS) {
        const end = Math.min(elementCount, start + REGION_ELEMENTS);
        if (first === 0) kernels.clear(sum + 4 * start, end - start);
        for (const rank of ranks) rank.addBelow(end, sum);
        if (first + atOnce >= payloads.length) onSummed?.(t, sum + 4 * start, end - start);
      }
    }
    for (const rank of ranks) rank.finish();
  }
}

/** Adds what a rank sent to the sums, little by little. Throws `ERR_PROTOCOL`, naming the rank, if it is bad. */
export class RankEntries {
  private whole = false;
  /** The last decoded block: its number of entries, the next one to add, and how many were decoded before the block. */
  private count = 0;
  private next = 0;
  private before = 0;

  constructor(
    private readonly rank: number,
    private readonly kernels: Kernels,
    private readonly counts: readonly number[],
    private readonly decoder: GradientDecoder,
  ) {}

  /** Continues with the next tensor, which has that number. All entries of the one before must have been added. */
  startTensor(tensor: number, elementCount: number): void {
    const count = this.counts[tensor]!;
    this.whole = count === elementCount;
    this.count = this.next = this.before = 0;
    blaming(this.rank, () => this.decoder.startTensor({ elementCount, count }));
  }

  /** Adds the entries below `end` that were not added yet. If all elements were sent, a block must end at `end`. */
  addBelow(end: number, sum: Pointer): void {
    const { indices, values } = this.decoder;
    while (this.next < this.count || this.decodeBlock()) {
      if (this.whole) {
        if (this.before >= end) return;
        this.kernels.reduce('sum', 'float32', sum + 4 * this.before, values, this.count);
        this.next = this.count;
      } else {
        this.next = this.kernels.scatterAddBelow(sum, indices, values, this.next, this.count, end);
        if (this.next < this.count) return;
      }
    }
  }

  /** Checks that nothing is left. */
  finish(): void {
    blaming(this.rank, () => this.decoder.finish());
  }

  /** Decodes the next block. Returns whether there was one. */
  private decodeBlock(): boolean {
    this.before += this.count;
    this.next = 0;
    this.count = blaming(this.rank, () => this.decoder.readBlock());
    return this.count > 0;
  }
}
