import { tf } from './tfjs';
import { isOwnTensor, otherCopy } from './one-copy';
import type { NumericArray, ReduceOptions, ScatterOptions } from '../communicator/communicator';
import { invalidArgument } from '../errors';

/** A tensor, or an array, on its way through a collective. */
export interface Sent<T> {
  /** A copy of the tensor's elements, or the array itself. */
  readonly array: NumericArray;
  /** What the caller gets of a result: a new tensor of the same shape and type, or the array itself. */
  readonly resultOf: (array: NumericArray) => T;
  /** The same of a part: a new tensor of one dimension, or the array itself. */
  readonly partOf: (array: NumericArray) => NumericArray | tf.Tensor1D;
}

/** What the collectives have of the array types, for each type of tensors. */
type Elements = Float32Array | Int32Array | Uint8Array;

/**
 * Prepares a tensor for a collective. Anything else stays as it is: the collective checks it. The elements are read at
 * once, so that calls that are not awaited keep their order.
 *
 * @param call The user's call, for errors: `ring.allReduce`.
 * @throws GradringError `ERR_INVALID_ARGUMENT` for a tensor of another copy of TensorFlow.js, and for one that was
 *   disposed of, has strings or complex numbers, or is of bool and would be added.
 */
export function sentTensor<T>(
  call: string,
  value: T,
  options: ReduceOptions & { readonly variableLength?: boolean } = {},
  reduces = false,
): Sent<T> {
  if (!isOwnTensor(value)) {
    if (value instanceof tf.Tensor) throw invalidArgument(otherCopy('tensor'));
    return { array: value as NumericArray, resultOf: array => array as T, partOf: array => array };
  }
  const { shape, dtype, isDisposed } = value;
  if (isDisposed) throw invalidArgument(`${call} got a tensor that was disposed of.`);
  if (dtype !== 'float32' && dtype !== 'int32' && dtype !== 'bool') {
    throw invalidArgument(`${call} takes tensors of float32, int32 and bool, not of ${dtype}.`);
  }
  if (reduces && dtype === 'bool' && options?.op !== 'min' && options?.op !== 'max') {
    throw invalidArgument(
      `${call} got a tensor of bool: reduce it with op 'max' (true on any rank) or 'min' (true on all), or convert it to int32.`,
    );
  }
  if (options?.variableLength === true) {
    throw invalidArgument(`${call} gathers tensors of one shape. For different lengths pass arrays.`);
  }
  // What a backend hands out may be what it has stored.
  const array = (value.dataSync() as Elements).slice();
  return {
    array,
    resultOf: result => tf.tensor(result as Elements, shape, dtype) as T,
    partOf: part => tf.tensor1d(part as Elements, dtype),
  };
}

/** The options of a scatter, with the elements of what is divided. */
export function sentFrom(options: ScatterOptions<NumericArray | tf.Tensor>): ScatterOptions<NumericArray> {
  const { from, ...others } = options ?? {};
  return from === undefined
    ? (options as ScatterOptions<NumericArray>)
    : { ...others, from: sentTensor('ring.scatter', from).array };
}
