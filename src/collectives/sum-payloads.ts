import type { GradientCodec } from '../compression/gradient-codec';
import { GradringError } from '../errors';
import type { Kernels, Pointer } from '../kernels/kernels';
import type { ExpectedTensor, ReceivedPayload } from '../wire/gradient-payload';

/** A tensor to be summed over the ranks. */
export interface SummedTensor extends ExpectedTensor {
  /** Where the sum goes: elementCount float32, 16-byte aligned. What is there before is overwritten. */
  readonly sum: Pointer;
}

/** Scratch for entries of several ranks, in the memory of the sums. */
export interface EntryRoom {
  readonly start: Pointer;
  readonly bytes: number;
}

/** What {@link sumPayloads} works with. */
export interface SummedPart {
  readonly kernels: Kernels;
  readonly codec: GradientCodec;
  readonly tensors: readonly SummedTensor[];
  readonly room: EntryRoom;
}

/** So much of a sum is worked on at a time: half a megabyte, which stays in the cache. */
const REGION_ELEMENTS = 128 * 1024;

const ENTRY_BYTES = 8;

/**
 * Sets the sums of a part to zero, then adds every rank's payload, **in the order of ranks**.
 *
 * Entries are scattered over tensors that no cache holds, and each would cost a miss. So the entries of as many ranks as there
 * is room for are decoded first, and then added region by region of the sum.
 *
 * @throws GradringError `ERR_PROTOCOL`, naming the rank, for a payload that does not fit the tensors. The sums are void then.
 */
export function sumPayloads(part: SummedPart, payloads: readonly ReceivedPayload[]): void {
  const { kernels, tensors } = part;
  // Tensors of which some rank sends all are added as they are decoded.
  const gathered = tensors.map(({ elementCount }, t) => payloads.every(({ counts }) => counts[t]! < elementCount));
  tensors.forEach(({ sum, elementCount }, t) => {
    if (!gathered[t]) kernels.clear(sum, elementCount);
  });
  const entries = new GatheredEntries(part, gathered);
  for (const [rank, payload] of payloads.entries()) blaming(rank, () => entries.add(payload));
  entries.flush();
}

/** Entries of some ranks, which follow each other by rank and tensor. */
class GatheredEntries {
  private readonly capacity: number;
  private readonly indices: Pointer;
  private readonly values: Pointer;
  private count = 0;
  /** Of each rank: the number of its next entry that was not added yet, and behind its last of each tensor. */
  private ranks: { next: number; ends: number[] }[] = [];
  private cleared = false;

  constructor(
    private readonly part: SummedPart,
    private readonly gathered: readonly boolean[],
  ) {
    const { start, bytes } = part.room;
    this.capacity = Math.floor(bytes / ENTRY_BYTES);
    this.indices = start;
    this.values = start + 4 * this.capacity;
  }

  /** Decodes a payload, and gathers its entries, or adds them where they are too many. */
  add({ counts, streams }: ReceivedPayload): void {
    const { kernels, codec, tensors } = this.part;
    const entryCount = counts.reduce((sum, count, t) => sum + (this.gathered[t] ? count : 0), 0);
    if (this.count + entryCount > this.capacity) this.flush();
    const fits = entryCount <= this.capacity;
    if (fits) this.startRank(counts);
    const coded = tensors.map(({ elementCount }, t) => ({ elementCount, count: counts[t]! }));
    codec.decode(streams, coded, ({ tensor, count, first, indices, values }) => {
      const { sum } = tensors[tensor]!;
      if (indices === undefined) {
        kernels.reduce('sum', 'float32', sum + 4 * first, values, count);
      } else if (!fits || !this.gathered[tensor]) {
        kernels.scatterAdd(sum, indices, values, count);
      } else {
        kernels.copy(indices, this.indices + 4 * this.count, count);
        kernels.copy(values, this.values + 4 * this.count, count);
        this.count += count;
      }
    });
  }

  /** Adds what was gathered. At the first time the sums begin with it. */
  flush(): void {
    const { kernels, tensors } = this.part;
    tensors.forEach(({ sum, elementCount }, t) => {
      if (!this.gathered[t]) return;
      for (let start = 0; start < elementCount; start += REGION_ELEMENTS) {
        const end = Math.min(elementCount, start + REGION_ELEMENTS);
        if (!this.cleared) kernels.clear(sum + 4 * start, end - start);
        for (const rank of this.ranks) {
          rank.next = kernels.scatterAddBelow(sum, this.indices, this.values, rank.next, rank.ends[t]!, end);
        }
      }
    });
    this.cleared = true;
    this.ranks = [];
    this.count = 0;
  }

  private startRank(counts: readonly number[]): void {
    let end = this.count;
    const ends = counts.map((count, t) => (end += this.gathered[t] ? count : 0));
    this.ranks.push({ next: this.count, ends });
  }
}

/** Whatever is wrong with a payload is the fault of the rank that made it. */
export function blaming<T>(rank: number, read: () => T): T {
  try {
    return read();
  } catch (error) {
    const words = `Rank ${rank} sent a bad payload: ${(error as Error).message}`;
    throw new GradringError('ERR_PROTOCOL', words, { rank }, { cause: error });
  }
}
