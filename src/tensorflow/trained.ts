import type { tf } from './tfjs';
import { invalidArgument } from '../errors';
import { type Variables, variablesOf } from './replicas';
import { RingOptimizer } from './ring-optimizer';

/** What a custom loop trains. */
export interface Trained {
  /** All variables of the training. Those that the optimizer trains must be among them. */
  readonly variables: Variables;
  /** The wrapped optimizer. */
  readonly optimizer: RingOptimizer;
}

/**
 * The variables and the optimizer of a compiled model, or those given.
 *
 * @param call The user's call, for the error message: `ring.join`.
 * @throws GradringError `ERR_INVALID_ARGUMENT` if its optimizer is not wrapped.
 */
export function trainedOf(source: tf.LayersModel | Trained, call: string): Trained {
  const optimizer = source?.optimizer;
  if (!RingOptimizer.is(optimizer)) {
    throw invalidArgument(
      `${call} takes a model that is compiled with ring.wrap(…), or { variables, optimizer } with such an optimizer.`,
    );
  }
  return { variables: variablesOf('variables' in source ? source.variables : source, call), optimizer };
}
