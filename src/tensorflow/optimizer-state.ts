import type { tf } from './tfjs';
import type { ReadTensor, TensorSource } from '../checkpoint/checkpoint-file';
import type { CompressionMethod } from '../compression/compression-method';
import { isLinkCost, type LinkCost } from '../exchange/link-cost';
import { isBoolean, isCount, isNumber, isOptional, isText, isWith } from '../shape';
import { sourceOf, sourceOfValues, tensorOf, tensorsUnder } from './saved-tensor';
import { type ExpectedSteps, isExpectedSteps } from './sent-fraction';

/** All that a wrapped optimizer needs to continue bit for bit. */
export interface OptimizerState {
  readonly counters: OptimizerCounters;
  /** For each variable. Empty before the first step. */
  readonly variables: readonly VariableState[];
  readonly inner: InnerState;
  /** See {@link WaitingState}. Both are empty after an exchange. */
  readonly start: readonly NamedTensor[];
  readonly sums: readonly NamedTensor[];
}

/** The small part of it. */
export interface OptimizerCounters {
  /** The class of the inner optimizer. */
  readonly optimizer: string;
  /** How many steps the training has taken, skipped ones included. */
  readonly steps: number;
  readonly iterations: number;
  /** That of the last step. */
  readonly density: number;
  /** What its links cost. Undefined if that was not measured. */
  readonly links?: LinkCost | undefined;
  /** The learning rate of the last step. */
  readonly lastRate?: number | undefined;
  /** Undefined if not known. */
  readonly epoch?: number | undefined;
  readonly learningRate?: number | undefined;
  /** Size of the ring that took the last step, in an elastic run. */
  readonly worldSize?: number | undefined;
  /** Steps that wait for an exchange. Undefined if there are none. */
  readonly round?: Omit<WaitingState, 'start' | 'sums'> | undefined;
  /** Whether there are local steps. */
  readonly isLocal?: boolean | undefined;
  /** The steps of the whole training. Undefined if not known. */
  readonly expectedSteps?: ExpectedSteps | undefined;
}

export const isCounters = isWith<OptimizerCounters>({
  optimizer: isText,
  steps: isCount,
  iterations: isCount,
  density: isNumber,
  links: isOptional(isLinkCost),
  lastRate: isOptional(isNumber),
  epoch: isOptional(isNumber),
  learningRate: isOptional(isNumber),
  worldSize: isOptional(isCount),
  round: isOptional(isWith({ steps: isCount, nonFinite: isOptional(isText) })),
  isLocal: isOptional(isBoolean),
  expectedSteps: isOptional(isExpectedSteps),
});

/** Steps that wait for an exchange. */
export interface WaitingState {
  readonly steps: number;
  /** A variable whose gradient was not finite on this rank, by name. */
  readonly nonFinite?: string | undefined;
  /** The weights before a round of local steps, the same on all ranks. */
  readonly start: readonly NamedTensor[];
  /** The sums of this rank's gradients. */
  readonly sums: readonly NamedTensor[];
}

/** The state of a variable: u and v, and what a compressor keeps. */
export interface VariableState {
  readonly name: string;
  readonly shape: readonly number[];
  readonly momentum: Float32Array;
  readonly residual: Float32Array;
  /** What a compressor keeps of it, the same on all ranks. Often empty. */
  readonly shared: Float32Array;
  /** Whether the momentum is that of the average, the same on all ranks. */
  readonly isMomentumShared: boolean;
}

/** A tensor with its name, as `tf.Optimizer` has it. (tfjs does not export this type.) */
export type NamedTensor = Awaited<ReturnType<tf.Optimizer['getWeights']>>[number];

/**
 * The state of an inner optimizer that applies gradients itself. The same on all ranks, but with local steps each rank
 * has its own.
 */
export interface InnerState {
  /** The result of its `getWeights`. */
  readonly weights: readonly NamedTensor[];
  /**
   * Variables in its fields, by the field's name: Adam's powers of β. Its `setWeights` computes them anew, and then
   * their last bits differ from those of the product over all steps.
   */
  readonly fields: readonly NamedTensor[];
}

/**
 * Whether a variable's momentum is that of the average: because its gradient is sent whole, and averaged first, or
 * because the compression does not correct the momentum.
 */
export function sharesMomentum(
  { correctsMomentum, sendsWhole }: CompressionMethod,
  shape: readonly number[],
  density: number,
): boolean {
  return density === 1 || !correctsMomentum || sendsWhole(shape);
}

/** The state's tensors as they are in a rank's file. Their names are the kind, a slash, and the variable's name. */
export function sourcesOf({ variables, inner, start, sums }: OptimizerState): TensorSource[] {
  return [
    ...variables.flatMap(({ name, shape, momentum, residual, shared, isMomentumShared }) => [
      sourceOfValues(`${isMomentumShared ? 'sharedMomentum' : 'momentum'}/${name}`, shape, momentum),
      sourceOfValues(`residual/${name}`, shape, residual),
      ...(shared.length > 0 ? [sourceOfValues(`shared/${name}`, [shared.length], shared)] : []),
    ]),
    // By number, because their order matters.
    ...inner.weights.map(({ name, tensor }, i) => sourceOf(`inner/${i}/${name}`, tensor)),
    ...inner.fields.map(({ name, tensor }) => sourceOf(`innerField/${name}`, tensor)),
    ...start.map(({ name, tensor }) => sourceOf(`start/${name}`, tensor)),
    ...sums.map(({ name, tensor }) => sourceOf(`sum/${name}`, tensor)),
  ];
}

/** The inverse of {@link sourcesOf}, for what a ring of any size takes as it is. The tensors are new. */
export function tensorStatesOf(tensors: ReadonlyMap<string, ReadTensor>): Pick<OptimizerState, 'inner' | 'start'> {
  const named = (kind: string) =>
    [...tensorsUnder(tensors, kind)].map(([name, read]): NamedTensor => ({ name, tensor: tensorOf(read) }));
  const numberOf = ({ name }: NamedTensor) => parseInt(name, 10);
  const weights = named('inner')
    .sort((a, b) => numberOf(a) - numberOf(b))
    .map(({ name, tensor }) => ({ name: name.slice(name.indexOf('/') + 1), tensor }));
  return { inner: { weights, fields: named('innerField') }, start: named('start') };
}
