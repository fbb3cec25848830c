import type { ReadTensor, TensorSource } from '../checkpoint/checkpoint-file';
import { invalidArgument } from '../errors';
import { bytesOf } from './bytes-of';

const TYPES = { float32: 'F32', int32: 'I32', bool: 'BOOL' } as const;

/**
 * The type of a variable in a checkpoint.
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` if a checkpoint cannot hold it.
 */
export function typeOf({ name, dtype }: { readonly name: string; readonly dtype: string }): ReadTensor['type'] {
  if (!(dtype in TYPES)) throw invalidArgument(`'${name}' is ${dtype}, which a checkpoint cannot hold.`);
  return TYPES[dtype as keyof typeof TYPES];
}

/** Numbers for a checkpoint. They must not change until they are written. */
export function sourceOfValues(name: string, shape: readonly number[], values: Float32Array): TensorSource {
  return { name, type: 'F32', shape, bytes: () => bytesOf(values) };
}

/** The tensors of a file whose names begin with `kind` and a slash, by the rest of their names. */
export function tensorsUnder(tensors: ReadonlyMap<string, ReadTensor>, kind: string): Map<string, ReadTensor> {
  const prefix = `${kind}/`;
  const found = [...tensors].filter(([name]) => name.startsWith(prefix));
  return new Map(found.map(([name, tensor]) => [name.slice(prefix.length), tensor]));
}
