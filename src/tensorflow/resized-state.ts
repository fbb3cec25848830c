import type { TensorFile } from '../checkpoint/checkpoint-file';
import { type Resizing, sharedSums } from '../core/resized-state';
import type { NamedTensor } from './optimizer-state';
import { tf } from './tfjs';

/** The gradients that a rank has accumulated. They are shared like residuals. The tensors are new. */
export function waitingSums(files: readonly TensorFile[], resizing: Resizing): NamedTensor[] {
  return sharedSums(files, resizing, 'sum').map(({ name, shape, values }) => {
    return { name, tensor: tf.tensor(values, [...shape]) };
  });
}
