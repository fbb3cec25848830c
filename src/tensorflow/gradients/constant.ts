import { tf } from '../tfjs';
import type { Gradient } from './gradient';

/** Kernels whose results do not change with their inputs, except in steps: the names of the inputs. */
const CONSTANT: Record<string, readonly string[]> = {
  [tf.All]: ['x'],
  [tf.Any]: ['x'],
  [tf.Equal]: ['a', 'b'],
  [tf.FloorDiv]: ['a', 'b'],
  [tf.Greater]: ['a', 'b'],
  [tf.Less]: ['a', 'b'],
  [tf.LessEqual]: ['a', 'b'],
  [tf.LogicalAnd]: ['a', 'b'],
  [tf.LogicalNot]: ['x'],
  [tf.LogicalOr]: ['a', 'b'],
  [tf.NotEqual]: ['a', 'b'],
};

/**
 * Gradients of zero. tfjs 4.22 has that of `greaterEqual` alone, so a model with `tf.where(x.greater(0), …)`, a masking
 * layer or a `thresholdedReLU` could not be trained. Its gradient of `floorDiv` is that of a division.
 */
export const constantGradients: readonly Gradient[] = Object.entries(CONSTANT).map(([kernelName, inputs]) => ({
  kernelName,
  inputsToSave: [...inputs],
  derive: (_, saved) => Object.fromEntries(inputs.map((name, i) => [name, () => tf.zeros(saved[i]!.shape)])),
}));

/** A cast to whole numbers or to bool is constant, too. tfjs passes the gradient through it. */
export const castGradient: Gradient<tf.CastAttrs> = {
  kernelName: tf.Cast,
  derive: (dy, _, { dtype }) => ({
    x: () => (dtype === 'int32' || dtype === 'bool' ? tf.zeros(dy.shape) : tf.clone(dy)),
  }),
};
