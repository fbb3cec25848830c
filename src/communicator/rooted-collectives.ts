import {
  arrayOf,
  copyElements,
  ELEMENT_BYTES,
  elementTypeOf,
  NUMERIC_ARRAYS,
  type NumericArray,
} from '../collectives/element-type';
import { invalidArgument } from '../errors';
import type { Work } from '../work';
import type { CallOptions } from './abort';
import {
  type BroadcastOptions,
  checkCallOptions,
  type GatherOptions,
  type ReduceOptions,
  requireRank,
} from './collective-requests';

/** The collectives of a communicator, for those that are made of them. */
export interface Collectives {
  readonly rank: number;
  readonly worldSize: number;
  allReduce<T extends NumericArray>(array: T, options: ReduceOptions): Work<T>;
  allGather<T extends NumericArray>(array: T, options: GatherOptions): Work<T[]>;
  broadcast<T extends NumericArray>(array: T, options: BroadcastOptions): Work<T>;
}

/** Options of {@link Communicator.reduce}. */
export interface RootedReduceOptions extends ReduceOptions {
  /** The rank that gets the result. Default 0. */
  readonly root?: number;
}

/** Options of {@link Communicator.gather}. */
export interface RootedGatherOptions extends GatherOptions {
  /** The rank that gets the arrays. Default 0. */
  readonly root?: number;
}

/** Options of {@link Communicator.scatter}. */
export interface ScatterOptions<T> extends CallOptions {
  /** The rank whose array is divided. Default 0. */
  readonly root?: number;
  /** What is divided: worldSize times as long as the part of a rank. Only the root's counts. */
  readonly from?: T;
}

// On a ring, what a root gets from all or gives to all passes every link, as in the collectives below.

/** See {@link Communicator.reduce}. */
export function* reduce<T extends NumericArray>(
  ring: Collectives,
  array: T,
  options: RootedReduceOptions,
): Work<T | undefined> {
  checkCallOptions('reduce', options, { root: true, op: true, as: true });
  const { root = 0, ...ofAll } = options;
  requireRank('root', root, ring.worldSize);
  const isRoot = ring.rank === root;
  yield* ring.allReduce(isRoot || elementTypeOf(array) === undefined ? array : (array.slice() as T), ofAll);
  return isRoot ? array : undefined;
}

/** See {@link Communicator.gather}. */
export function* gather<T extends NumericArray>(
  ring: Collectives,
  array: T,
  options: RootedGatherOptions,
): Work<T[] | undefined> {
  checkCallOptions('gather', options, { root: true, variableLength: true });
  const { root = 0, ...ofAll } = options;
  requireRank('root', root, ring.worldSize);
  const all = yield* ring.allGather(array, ofAll);
  return ring.rank === root ? all : undefined;
}

/** See {@link Communicator.scatter}. */
export function* scatter<T extends NumericArray>(ring: Collectives, array: T, options: ScatterOptions<T>): Work<T> {
  checkCallOptions('scatter', options, { root: true, from: true });
  const { root = 0, from, signal } = options;
  requireRank('root', root, ring.worldSize);
  const { rank, worldSize } = ring;
  const whole = emptyLike('scatter', array, worldSize);
  if (rank === root) {
    if (from === undefined || elementTypeOf(from) !== elementTypeOf(array) || from.length !== whole.length) {
      const type = elementTypeOf(array);
      throw invalidArgument(`The root of scatter divides an array of ${type}[${whole.length}]: pass it as { from }.`);
    }
    copyElements(whole, from);
  }
  yield* ring.broadcast(whole, { root, signal });
  copyElements(array, whole.subarray(rank * array.length, (rank + 1) * array.length));
  return array;
}

/** See {@link Communicator.allToAll}. */
export function* allToAll<T extends NumericArray>(ring: Collectives, array: T, options: CallOptions): Work<T> {
  checkCallOptions('allToAll', options, {});
  const { rank, worldSize } = ring;
  const received = emptyLike('allToAll', array);
  const count = array.length / worldSize;
  if (!Number.isInteger(count)) {
    throw invalidArgument(`allToAll divides an array between ${worldSize} ranks, but it has ${array.length} elements.`);
  }
  const all = yield* ring.allGather(array, options);
  all.forEach((each, from) => copyElements(received, each.subarray(rank * count, (rank + 1) * count), from * count));
  return received;
}

/** A new array of the same type, so many times as long. */
function emptyLike<T extends NumericArray>(call: string, array: T, times = 1): T {
  const type = elementTypeOf(array);
  if (type === undefined) {
    throw invalidArgument(`${call} takes a ${NUMERIC_ARRAYS}.`);
  }
  const length = times * array.length;
  return arrayOf(type, new ArrayBuffer(ELEMENT_BYTES[type] * length), 0, length) as T;
}
