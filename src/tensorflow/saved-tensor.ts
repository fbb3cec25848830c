import { bytesOf } from './bytes-of';
import { tf } from './tfjs';
import type { ReadTensor, TensorSource } from '../checkpoint/checkpoint-file';
import { invalidArgument } from '../errors';

const TYPES = { float32: 'F32', int32: 'I32', bool: 'BOOL' } as const;
const DTYPES = { F32: 'float32', I32: 'int32', BOOL: 'bool' } as const;

/** A tensor for a checkpoint. It must not change until it is written. */
export function sourceOf(name: string, tensor: tf.Tensor): TensorSource {
  const { dtype, shape } = tensor;
  if (!(dtype in TYPES)) throw invalidArgument(`'${name}' is ${dtype}, which a checkpoint cannot hold.`);
  return { name, type: TYPES[dtype as keyof typeof TYPES], shape, bytes: async () => bytesOf(await tensor.data()) };
}

/** Numbers for a checkpoint. They must not change until they are written. */
export function sourceOfValues(name: string, shape: readonly number[], values: Float32Array): TensorSource {
  return { name, type: 'F32', shape, bytes: () => bytesOf(values) };
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

/** The tensors of a file whose names begin with `kind` and a slash, by the rest of their names. */
export function tensorsUnder(tensors: ReadonlyMap<string, ReadTensor>, kind: string): Map<string, ReadTensor> {
  const prefix = `${kind}/`;
  const found = [...tensors].filter(([name]) => name.startsWith(prefix));
  return new Map(found.map(([name, tensor]) => [name.slice(prefix.length), tensor]));
}
