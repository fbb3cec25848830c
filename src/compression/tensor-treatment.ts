import type { KernelMemory } from '../kernel-memory';
import type { Kernels, Magnitude, Pointer } from '../kernels/kernels';
import type { Compressor } from './compressors/compressor';
import type { TensorEntries } from './gradient-codec';

/** A tensor and its state in the memory of the kernels: each `elementCount` float32, 16-byte aligned. */
export interface TensorState {
  readonly elementCount: number;
  /** The mean gradient of this rank before a step, the update after it. */
  readonly gradient: Pointer;
  /** The paper's u. For tensors that are sent whole, the momentum of the average over all ranks. */
  readonly momentum: Pointer;
  /** The paper's v: what is held back. For tensors that are sent whole, what rounding has lost. */
  readonly residual: Pointer;
}

/** State beside that, the same on all ranks: float32 numbers of a {@link Compressor}. */
export interface SharedState {
  readonly shared: Pointer;
  readonly sharedLength: number;
}

/** A tensor, and what a treatment needs to work on it. */
export interface TensorPlace extends TensorState {
  /** Its number among all tensors of the model. */
  readonly number: number;
  /** Whether the compression's rules send it whole at any density. */
  readonly isWhole: boolean;
  readonly kernels: Kernels;
  /** Scratch for the {@link EntryRoom.workspaceBytes} of the treatment. It holds nothing between calls. */
  readonly workspace: Pointer;
  /** For a {@link CustomCompression} only. */
  readonly custom?: CustomPlace | undefined;
}

/** What a {@link Compressor} needs. */
export interface CustomPlace extends SharedState {
  readonly compressor: Compressor;
  readonly shape: readonly number[];
  /** That of the kernels. */
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
  abstract readonly count: number;
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

  /** Writes the entries to send, of what another treatment has accumulated in this step. The gradient is new again. */
  abstract selectAgain(): void;

  /** Replaces the gradient by what is sent: zero where nothing is. */
  abstract expand(): void;

  /** Takes what the receivers got out of the state. Afterwards the entries are undefined. */
  abstract settle(): void;

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
