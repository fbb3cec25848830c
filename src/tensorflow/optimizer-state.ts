import { tf } from './tfjs';
import type { ReadTensor, TensorFile, TensorSource } from '../checkpoint/checkpoint-file';
import { type Resizing, sharedSums } from '../core/resized-state';
import { sourcesOfVariables, type StepState, type WaitingSteps } from '../core/step-state';
import { tensorsUnder } from '../core/saved-tensor';
import { sourceOf, tensorOf } from './tensor-source';

/** All that a wrapped optimizer needs to continue bit for bit. */
export interface OptimizerState extends StepState {
  readonly inner: InnerState;
  /** See {@link WaitingState}. Both are empty after an exchange. */
  readonly start: readonly NamedTensor[];
  readonly sums: readonly NamedTensor[];
}

/** Steps that wait for an exchange. */
export interface WaitingState extends WaitingSteps {
  /** The weights before a round of local steps, the same on all ranks. */
  readonly start: readonly NamedTensor[];
  /** The sums of this rank's gradients. */
  readonly sums: readonly NamedTensor[];
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

/** The state's tensors as they are in a rank's file. Their names are the kind, a slash, and the variable's name. */
export function sourcesOf({ variables, inner, start, sums }: OptimizerState): TensorSource[] {
  return [
    ...sourcesOfVariables(variables),
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

/** The gradients that a rank has accumulated. They are shared like residuals. The tensors are new. */
export function waitingSums(files: readonly TensorFile[], resizing: Resizing): NamedTensor[] {
  return sharedSums(files, resizing, 'sum').map(({ name, shape, values }) => {
    return { name, tensor: tf.tensor(values, [...shape]) };
  });
}
