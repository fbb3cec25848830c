import { bytesOf } from '../core/bytes-of';
import { typeOf } from '../core/saved-tensor';
import { tf } from './tfjs';
import type { ReadTensor, TensorSource } from '../checkpoint/checkpoint-file';

const DTYPES = { F32: 'float32', I32: 'int32', BOOL: 'bool' } as const;

/** A tensor for a checkpoint. It must not change until it is written. */
export function sourceOf(name: string, tensor: tf.Tensor): TensorSource {
  const { dtype, shape } = tensor;
  return { name, type: typeOf({ name, dtype }), shape, bytes: async () => bytesOf(await tensor.data()) };
}

/** A tensor of what was read. */
export function tensorOf({ type, shape, bytes }: ReadTensor): tf.Tensor {
  const values =
    type === 'I32' ? new Int32Array(bytes.buffer) : type === 'F32' ? new Float32Array(bytes.buffer) : bytes;
  return tf.tensor(values, [...shape], DTYPES[type]);
}

/** Gives a variable the value that was read. */
export function restoreVariable(variable: tf.Variable, read: ReadTensor): void {
  const value = tensorOf(read);
  variable.assign(value);
  value.dispose();
}
