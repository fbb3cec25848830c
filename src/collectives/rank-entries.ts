import type { GradientDecoder } from '../compression/gradient-decoder';
import type { Kernels, Pointer } from '../kernels/kernels';
import { blaming } from './blame';

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
