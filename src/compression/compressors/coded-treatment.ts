import { RoundedTreatment } from '../tensor-treatment';
import { randomOf } from './random-of';
import type { TensorCode } from './tensor-code';

/**
 * A gradient that travels as the message of a {@link TensorCode}, with error feedback: what the message lacks is added
 * to the gradient of the next step. `values` is what counts as sent: at first all that has accumulated, which the dense
 * ring would send; after {@link message}, what the message holds.
 */
export class CodedTreatment extends RoundedTreatment {
  private readonly coded = this.place.coded!;

  /** How many bits the message of a rank is expected to have. */
  get messageBits(): number {
    return this.coded.codes.messageBits(this.coded.shape, this.isWhole);
  }

  /**
   * Encodes what has accumulated.
   *
   * @param seeds Of the random numbers, beside the tensor.
   */
  message(seeds: MessageSeeds): Uint8Array {
    const code = this.code();
    const message = code.encode(this.view(this.residual), randomOf(seeds.seed, seeds.step, this.number, seeds.rank));
    code.clear();
    code.add(message);
    code.take(this.view(this.values), 1);
    return message;
  }

  /**
   * Replaces the gradient by the mean of the messages of all ranks.
   *
   * @param read Reads the message of a rank by the function that it is given.
   */
  average(messages: readonly Uint8Array[], read: (rank: number, add: () => void) => void): void {
    const code = this.code();
    code.clear();
    for (const [rank, message] of messages.entries()) read(rank, () => code.add(message));
    code.take(this.view(this.gradient), 1 / messages.length);
  }

  /** For the dense ring instead: all that has accumulated, and what takes the mean of it. */
  toAverage() {
    const resolve = (mean: Float32Array): void => this.view(this.gradient).set(mean);
    return { sent: this.view(this.values), resolve };
  }

  private code(): TensorCode {
    return this.coded.codes.code(this.coded.shape, this.isWhole);
  }

  private view(pointer: number): Float32Array {
    return new Float32Array(this.coded.memory.buffer, pointer, this.elementCount);
  }
}

/** What the random numbers of a message depend on. */
export interface MessageSeeds {
  readonly seed: number;
  /** The number of the step. */
  readonly step: number;
  readonly rank: number;
}
