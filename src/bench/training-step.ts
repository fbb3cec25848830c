import type { ChosenDgc } from '../compression/dgc-options';
import { GradientCodec, type TensorEntries } from '../compression/gradient-codec';
import { methodOf } from '../compression/compression-method';
import { densityAt, sentCount } from '../compression/sparsity-schedule';
import { entryBytes, LargestTreatment, RoundedTreatment } from '../compression/tensor-treatment';
import { TensorCompressor } from '../compression/tensor-compressor';
import type { KernelMemory } from '../kernel-memory';
import type { Kernels } from '../kernels/kernels';
import type { Pointer } from '../kernels/pointer';
import type { GradientSource } from './gradient-source';
import { Places } from './heap-block';
import { elementCountOf, type TensorShape } from './models/tensor-shape';
import { normalNumber, uniformNumbers } from './random';

/** What a rank sends of a tensor in a step. */
export interface StepTensor extends TensorEntries {
  /** Whether the compression sends all of its elements. */
  readonly isWhole: boolean;
}

/** Where the step of a model lies in a memory. */
export interface StepLayout {
  /** In the order of the model. If all elements of a tensor are sent, its `indices` point to nothing. */
  readonly tensors: readonly StepTensor[];
  /** The density at which tensors are compressed. */
  readonly density: number;
  /** g, u and v of one tensor after the other. Each has room for the largest tensor. */
  readonly gradient: Pointer;
  readonly momentum: Pointer;
  readonly residual: Pointer;
  /** For {@link TensorCompressor} and {@link GradientCodec}. */
  readonly workspace: Pointer;
}

/** The memory of a {@link StepLayout}, and what works on it. */
export interface StepMemory {
  readonly memory: KernelMemory;
  /** Over that memory. */
  readonly kernels: Kernels;
  /** Over that memory, in the format of the compression. */
  readonly codec: GradientCodec;
}

/** A training in which the gradients of each tensor have their own scale. */
export interface Training {
  /** How many steps are trained; the entries of the last one are kept. */
  readonly steps: number;
  /** At least as long as the largest tensor. Each tensor and step takes a different part of it. */
  readonly source: GradientSource;
  readonly sourceLength: number;
  readonly seed: number;
}

const STEP = { momentumFactor: 0.9, nesterov: false, momentumScale: 1, correctsMomentum: true, masks: true };

/**
 * Scales the source's gradients, whose deviation is about 0.01, to about 0.001. Each tensor has another factor, too.
 */
const TYPICAL_SCALE = 0.1;

/** Places a step from an address on. It takes about 14 bytes an element of the largest tensor, and 8 an entry. */
export function layStep(
  model: readonly TensorShape[],
  compression: ChosenDgc,
  start: Pointer,
): StepLayout & { readonly bytes: number } {
  const density = densityAt(compression, { epoch: undefined, step: 0 });
  const { sendsWhole } = methodOf(compression);
  const largest = Math.max(...model.map(elementCountOf));
  const places = new Places(start);
  return {
    density,
    tensors: model.map((tensor): StepTensor => {
      const elementCount = elementCountOf(tensor);
      const isWhole = sendsWhole(tensor.shape);
      const count = isWhole ? elementCount : sentCount(elementCount, density);
      return {
        elementCount,
        isWhole,
        count,
        indices: places.next(isWhole ? 0 : entryBytes(count)),
        values: places.next(entryBytes(count)),
      };
    }),
    gradient: places.next(4 * largest),
    momentum: places.next(4 * largest),
    residual: places.next(4 * largest),
    workspace: places.next(Math.max(GradientCodec.workspaceBytes, TensorCompressor.workspaceBytes(largest))),
    bytes: places.bytes,
  };
}

/**
 * Trains tensor after tensor as one rank does, and leaves at their places the entries that the last step sends, not
 * encoded yet. In the steps before, what the format lost has stayed in the residual, and u was masked where something
 * was sent.
 *
 * A tensor's gradients are the source's times a factor of its own, log-normal as the layers of a network differ.
 */
export function trainSteps(
  memory: StepMemory,
  layout: StepLayout,
  { steps, source, sourceLength, seed }: Training,
): void {
  const { kernels, codec } = memory;
  const { density, gradient, momentum, residual, workspace } = layout;
  const random = uniformNumbers(seed);
  for (const [number, tensor] of layout.tensors.entries()) {
    const { elementCount, isWhole, indices, values } = tensor;
    const view = (at: Pointer): Float32Array => new Float32Array(memory.memory.buffer, at, elementCount);
    const place = { number, isWhole, kernels, workspace, elementCount, gradient, momentum, residual };
    const gradientScale = TYPICAL_SCALE * Math.exp(normalNumber(random));
    view(momentum).fill(0);
    view(residual).fill(0);
    for (let step = 1; step <= steps; step++) {
      source.write(view(gradient), Math.floor(random() * sourceLength));
      // The momentum of tensors that are sent whole comes after averaging, and so is not sent.
      const kind = isWhole ? RoundedTreatment : LargestTreatment;
      const treatment = new kind(place, { ...STEP, density, gradientScale }, indices, values);
      treatment.compress();
      if (step === steps) break;
      codec.encode([treatment]); // for what the receivers get
      treatment.settle(false);
    }
  }
}
