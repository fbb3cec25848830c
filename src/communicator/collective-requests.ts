import { inspect } from 'node:util';
import { isFloat32Array, isUint32Array } from 'node:util/types';
import { checkOptions } from '../check-options';
import type { DenseArray, ReducedArray } from '../collectives/dense-array';
import {
  arrayOf,
  copyElements,
  ELEMENT_BYTES,
  type ElementType,
  elementTypeOf,
  isDetached,
  isFloat,
  NUMERIC_ARRAYS,
  type NumericArray,
} from '../collectives/element-type';
import { type HalfType, requireHalfType } from '../collectives/half-floats';
import { type Commands, type Reduction, REDUCTIONS } from '../comm-thread/thread-protocol';
import { invalidArgument } from '../errors';
import type { SharedHeap } from '../memory/shared-heap';
import { Purpose } from '../wire/frame';
import { type CallOptions, checkSignal } from './abort';
import type { AllocatedArrays } from './allocated-arrays';

/** Options of {@link Communicator.allReduce} and `reduceScatter`. */
export interface ReduceOptions extends CallOptions {
  /**
   * How to reduce: `sum` (the default), `product`, `mean`, `min` or `max`. `mean` is for floats only. Sums and products
   * of integers wrap around.
   */
  readonly op?: Reduction;
  /**
   * For a `Uint16Array`, and needed there: which floats its elements are the bits of. Two numbers are added or
   * multiplied in float32, and the result is rounded to 16 bits, halves to even, each time one rank's are added to the
   * others'. So a sum of many ranks has the error of as many roundings, and may overflow where its mean would not.
   */
  readonly as?: HalfType;
  /** @internal The purpose of a call that gradring itself makes. */
  readonly purpose?: Purpose;
}

/** Options of {@link Communicator.allGather}. */
export interface GatherOptions extends CallOptions {
  /** Allows arrays of different lengths. Default false: different lengths are `ERR_COLLECTIVE_MISMATCH`. */
  readonly variableLength?: boolean;
  /** @internal The purpose of a call that gradring itself makes. */
  readonly purpose?: Purpose;
}

/** Options of {@link Communicator.broadcast}. */
export interface BroadcastOptions extends CallOptions {
  /** The rank whose array all ranks get. Default 0. */
  readonly root?: number;
  /** @internal The purpose of a call that gradring itself makes. */
  readonly purpose?: Purpose;
}

/** Options of {@link Communicator.send} and `receive`. */
export interface MessageOptions extends CallOptions {
  /** A number from 0 to 65,535, default 0. A message is received with the tag that it was sent with. */
  readonly tag?: number;
}

/** A sparse array: its entries that are not zero. */
export interface SparseArray {
  /** Their indices, ascending, each once. */
  readonly indices: Uint32Array;
  /** Their values, as many as there are indices, all finite. */
  readonly values: Float32Array;
  /** The length of the whole array. */
  readonly elementCount: number;
}

/** A collective, ready for the comm thread. `release` must be called when it is over, even if it fails. */
export interface CollectiveRequest<Name extends keyof Commands, Result> {
  readonly name: Name;
  readonly input: Commands[Name]['input'];
  /** Makes the caller's result from the comm thread's answer. */
  readonly result: (answer: Commands[Name]['result']) => Result;
  /** Frees what the call took of the shared memory. */
  readonly release: () => void;
  readonly signal?: AbortSignal | undefined;
}

/** An array in the shared memory for the time of a call: a copy, unless it is already there. */
interface StagedArray<T> {
  readonly dense: DenseArray;
  /** Whether the caller's array itself is there. */
  readonly isShared: boolean;
  /** Copies the results back. Returns the caller's array. */
  readonly copyBack: () => T;
  readonly release: () => void;
}

/**
 * Prepares the collectives that users call: checks the arguments, and puts the arrays into the shared memory.
 *
 * @example
 *   const { name, input, result, release } = requests.allReduce(array, { op: 'mean' });
 */
export class CollectiveRequests {
  constructor(
    private readonly heap: SharedHeap,
    private readonly allocated: AllocatedArrays,
  ) {}

  allReduce<T extends NumericArray>(array: T, options: ReduceOptions): CollectiveRequest<'allReduce', T> {
    return this.withArray('allReduce', array, options, ({ dense, copyBack }) => {
      const input = { ...reductionOf('allReduce', options, dense), purpose: purposeOf(options) };
      return { input, result: copyBack };
    });
  }

  reduceScatter<T extends NumericArray>(array: T, options: ReduceOptions): CollectiveRequest<'reduceScatter', T> {
    return this.withArray('reduceScatter', array, options, ({ dense, isShared }) => ({
      input: reductionOf('reduceScatter', options, dense),
      result: ({ start, count }) => {
        const data = dense.data + start * ELEMENT_BYTES[dense.type];
        const chunk = this.view<T>({ type: dense.type, data, elementCount: count });
        return (isShared ? chunk : chunk.slice()) as T;
      },
    }));
  }

  allGather<T extends NumericArray>(array: T, options: GatherOptions): CollectiveRequest<'allGather', T[]> {
    return this.withArray('allGather', array, options, ({ dense }) => {
      checkCallOptions('allGather', options, { variableLength: true });
      const lengths = options.variableLength === true ? 'variable' : 'equal';
      return {
        input: { array: dense, lengths, purpose: purposeOf(options) },
        result: bodies => bodies.map(bytes => arrayIn(dense.type, bytes) as T),
      };
    });
  }

  broadcast<T extends NumericArray>(
    array: T,
    options: BroadcastOptions,
    worldSize: number,
  ): CollectiveRequest<'broadcast', T> {
    checkCallOptions('broadcast', options, { root: true });
    const { root = 0 } = options;
    requireRank('root', root, worldSize);
    return this.withArray('broadcast', array, options, ({ dense, copyBack }) => ({
      input: { array: dense, root, purpose: purposeOf(options) },
      result: copyBack,
    }));
  }

  sendReceive<T extends NumericArray>(array: T, options: CallOptions): CollectiveRequest<'sendReceive', T> {
    checkCallOptions('sendReceive', options, {});
    return this.withArray('sendReceive', array, options, ({ dense, copyBack }) => ({
      input: { array: dense },
      result: copyBack,
    }));
  }

  send(array: NumericArray, to: number, options: MessageOptions, ring: Place): CollectiveRequest<'send', void> {
    const tag = checkedTag('send', 'to', to, options, ring);
    return this.withArray('send', array, options, ({ dense }) => ({
      input: { array: dense, to, tag },
      result: () => undefined,
    }));
  }

  receive(from: number, options: MessageOptions, ring: Place): CollectiveRequest<'receive', NumericArray> {
    return {
      name: 'receive',
      input: { from, tag: checkedTag('receive', 'from', from, options, ring) },
      result: ({ elementType, bytes }) => arrayIn(elementType, bytes),
      release: () => undefined,
      signal: options.signal,
    };
  }

  /** A barrier takes no memory. */
  barrier(options: CallOptions): CollectiveRequest<'barrier', void> {
    checkCallOptions('barrier', options, {});
    const input = { purpose: Purpose.Call };
    return { name: 'barrier', input, result: () => undefined, release: () => undefined, signal: options.signal };
  }

  sparseAllReduce(array: SparseArray, options: CallOptions): CollectiveRequest<'sparseAllReduce', Float32Array> {
    checkCallOptions('sparseAllReduce', options, {});
    checkSparse(array);
    const { indices, values, elementCount } = array;
    this.allocated.holding(values, 'ring.sparseAllReduce');
    const { heap } = this;
    const blocks: { readonly at: number; readonly bytes: number }[] = [];
    const release = () => blocks.forEach(({ at, bytes }) => heap.release(at, bytes));
    const allocate = (bytes: number) => {
      const at = heap.allocate(bytes);
      blocks.push({ at, bytes });
      return at;
    };
    try {
      const places = { indices: allocate(indices.byteLength), values: allocate(values.byteLength) };
      const output = allocate(elementCount * 4);
      new Uint32Array(heap.buffer, places.indices, indices.length).set(indices);
      new Float32Array(heap.buffer, places.values, values.length).set(values);
      return {
        name: 'sparseAllReduce',
        input: { ...places, count: indices.length, elementCount, output },
        result: () => new Float32Array(heap.buffer, output, elementCount).slice(),
        release,
        signal: options.signal,
      };
    } catch (error) {
      release(); // what it could allocate
      throw error;
    }
  }

  /** A view of an array in the shared memory. */
  view<T extends NumericArray>({ type, data, elementCount }: DenseArray): T {
    return arrayOf(type, this.heap.buffer, data, elementCount) as T;
  }

  /** Stages the array of a call. Until the request is ready, a failure releases it. */
  private withArray<Name extends keyof Commands, T extends NumericArray, R>(
    name: Name,
    array: T,
    options: CallOptions,
    prepare: (staged: StagedArray<T>) => Pick<CollectiveRequest<Name, R>, 'input' | 'result'>,
  ): CollectiveRequest<Name, R> {
    const staged = this.stage(`ring.${name}`, array);
    try {
      return { name, ...prepare(staged), release: staged.release, signal: options.signal };
    } catch (error) {
      staged.release();
      throw error;
    }
  }

  private stage<T extends NumericArray>(call: string, array: T): StagedArray<T> {
    const type = elementTypeOf(array);
    if (type === undefined) {
      throw invalidArgument(`${call} takes a ${NUMERIC_ARRAYS}, not ${inspect(array, BRIEFLY)}.`);
    }
    requireAttached(call, array);
    const { byteLength, length: elementCount } = array;
    const block = this.allocated.holding(array, call);
    if (block !== undefined) {
      block.users++;
      const dense = { type, data: array.byteOffset, elementCount };
      return { dense, isShared: true, copyBack: () => array, release: () => void block.users-- };
    }
    const data = this.heap.allocate(byteLength);
    const dense = { type, data, elementCount };
    copyElements(this.view(dense), array);
    const copyBack = () => {
      if (array.length !== elementCount) throw invalidArgument(`The array was detached while ${call} used it.`);
      copyElements(array, this.view(dense));
      return array;
    };
    return { dense, isShared: false, copyBack, release: () => this.heap.release(data, byteLength) };
  }
}

/** The array of received bytes. */
function arrayIn(type: ElementType, { buffer, byteOffset, byteLength }: Uint8Array): NumericArray {
  return arrayOf(type, buffer, byteOffset, byteLength / ELEMENT_BYTES[type]);
}

/** For values in messages, which may be large. */
const BRIEFLY = { depth: 0, maxArrayLength: 3, maxStringLength: 30, breakLength: Infinity };

/** @throws GradringError `ERR_INVALID_ARGUMENT` */
function requireAttached(call: string, array: ArrayBufferView): void {
  if (!isDetached(array)) return;
  const words = `${call} got a detached array: its memory was given away, as by a transfer to another thread. Pass a copy there, or make a new array.`;
  throw invalidArgument(words);
}

/** @throws GradringError `ERR_INVALID_ARGUMENT` */
function reductionOf(
  call: string,
  options: ReduceOptions,
  dense: DenseArray,
): { readonly array: ReducedArray; readonly reduction: Reduction } {
  checkCallOptions(call, options, { op: true, as: true });
  const { op = 'sum', as } = options;
  if (!REDUCTIONS.includes(op)) throw invalidArgument(`op is '${op}'; it must be one of ${REDUCTIONS.join(', ')}.`);
  if (as !== undefined) requireHalfType(as);
  if (as !== undefined && dense.type !== 'uint16') {
    throw invalidArgument(
      `as: '${as}' is for a Uint16Array, which holds the bits of such floats, not for ${dense.type}.`,
    );
  }
  const type = as ?? dense.type;
  if (type === 'uint16') {
    throw invalidArgument(
      `ring.${call} cannot know what the bits of a Uint16Array mean: pass { as: 'float16' } or { as: 'bfloat16' }.`,
    );
  }
  if (op === 'mean' && !isFloat(type)) {
    throw invalidArgument(
      `A mean of ${type} would not be a whole number: reduce with 'sum', or convert to float64 first.`,
    );
  }
  return { array: { ...dense, type }, reduction: op };
}

/** @throws GradringError `ERR_INVALID_ARGUMENT` if it is no rank of the ring. */
export function requireRank(name: string, rank: number, worldSize: number): void {
  if (Number.isInteger(rank) && rank >= 0 && rank < worldSize) return;
  throw invalidArgument(`${name} is ${rank}; it must be a rank, 0 … ${worldSize - 1}.`);
}

/** A rank, and how many there are. */
interface Place {
  readonly rank: number;
  readonly worldSize: number;
}

/**
 * The tag of a message, if all that the caller has given is right.
 *
 * @param name What the other rank is called: `to` or `from`.
 * @throws GradringError `ERR_INVALID_ARGUMENT`
 */
function checkedTag(
  call: string,
  name: string,
  other: number,
  options: MessageOptions,
  { rank, worldSize }: Place,
): number {
  requireRank(name, other, worldSize);
  if (other === rank) throw invalidArgument(`${name} is ${other}, this rank itself: ring.${call} takes another rank.`);
  checkCallOptions(call, options, { tag: true });
  const { tag = 0 } = options;
  if (Number.isInteger(tag) && tag >= 0 && tag <= LARGEST_TAG) return tag;
  throw invalidArgument(`tag is ${inspect(tag, BRIEFLY)}; it must be a whole number from 0 to ${LARGEST_TAG}.`);
}

const LARGEST_TAG = 65_535;

/**
 * {@link checkOptions} for a collective. Allows `purpose`, but does not name it to users, who cannot give one. A call
 * with a purpose may be the second part of a call of the user. The other ranks are in it already, so an aborted signal
 * must end the ring, and is not checked here.
 *
 * @throws GradringError also `ERR_ABORTED` for a call of the user whose signal is aborted.
 */
export function checkCallOptions(call: string, options: CallOptions, names: Readonly<Record<string, true>>): void {
  const { purpose, ...own } = (options ?? {}) as CallOptions & { readonly purpose?: Purpose };
  const given = typeof options === 'object' && purpose !== undefined ? own : options;
  checkOptions<object>(`ring.${call}`, given, { ...names, signal: true });
  if (purpose === undefined) checkSignal(`ring.${call}`, own.signal);
}

function purposeOf({ purpose = Purpose.Call }: { readonly purpose?: Purpose }): Purpose {
  return purpose;
}

function checkSparse({ indices, values, elementCount }: SparseArray): void {
  if (!isUint32Array(indices) || !isFloat32Array(values)) {
    throw invalidArgument('ring.sparseAllReduce takes indices as a Uint32Array and values as a Float32Array.');
  }
  for (const array of [indices, values]) requireAttached('ring.sparseAllReduce', array);
  if (!Number.isInteger(elementCount) || elementCount < 0 || elementCount > 2 ** 30) {
    throw invalidArgument(`elementCount is ${elementCount}; it must be a whole number from 0 to 2^30.`);
  }
  if (indices.length !== values.length) {
    throw invalidArgument(`There are ${indices.length} indices but ${values.length} values.`);
  }
  for (let i = 0; i < indices.length; i++) {
    if (indices[i]! >= elementCount || (i > 0 && indices[i]! <= indices[i - 1]!)) {
      throw invalidArgument(`Index ${i} is ${indices[i]}; indices must ascend and lie below ${elementCount}.`);
    }
    if (!Number.isFinite(values[i])) throw invalidArgument(`Value ${i} is ${values[i]}; values must be finite.`);
  }
}
