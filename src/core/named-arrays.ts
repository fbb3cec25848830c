import {
  type Communicator,
  elementTypeOf,
  NUMERIC_ARRAYS,
  type NumericArray,
  Purpose,
} from '../communicator/communicator';
import { invalidArgument } from '../errors';
import { brief } from '../printable';
import { awake } from '../work';
import { bytesOf } from './bytes-of';
import {
  areTexts,
  checkSameVariables,
  compareHashes,
  type Described,
  differingVariables,
  gatherValues,
  hashOf,
  hashOfAll,
} from './replicas';

/** The weights of a program, by name. The order of the names must be the same on all ranks. */
export interface NamedArrays {
  readonly [name: string]: NumericArray;
}

/** One of them. */
export interface NamedArray extends Described {
  readonly values: NumericArray;
}

/**
 * Arrays as a list.
 *
 * @param call The call that takes them, as the user writes it: `ring.verifyReplicas`.
 * @throws GradringError `ERR_INVALID_ARGUMENT`.
 */
export function namedArraysOf(arrays: NamedArrays, call: string): NamedArray[] {
  if (typeof arrays !== 'object' || arrays === null || Array.isArray(arrays) || ArrayBuffer.isView(arrays)) {
    throw invalidArgument(`${call} takes typed arrays by name, as { w, b }, not ${brief(arrays)}.`);
  }
  return Object.entries(arrays).map(([name, values]) => {
    const dtype = elementTypeOf(values);
    if (dtype !== undefined) return { name, dtype, shape: [values.length], values };
    throw invalidArgument(`${call}: '${name}' is ${brief(values)}; it must be a ${NUMERIC_ARRAYS}.`);
  });
}

/**
 * Gives every rank the root's values, in place.
 *
 * @throws GradringError `ERR_MODEL_MISMATCH`, naming the first difference.
 */
export async function broadcastArrays(
  communicator: Communicator,
  arrays: readonly NamedArray[],
  { root, purpose }: { readonly root: number; readonly purpose: Purpose },
): Promise<void> {
  await checkSameVariables(communicator, arrays, purpose);
  for (const { values } of arrays) await communicator.broadcast(bytesOf(values), { root, purpose });
}

/**
 * Averages float arrays over the ranks, in place, except those that are equal already.
 *
 * @throws GradringError `ERR_MODEL_MISMATCH`, naming the first difference; `ERR_INVALID_ARGUMENT` if an array of
 *   another type differs.
 */
export async function averageArrays(communicator: Communicator, arrays: readonly NamedArray[]): Promise<void> {
  const purpose = Purpose.AverageVariables;
  const hashes = arrays.map(array => hashOf(array, array.values));
  const differing = await differingVariables(communicator, arrays, hashes, { purpose, types: ['float32', 'float64'] });
  for (const i of differing) await communicator.allReduce(arrays[i]!.values, { op: 'mean', purpose });
}

/**
 * Compares the arrays of all ranks, bit for bit, and returns their hash.
 *
 * @throws GradringError `ERR_REPLICAS_DIVERGED`, naming the first rank that differs from rank 0, and the array.
 */
export async function verifyArrays(communicator: Communicator, arrays: readonly NamedArray[]): Promise<string> {
  const hashes = arrays.map(array => hashOf(array, array.values));
  const all = await awake(gatherValues(communicator, Purpose.VerifyReplicas, areTexts, hashes));
  const advice =
    'Start from the same weights (await ring.broadcastVariables(…)), and change them only by the updates that all ranks get.';
  compareHashes(all, arrays, 'at this point', () => advice);
  return hashOfAll(hashes);
}
