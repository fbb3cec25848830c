import type { KernelMemory } from '../kernel-memory';
import type { Kernels, Magnitude, Pointer } from '../kernels/kernels';
import { INFINITE_MAGNITUDE } from '../kernels/pointer';
import type { Compressor } from './compressors/compressor';
import type { TensorCodes } from './compressors/tensor-code';
import type { TensorEntries } from './gradient-codec';
import { sentCount } from './sparsity-schedule';
import { TensorCompressor, type TensorState } from './tensor-compressor';

/** State beside {@link TensorState}, the same on all ranks: float32 numbers of a {@link Compressor}. */
export interface SharedState {
  readonly shared: Pointer;
  readonly sharedLength: number;
}

/** A tensor, and what a treatment needs to work on it. */
export interface TensorPlace extends TensorState {
  /** The number of the tensor among all of the model. */
  readonly number: number;
  /** Whether the compression's rules send it whole at any density. */
  readonly isWhole: boolean;
  readonly kernels: Kernels;
  /** Scratch for the {@link EntryRoom.workspaceBytes} of the treatment. It holds nothing between calls. */
  readonly workspace: Pointer;
  /** For a compression of {@link Compressor}s only. */
  readonly custom?: CustomPlace | undefined;
  /** For one of {@link TensorCodes} only. */
  readonly coded?: CodedPlace | undefined;
}

/** What a {@link Compressor} needs. */
export interface CustomPlace extends SharedState {
  readonly compressor: Compressor;
  /** Room for what is sent of the tensor in a step, if the compressor keeps the rest. Else it is empty. */
  readonly sent: Float32Array;
  readonly shape: readonly number[];
  /** The memory of the kernels. */
  readonly memory: KernelMemory;
}

/** What a code needs. */
export interface CodedPlace {
  readonly codes: TensorCodes;
  readonly shape: readonly number[];
  /** The memory of the kernels. */
  readonly memory: KernelMemory;
}

/** What is the same for all tensors in a step, and on all ranks but for `gradientScale`. */
export interface TreatmentStep {
  /** The fraction of a tensor that a compressor may send, more than 0 and at most 1. */
  readonly density: number;
  /** Multiplies the gradient before anything else: the clip factor. */
  readonly gradientScale: number;
  readonly momentumFactor: number;
  readonly nesterov: boolean;
  /** Multiplies a momentum that all ranks share, before it is applied. */
  readonly momentumScale: number;
  /** Whether a rank applies its own momentum before it selects (momentum correction, section 3.2 of the paper). */
  readonly correctsMomentum: boolean;
  /** Whether elements lose their momentum when they are sent (momentum factor masking, section 3.3 of the paper). */
  readonly masks: boolean;
}

/**
 * What happens to one tensor in one step. It holds the entries that are sent. Each kind of compression is a subclass,
 * and a {@link TreatmentKind}; the exchange knows no kind by name. A step calls:
 *
 * 1. `compress`. If the step failed in a ring before this one, `selectAgain` of a new treatment instead.
 * 2. Then the entries travel. Either they are encoded, and every rank decodes and adds the entries of all ranks. (The
 *    codec overwrites `values` with what the receivers get.) Or `expand` is called, and the ring reduces the gradients.
 *    In both cases the mean over all ranks ends in the place of the gradient.
 * 3. `applyMomentum`, which turns the mean into the update.
 * 4. `settle`, when nothing of the step can fail any more. Until then the state keeps what is sent, so that a step that
 *    fails or is skipped loses nothing.
 */
export abstract class TensorTreatment implements TensorEntries {
  readonly number: number;
  readonly isWhole: boolean;
  readonly elementCount: number;
  readonly gradient: Pointer;
  readonly momentum: Pointer;
  readonly residual: Pointer;
  abstract count: number;
  largest: Magnitude | undefined;

  /** @param indices Room for the entries, as {@link TreatmentKind.room} asks for. So is `values`. */
  constructor(
    protected readonly place: TensorPlace,
    protected readonly step: TreatmentStep,
    readonly indices: Pointer,
    readonly values: Pointer,
  ) {
    this.number = place.number;
    this.isWhole = place.isWhole;
    this.elementCount = place.elementCount;
    this.gradient = place.gradient;
    this.momentum = place.momentum;
    this.residual = place.residual;
  }

  /** Multiplies what is held back. */
  scaleResidual(factor: number): void {
    const { kernels, residual, elementCount } = this.place;
    kernels.scale('float32', residual, factor, elementCount);
  }

  /**
   * Accumulates the gradient, and writes the entries to send. The gradient must be finite. If what was accumulated is
   * not, because it overflowed, the state that is this rank's own begins at zero again.
   *
   * @returns whether the entries are finite.
   */
  abstract compress(): boolean;

  /** Instead of {@link compress}, if the gradient is zero and the {@link ownState} too: there are no entries. */
  compressNothing(): void {
    this.count = 0;
  }

  /** What of the state is this rank's own: each elementCount float32. The state of several ranks may be added. */
  get ownState(): readonly Pointer[] {
    return [this.residual];
  }

  /** Writes the entries to send, of what another treatment has accumulated in this step. The gradient is new again. */
  abstract selectAgain(): void;

  /** Replaces the gradient by what is sent: zero where nothing is. */
  abstract expand(): void;

  /**
   * Takes what the receivers got out of the state. Afterwards the entries are undefined.
   *
   * @param onlyApplied Whether of what was sent only a part was applied. The update is 0 where nothing was, and such an
   *   element is not masked.
   */
  abstract settle(onlyApplied: boolean): void;

  /**
   * Applies the momentum of the average, which is the same on all ranks. A treatment whose ranks have momenta of their
   * own overrides this to do nothing.
   *
   * @returns whether the update is finite.
   */
  applyMomentum(): boolean {
    const { kernels, gradient, momentum, elementCount } = this.place;
    const { momentumFactor, momentumScale, nesterov } = this.step;
    if (momentumFactor === 0) return true;
    if (momentumScale !== 1) kernels.scale('float32', momentum, momentumScale, elementCount);
    kernels.applyMomentum(gradient, momentum, elementCount, momentumFactor, nesterov);
    return Number.isFinite(kernels.sumOfSquares(gradient, elementCount));
  }

  /** Sets the state to zero, because the sum over all ranks, or the update, has overflowed. Called on all ranks. */
  forget(): void {
    const { kernels, momentum, residual, elementCount } = this.place;
    kernels.clear(momentum, elementCount);
    kernels.clear(residual, elementCount);
  }

  protected clip(): void {
    const { gradientScale } = this.step;
    if (gradientScale !== 1) this.place.kernels.scale('float32', this.gradient, gradientScale, this.elementCount);
  }
}

/** Bytes that a treatment needs for a tensor, beside the state. Each a multiple of 16. */
export interface EntryRoom {
  readonly indexBytes: number;
  readonly valueBytes: number;
  /** Scratch, which all tensors of a memory share. */
  readonly workspaceBytes: number;
}

/** A subclass of {@link TensorTreatment}. */
export interface TreatmentKind {
  /** What a tensor needs in a step of that density. Never less at a higher density below 1. */
  room(elementCount: number, density: number): EntryRoom;
  new (place: TensorPlace, step: TreatmentStep, indices: Pointer, values: Pointer): TensorTreatment;
}

/** Bytes for the indices, or the values, of this many entries. */
export function entryBytes(count: number): number {
  return 16 * Math.ceil(count / 4);
}

/**
 * Deep Gradient Compression (Lin et al. 2018, Algorithm 1): a rank accumulates its gradients with its own momentum, and
 * sends the elements that are largest by now. Without momentum correction it accumulates the bare gradients, and the
 * momentum is that of the average (Gradient Dropping: Aji and Heafield 2017).
 */
export class LargestTreatment extends TensorTreatment {
  static room(elementCount: number, density: number): EntryRoom {
    const bytes = entryBytes(sentCount(elementCount, density));
    return { indexBytes: bytes, valueBytes: bytes, workspaceBytes: TensorCompressor.workspaceBytes(elementCount) };
  }

  count = sentCount(this.elementCount, this.step.density);
  private readonly compressor = new TensorCompressor(this.place.kernels, this.place, this.place.workspace);

  compress(): boolean {
    const { count, indices, values, step } = this;
    const { gradientScale, momentumFactor, nesterov, correctsMomentum } = step;
    if (correctsMomentum) {
      this.largest = this.compressor.compress({ count, indices, values, gradientScale, momentumFactor, nesterov });
    } else {
      const { kernels, residual, gradient, elementCount } = this.place;
      this.clip();
      kernels.reduce('sum', 'float32', residual, gradient, elementCount);
      this.largest = this.compressor.selectAgain(this);
    }
    // The largest are sent, so an infinite one is among them.
    if (this.largest < INFINITE_MAGNITUDE) return true;
    if (correctsMomentum) this.forget();
    else this.place.kernels.clear(this.place.residual, this.elementCount);
    return false;
  }

  selectAgain(): void {
    this.largest = this.compressor.selectAgain(this);
  }

  expand(): void {
    const { gradient, elementCount, indices, values, count } = this;
    this.place.kernels.clear(gradient, elementCount);
    this.place.kernels.scatterAdd(gradient, indices, values, count);
  }

  settle(onlyApplied: boolean): void {
    this.compressor.settle(this.indices, this.values, this.count, this.step.masks, onlyApplied);
  }

  override get ownState(): readonly Pointer[] {
    return this.step.correctsMomentum ? [this.residual, this.momentum] : [this.residual];
  }

  override applyMomentum(): boolean {
    return this.step.correctsMomentum || super.applyMomentum();
  }
}

/**
 * The gradient is sent whole, in a format that rounds, with error feedback: what rounding loses in a step is added in
 * the next.
 */
export class RoundedTreatment extends TensorTreatment {
  static room(elementCount: number): EntryRoom {
    return { indexBytes: 0, valueBytes: entryBytes(elementCount), workspaceBytes: 0 };
  }

  count = this.elementCount;

  compress(): boolean {
    const { values, count } = this;
    const { kernels, residual, gradient } = this.place;
    this.clip();
    kernels.reduce('sum', 'float32', residual, gradient, count);
    kernels.copy(residual, values, count);
    if (kernels.allFinite(values, count)) return true;
    kernels.clear(residual, count); // the momentum is that of all ranks, and has not overflowed
    return false;
  }

  selectAgain(): void {
    this.place.kernels.copy(this.place.residual, this.values, this.count);
  }

  expand(): void {
    this.place.kernels.copy(this.values, this.gradient, this.count);
  }

  settle(): void {
    const { values, count } = this;
    const { kernels, residual } = this.place;
    kernels.scale('float32', values, -1, count);
    kernels.reduce('sum', 'float32', residual, values, count);
  }
}

/** The gradient is sent as it is. Nothing is held back. */
export class WholeTreatment extends TensorTreatment {
  static room(): EntryRoom {
    return { indexBytes: 0, valueBytes: 0, workspaceBytes: 0 };
  }

  count = this.elementCount;

  constructor(place: TensorPlace, step: TreatmentStep, indices: Pointer) {
    super(place, step, indices, place.gradient);
  }

  compress(): boolean {
    this.clip();
    return true;
  }

  selectAgain(): void {
    this.clip();
  }

  expand(): void {}

  settle(): void {}

  override get ownState(): readonly Pointer[] {
    return [];
  }
}
