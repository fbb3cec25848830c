import type { tf } from './tfjs';
import { invalidArgument } from '../errors';
import { type Variables, variablesOf } from './variables';
import type { RingOptimizer } from './ring-optimizer';
import { type OptimizerSteps, stepsOf } from './optimizer-steps';

/** What a custom loop trains. */
export interface Trained {
  /** All variables of the training. Those that the optimizer trains must be among them. */
  readonly variables: Variables;
  /** The wrapped optimizer. */
  readonly optimizer: RingOptimizer;
}

/** A model or a custom loop, as gradring uses it. */
export interface Training {
  readonly variables: Variables;
  readonly steps: OptimizerSteps;
}

/**
 * The variables of a compiled model and the steps of its optimizer, or those of what is given.
 *
 * @param call The user's call, for the error message: `ring.join`.
 * @throws GradringError `ERR_INVALID_ARGUMENT` if its optimizer is not wrapped.
 */
export function trainedOf(source: tf.LayersModel | Trained, call: string): Training {
  const steps = stepsOf(source?.optimizer);
  if (steps === undefined) {
    throw invalidArgument(
      `${call} takes a model that is compiled with ring.wrap(…), or { variables, optimizer } with such an optimizer.`,
    );
  }
  return { variables: variablesOf('variables' in source ? source.variables : source, call), steps };
}
