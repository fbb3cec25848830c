import type { tf } from './tfjs';
import type { SavedVariable } from '../core/saved-rank';
import type { TrainingFit } from '../core/training-checkpoint';
import { type FitPosition, isFitPosition } from './fit-position';
import { isOwnModel } from './one-copy';
import type { Variables } from './variables';
import type { Trained } from './trained';

/** The variables of a model, or of a custom loop. */
export function savedVariables(source: tf.LayersModel | Trained, variables: Variables): SavedVariable[] {
  const weights = isOwnModel(source) ? source.weights : [];
  return variables.map(({ name, dtype, shape }, i) => {
    return { name, given: weights[i]?.originalName ?? name, dtype, shape };
  });
}

/**
 * What a checkpoint must fit. A model that is built or loaded for the second time in a process has other counters in
 * its names.
 *
 * @param optimizer The class of the optimizer.
 */
export function fitOf(optimizer: string): TrainingFit<FitPosition> {
  return {
    optimizer,
    isPosition: isFitPosition,
    lastingName: withoutCounters,
    advice:
      'Variables are matched by name, or by their order if only the counters of TensorFlow.js in their names differ. Build the model as it was, or give its layers the names that they had.',
  };
}

/**
 * A name without what TensorFlow.js counts in it: `dense_Dense/kernel` for a layer that it has called `dense_Dense7`,
 * because it was given no name, and nothing for a variable that it has called `7`.
 */
function withoutCounters(name: string): string {
  const layer = /(?<=^|\/)(\w+)_([A-Z]\w*?)\d+(?=\/|$)/g;
  const isOwnName = (prefix: string, className: string) => prefix.replaceAll('_', '').endsWith(className.toLowerCase());
  return name
    .replace(/^\d+$/, '')
    .replace(layer, (whole, prefix: string, className: string) =>
      isOwnName(prefix, className) ? `${prefix}_${className}` : whole,
    );
}
