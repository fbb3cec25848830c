import { invalidArgument } from '../../errors';
import { type EntryRoom, TensorTreatment } from '../tensor-treatment';
import { type CompressionRing, type Compressor, PLAIN } from './compressor';
import { randomOf } from './random-of';

/** A {@link Compressor} averages the gradient. */
export class CompressorTreatment extends TensorTreatment {
  static room(): EntryRoom {
    return { indexBytes: 0, valueBytes: 0, workspaceBytes: 0 };
  }

  readonly count = this.elementCount;
  private readonly custom = this.place.custom!;
  private readonly compressor = this.custom.compressor;
  /** What averages the tensor in this step. */
  private averager: Pick<Compressor, 'average'> = this.compressor;
  /** What the compressor averages. */
  private input: Float32Array = new Float32Array(0);
  /** What it has sent of that, if it keeps the rest. */
  private readonly sent = this.custom.sent;
  /** The new state that all ranks share. */
  private shared: Float32Array = new Float32Array(0);
  private isOver = false;

  compress(): boolean {
    this.clip();
    const { kernels, residual, gradient } = this.place;
    if (this.compressor.errorFeedback) {
      kernels.reduce('sum', 'float32', residual, gradient, this.count);
      if (!kernels.allFinite(residual, this.count)) {
        kernels.clear(residual, this.count);
        return false;
      }
    }
    this.takeInput();
    return true;
  }

  selectAgain(): void {
    this.clip();
    this.takeInput();
  }

  /**
   * How many bits the message of a rank is expected to have. Undefined: the compressor does not tell.
   *
   * @throws GradringError `ERR_INVALID_ARGUMENT` if the compressor tells no number of bits.
   */
  get messageBits(): number | undefined {
    const { shape } = this.custom;
    const bits = this.compressor.messageBits?.(shape);
    if (bits === undefined || (Number.isFinite(bits) && bits >= 0)) return bits;
    throw invalidArgument(`The compressor expects ${bits} bits for a tensor of the shape [${shape.join(', ')}].`);
  }

  /** Has the step average the tensor as it is, by the dense ring. Nothing of it is kept. */
  takeDenseRing(): void {
    if (this.compressor.errorFeedback) this.sent.set(this.input);
    this.averager = PLAIN;
  }

  /**
   * Replaces the gradient by the mean over all ranks.
   *
   * @param seeds Of the random numbers, beside the tensor and the rank.
   */
  async average(ring: CompressionRing, ...seeds: readonly number[]): Promise<void> {
    const { averager, input, sent, number } = this;
    const { shape } = this.custom;
    this.place.kernels.clear(this.gradient, this.count);
    const random = randomOf(...seeds, number, ring.rank);
    const mean = this.view(this.gradient, this.count);
    this.shared = this.keptState().slice();
    await averager.average({ shape, values: input, mean, sent, shared: this.shared, random }, ring);
    this.isOver = true;
  }

  expand(): void {
    throw new RangeError('A compressor sends no entries.');
  }

  settle(): void {
    if (this.isOver) this.keptState().set(this.shared);
    if (!this.compressor.errorFeedback) return;
    const residual = this.view(this.place.residual, this.count);
    // If the step failed on this rank only, it may be unknown what was sent. It must not be sent twice.
    if (!this.isOver && this.sent.every(value => value === 0)) return void residual.fill(0);
    for (let i = 0; i < residual.length; i++) residual[i]! -= this.sent[i]!;
  }

  override forget(): void {
    super.forget();
    this.keptState().fill(0);
  }

  private takeInput(): void {
    this.sent.fill(0);
    const { residual, gradient } = this.place;
    this.input = this.compressor.errorFeedback
      ? this.view(residual, this.count)
      : this.view(gradient, this.count).slice();
  }

  private keptState(): Float32Array {
    return this.view(this.custom.shared, this.custom.sharedLength);
  }

  private view(pointer: number, length: number): Float32Array {
    return new Float32Array(this.custom.memory.buffer, pointer, length);
  }
}
