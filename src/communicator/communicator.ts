import type { DenseArray } from '../collectives/dense-array';
import type { Range } from '../collectives/chunks';
import { type ArrayOf, arrayOf, ELEMENT_BYTES, elementTypeOf, type NumericArray } from '../collectives/element-type';
import { checkOptions } from '../check-options';
import { invalidArgument, GradringError } from '../errors';
import type { ElementType, Pointer } from '../kernels/kernels';
import { recorded } from '../timeline/timeline';
import type { SpanArguments, SpanKind } from '../timeline/trace-event';
import type { TrafficCount } from '../transport/transport';
import { Purpose } from '../wire/frame';
import { type ConnectInput, type ConnectOptions, resolveConnectOptions } from '../rendezvous/connect-options';
import { ExchangeHandle, type ExchangeInput } from '../exchange/exchange-handle';
import { SharedHeap } from '../memory/shared-heap';
import { ThreadClient } from './thread-client';
import {
  type CommandName,
  type Commands,
  type Reduction,
  REDUCTIONS,
  type RingPlace,
  type Routes,
} from '../comm-thread/thread-protocol';
import { type UnitRing, Units } from './units';

export { Purpose };
export type { ArrayOf, ConnectInput, ElementType, NumericArray, Reduction, Routes };

/** What {@link Communicator.allReduce} and `reduceScatter` may take. */
export interface ReduceOptions {
  /**
   * How to reduce: `sum` (the default), `mean`, `min` or `max`. `mean` is for floats only. Sums of integers wrap
   * around.
   */
  readonly op?: Reduction;
  /**
   * What gradring itself calls it for.
   *
   * @internal
   */
  readonly purpose?: Purpose;
}

/** What {@link Communicator.allGather} may take. */
export interface GatherOptions {
  /** Allows arrays of different lengths. Default false: different lengths are `ERR_COLLECTIVE_MISMATCH`. */
  readonly variableLength?: boolean;
  /**
   * What gradring itself calls it for.
   *
   * @internal
   */
  readonly purpose?: Purpose;
}

/** What {@link Communicator.broadcast} may take. */
export interface BroadcastOptions {
  /** The rank whose array all ranks get. Default 0. */
  readonly root?: number;
  /**
   * What gradring itself calls it for.
   *
   * @internal
   */
  readonly purpose?: Purpose;
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

/**
 * One rank's end of a ring, in the thread that trains.
 *
 * All ranks must call the same collectives in the same order. Calls that are not awaited run one after the other, in
 * the order of the calls. Each collective is there twice: asynchronous, and `…Sync`, which puts this thread to sleep
 * while the comm thread works. An array is copied when the call is made, unless it is from {@link allocate}. The arrays
 * in these examples are those of rank 0 in a ring of two:
 *
 * ```ts
 * const sum = await ring.allReduce(Float32Array.of(ring.rank, 1));
 * console.log(sum); // Float32Array(2) [ 1, 2 ]
 * ```
 *
 * If a collective throws one of these, the ring has failed and cannot be used any more: `ERR_PEER_LOST` (a rank died or
 * left; `error.rank` says which), `ERR_TIMEOUT`, `ERR_COLLECTIVE_MISMATCH`, `ERR_PROTOCOL`, `ERR_COMM_THREAD`. All
 * ranks get the same error. Wrong arguments (`ERR_INVALID_ARGUMENT`) and a closed communicator (`ERR_CLOSED`) are
 * errors before anything is sent, and the ring is not affected.
 */
export class Communicator {
  /** @internal The memory that both threads share, for the arrays of collectives. */
  readonly heap: SharedHeap;
  private readonly allocated = new WeakSet<NumericArray>();
  private exchanges = 0;
  private closing: Promise<void> | undefined;
  private isCallingForUnits = false;
  /** Of arrays whose calls have failed: the comm thread may use them until another ring stands. */
  private unreleased: (() => void)[] = [];
  private readonly closeAtEnd = () => void this.close();
  /**
   * What must happen on all ranks or on none.
   *
   * @internal
   */
  readonly units: Units;

  protected constructor(
    private readonly options: ConnectOptions,
    heap: SharedHeap,
    private readonly thread: ThreadClient,
  ) {
    this.heap = heap;
    this.units = new Units(options.elastic && this.unitRing());
    // A program that just ends has its goodbye said for it, so that its neighbours know that it did not crash.
    process.once('beforeExit', this.closeAtEnd);
  }

  /**
   * Joins the ring: meets the other ranks at the rendezvous and connects to the neighbours. Without RANK in the
   * environment the process is alone: a ring of one, without sockets. Use {@link connect} for a {@link Ring}.
   *
   * @throws GradringError `ERR_INVALID_ENVIRONMENT`, `ERR_INVALID_ARGUMENT`, `ERR_RENDEZVOUS_TIMEOUT`,
   *   `ERR_RENDEZVOUS_REFUSED`, `ERR_RANK_TAKEN`, `ERR_ADDRESS_IN_USE`, `ERR_TIMELINE`.
   */
  static async connect(input: ConnectInput = {}): Promise<Communicator> {
    return new this(...(await Communicator.start(input)));
  }

  /** What a constructor needs, made ready. For subclasses. */
  protected static async start(input: ConnectInput): Promise<[ConnectOptions, SharedHeap, ThreadClient]> {
    const options = resolveConnectOptions(input);
    const heap = new SharedHeap();
    const thread = await ThreadClient.start(options, heap);
    return [{ ...options, runToken: undefined }, heap, thread]; // a communicator may be printed
  }

  /** The number of this rank, 0 … worldSize − 1. It changes if the ring of an elastic run forms again. */
  get rank(): number {
    return this.thread.place.rank;
  }

  /** How many ranks the ring has. It changes if the ring of an elastic run forms again. */
  get worldSize(): number {
    return this.thread.place.worldSize;
  }

  /** The number of this ring in an elastic run, from 0. A process that was started again has −1 until it is let in. */
  get generation(): number {
    return this.thread.place.generation;
  }

  /**
   * RANK and WORLD_SIZE of this process at its launch. They never change, so they say which part of the data it has.
   */
  get launched(): { readonly rank: number; readonly worldSize: number } {
    const { rank, worldSize } = this.options;
    return { rank, worldSize };
  }

  /** Whether the ring continues when ranks are lost (`gradring run --min`). */
  get isElastic(): boolean {
    return this.options.elastic !== undefined;
  }

  /** The number of this rank among the ranks of its host. */
  get localRank(): number {
    return this.options.localRank;
  }

  /** How much this rank has sent and received since the ring formed, up to the last collective. */
  get traffic(): TrafficCount {
    return this.thread.traffic;
  }

  /**
   * An array of zeros in the memory that both threads share. Collectives work on it, and on parts of it (`subarray`),
   * without copying; they copy other arrays in and out. Do not read or write it while a collective uses it, and, after
   * a collective has failed, until the communicator is closed. It lives until you {@link free} it. Do not use it after
   * that: the memory may belong to another array.
   *
   * ```ts
   * const gradient = ring.allocate('float32', 1_000_000);
   * gradient.fill(ring.rank + 1);
   * ring.allReduceSync(gradient, { op: 'mean' });
   * console.log(gradient[0]); // 1.5
   * ring.free(gradient);
   * ```
   *
   * @throws GradringError `ERR_OUT_OF_MEMORY` past 4 GiB in all.
   */
  allocate<T extends ElementType>(type: T, elementCount: number): ArrayOf<T> {
    if (!Number.isSafeInteger(elementCount) || elementCount < 0) {
      throw invalidArgument(`elementCount is ${elementCount}; it must be a whole number from 0 on.`);
    }
    const data = this.heap.allocate(elementCount * ELEMENT_BYTES[type]);
    const array = this.view<ArrayOf<T>>({ type, data, elementCount });
    this.allocated.add(array);
    return array.fill(0) as ArrayOf<T>;
  }

  /** Gives back the memory of an array from {@link allocate}. Call it once for each. */
  free(array: NumericArray): void {
    if (!this.allocated.delete(array)) throw invalidArgument('free takes an array that allocate made, once.');
    this.heap.release(array.byteOffset, array.byteLength);
  }

  /**
   * Reduces element by element over all ranks, in place, and returns the array. Its bits are the same on all ranks.
   *
   * ```ts
   * console.log(await ring.allReduce(Int32Array.of(ring.rank, 7), { op: 'max' })); // Int32Array(2) [ 1, 7 ]
   * ```
   */
  async allReduce<T extends NumericArray>(array: T, options: ReduceOptions = {}): Promise<T> {
    return this.staged(array, async (staged, copyBack) => {
      await this.call('allReduce', {
        array: staged,
        reduction: reductionOf(options, staged),
        purpose: purposeOf(options),
      });
      return copyBack();
    });
  }

  /** {@link allReduce}; the thread sleeps meanwhile. */
  allReduceSync<T extends NumericArray>(array: T, options: ReduceOptions = {}): T {
    return this.stagedSync(array, (staged, copyBack) => {
      this.callSync('allReduce', {
        array: staged,
        reduction: reductionOf(options, staged),
        purpose: purposeOf(options),
      });
      return copyBack();
    });
  }

  /**
   * Returns the arrays of all ranks, in the order of ranks.
   *
   * ```ts
   * const all = await ring.allGather(Int32Array.of(ring.rank, 10 * ring.rank));
   * console.log(all); // [ Int32Array(2) [ 0, 0 ], Int32Array(2) [ 1, 10 ] ]
   * ```
   */
  async allGather<T extends NumericArray>(array: T, options: GatherOptions = {}): Promise<T[]> {
    return this.staged(array, async staged =>
      gathered<T>(
        staged,
        await this.call('allGather', { array: staged, lengths: lengthsOf(options), purpose: purposeOf(options) }),
      ),
    );
  }

  /** {@link allGather}; the thread sleeps meanwhile. */
  allGatherSync<T extends NumericArray>(array: T, options: GatherOptions = {}): T[] {
    return this.stagedSync(array, staged =>
      gathered<T>(
        staged,
        this.callSync('allGather', { array: staged, lengths: lengthsOf(options), purpose: purposeOf(options) }),
      ),
    );
  }

  /**
   * Reduces like {@link allReduce}, but returns only the chunk of this rank, as a new array: the elements from ⌊rank ·
   * n / worldSize⌋ up to, but not including, ⌊(rank + 1) · n / worldSize⌋. If the array is from {@link allocate}, the
   * result is a part of it, and the values of its other elements are undefined.
   *
   * ```ts
   * console.log(await ring.reduceScatter(Float64Array.of(1, 2, 3, 4))); // Float64Array(2) [ 2, 4 ]
   * ```
   */
  async reduceScatter<T extends NumericArray>(array: T, options: ReduceOptions = {}): Promise<T> {
    return this.staged(array, async staged => {
      const range = await this.call('reduceScatter', { array: staged, reduction: reductionOf(options, staged) });
      return this.part(array, staged, range);
    });
  }

  /** {@link reduceScatter}; the thread sleeps meanwhile. */
  reduceScatterSync<T extends NumericArray>(array: T, options: ReduceOptions = {}): T {
    return this.stagedSync(array, staged => {
      const range = this.callSync('reduceScatter', { array: staged, reduction: reductionOf(options, staged) });
      return this.part(array, staged, range);
    });
  }

  /**
   * Gives every rank the root's array, in place, and returns the array.
   *
   * ```ts
   * console.log(await ring.broadcast(Float32Array.of(ring.rank), { root: 1 })); // Float32Array(1) [ 1 ]
   * ```
   */
  async broadcast<T extends NumericArray>(array: T, options: BroadcastOptions = {}): Promise<T> {
    const root = this.rootOf(options);
    return this.staged(array, async (staged, copyBack) => {
      await this.call('broadcast', { array: staged, root, purpose: purposeOf(options) });
      return copyBack();
    });
  }

  /** {@link broadcast}; the thread sleeps meanwhile. */
  broadcastSync<T extends NumericArray>(array: T, options: BroadcastOptions = {}): T {
    const root = this.rootOf(options);
    return this.stagedSync(array, (staged, copyBack) => {
      this.callSync('broadcast', { array: staged, root, purpose: purposeOf(options) });
      return copyBack();
    });
  }

  /** Returns when all ranks have called it. */
  async barrier(): Promise<void> {
    await this.call('barrier', { purpose: Purpose.Call });
  }

  /** {@link barrier}; the thread sleeps meanwhile. */
  barrierSync(): void {
    this.callSync('barrier', { purpose: Purpose.Call });
  }

  /**
   * Sends the array to the right neighbour, receives the left neighbour's array in place, and returns it. All ranks
   * pass the same number of elements.
   *
   * ```ts
   * console.log(await ring.sendReceive(Int32Array.of(10 + ring.rank))); // Int32Array(1) [ 11 ]
   * ```
   */
  async sendReceive<T extends NumericArray>(array: T): Promise<T> {
    return this.staged(array, async (staged, copyBack) => {
      await this.call('sendReceive', { array: staged });
      return copyBack();
    });
  }

  /** {@link sendReceive}; the thread sleeps meanwhile. */
  sendReceiveSync<T extends NumericArray>(array: T): T {
    return this.stagedSync(array, (staged, copyBack) => {
      this.callSync('sendReceive', { array: staged });
      return copyBack();
    });
  }

  /**
   * Returns the sum over all ranks of sparse arrays of one length, as a dense array. The sums are added in the order of
   * ranks.
   *
   * ```ts
   * const entries = { indices: Uint32Array.of(ring.rank), values: Float32Array.of(5), elementCount: 3 };
   * console.log(await ring.sparseAllReduce(entries)); // Float32Array(3) [ 5, 5, 0 ]
   * ```
   */
  async sparseAllReduce(array: SparseArray): Promise<Float32Array> {
    return this.stagedSparse(array, async (input, result) => {
      await this.call('sparseAllReduce', input);
      return result();
    });
  }

  /** {@link sparseAllReduce}; the thread sleeps meanwhile. */
  sparseAllReduceSync(array: SparseArray): Float32Array {
    return this.stagedSparse(array, (input, result) => {
      this.callSync('sparseAllReduce', input);
      return result();
    });
  }

  /**
   * Runs collectives that must succeed on all ranks or on none, and returns their result: JSON, the same on all ranks.
   * If a rank of an elastic run is lost meanwhile, the others run them again, in a ring of another size; or, if some
   * ranks had finished, all ranks get their result. So do not change anything in `run` that must not be changed twice.
   * Outside of elastic runs it only calls `run`. Optimizer steps do not belong in it: each of them is done by all ranks
   * or by none.
   *
   * ```ts
   * const total = await ring.allOrNone(async () => [...(await ring.allReduce(Int32Array.of(2)))]);
   * console.log(total); // [ 4 ]
   * ```
   *
   * @throws GradringError `ERR_COLLECTIVE_MISMATCH` if the ranks were within different ones; what `run` throws.
   */
  async allOrNone<T>(run: () => Promise<T>): Promise<T> {
    const together = async () => {
      // No rank may be done before all have begun.
      if (this.isElastic) await this.call('barrier', { purpose: Purpose.AllOrNone });
      return run();
    };
    return this.units.run({ name: 'allOrNone', run: together });
  }

  /**
   * Waits until the others let in this process, which was started again.
   *
   * @param receive Takes what that rank gives, by collectives, asleep.
   * @internal
   */
  async enter<T>(receive: (root: number) => T): Promise<T> {
    const rejoin = async () => {
      this.moveTo(await this.thread.call('rejoin', { newcomer: true, admits: false }));
    };
    return this.units.enter(rejoin, receive);
  }

  /**
   * How many processes that were started again wait to be let in. For one rank to ask.
   *
   * @internal
   */
  async waitingNewcomers(): Promise<number> {
    return this.call('askWaiting', {});
  }

  /**
   * How data goes from this rank by now. For measurements.
   *
   * @internal
   */
  async routes(): Promise<Routes> {
    return this.call('askRoutes', {});
  }

  /**
   * Opens the exchange of one model's gradients; the optimizer wrapper's way in.
   *
   * @internal
   */
  openExchange(input: ExchangeInput): ExchangeHandle {
    const exchange = this.exchanges++;
    const handle = new ExchangeHandle(input, {
      run: step => this.call('exchange', { exchange, step }),
      runSync: step => this.callSync('exchange', { exchange, step }),
      conclude: applied => this.callSync('concludeExchange', { exchange, applied }),
      close: () => {
        if (this.closing === undefined) ignoreCrash(() => this.callSync('closeExchange', { exchange }));
      },
    });
    this.callSync('openExchange', { exchange, plan: handle.plan });
    return handle;
  }

  /**
   * Runs something in this thread, and records it on the timeline, if there is one.
   *
   * @internal
   */
  recorded<T>(name: SpanKind, args: SpanArguments, run: () => T): T {
    return recorded(this.thread.timeline, name, args, run);
  }

  /**
   * Leaves the ring, after earlier calls have finished. The other ranks may finish what does not need this one; a
   * collective that needs it fails there with `ERR_PEER_LOST`. May be called twice.
   *
   * In an elastic run it first waits until all ranks have done the last step that this rank has done, which takes some
   * milliseconds. If a rank is lost meanwhile, it gives the step to the ranks that have not done it, and sleeps until
   * they take it.
   */
  close(): Promise<void> {
    process.removeListener('beforeExit', this.closeAtEnd);
    this.closing ??= (async () => {
      if (this.generation !== -1) await this.units.awaitOthers().catch(() => undefined); // whatever went wrong, it leaves
      await this.thread.call('close', {}).catch(() => undefined); // a thread that has failed is closed
      await this.thread.terminate();
    })();
    return this.closing;
  }

  private moveTo(place: RingPlace): void {
    const isAnother = place.generation !== this.generation;
    this.thread.place = place;
    if (isAnother) for (const release of this.unreleased.splice(0)) release();
  }

  private unitRing(): UnitRing {
    return {
      rejoin: join => {
        const { generation } = this;
        this.moveTo(this.thread.callSync('rejoin', join));
        return this.generation !== generation;
      },
      allGather: own => this.allGatherSync(own, { variableLength: true, purpose: Purpose.Reunite }),
      awaitOthers: () => this.thread.call('awaitOthers', {}),
      evenIfLeaving: run => {
        this.isCallingForUnits = true; // no code of the user's can come between, for it is all synchronous
        try {
          return run();
        } finally {
          this.isCallingForUnits = false;
        }
      },
    };
  }

  private async call<N extends CommandName>(name: N, input: Commands[N]['input']): Promise<Commands[N]['result']> {
    this.checkOpen();
    return this.thread.call(name, input);
  }

  private callSync<N extends CommandName>(name: N, input: Commands[N]['input']): Commands[N]['result'] {
    this.checkOpen();
    return this.thread.callSync(name, input);
  }

  private checkOpen(): void {
    if (this.closing !== undefined && !this.isCallingForUnits)
      throw new GradringError('ERR_CLOSED', 'The communicator was closed.');
    if (this.generation !== -1) return;
    const words =
      'This process takes the place of a rank that was lost: before anything else it must join the others, by ring.join(…) or checkpoint.resume().';
    throw invalidArgument(words);
  }

  private rootOf(options: BroadcastOptions): number {
    checkCallOptions('broadcast', options, { root: true });
    const { root = 0 } = options;
    if (!Number.isInteger(root) || root < 0 || root >= this.worldSize) {
      throw invalidArgument(`root is ${root}; it must be a rank, 0 … ${this.worldSize - 1}.`);
    }
    return root;
  }

  /** Has an array in the shared memory for the time of a call: a copy, unless it is there anyway. */
  private async staged<T extends NumericArray, R>(
    array: T,
    use: (staged: DenseArray, copyBack: () => T) => Promise<R>,
  ): Promise<R> {
    const { staged, copyBack, release } = this.stage(array);
    try {
      const result = await use(staged, copyBack);
      release();
      return result;
    } catch (error) {
      this.releaseAfter(error, release);
      throw error;
    }
  }

  private stagedSync<T extends NumericArray, R>(array: T, use: (staged: DenseArray, copyBack: () => T) => R): R {
    const { staged, copyBack, release } = this.stage(array);
    try {
      const result = use(staged, copyBack);
      release();
      return result;
    } catch (error) {
      this.releaseAfter(error, release);
      throw error;
    }
  }

  private releaseAfter(error: unknown, release: () => void): void {
    if (isInFlight(error)) this.unreleased.push(release);
    else release();
  }

  private stage<T extends NumericArray>(array: T): { staged: DenseArray; copyBack: () => T; release: () => void } {
    const type = elementTypeOf(array);
    if (type === undefined) {
      throw invalidArgument('Collectives take a Float32Array, Float64Array, Int32Array or Uint8Array.');
    }
    const { byteLength } = array;
    if (this.heap.holds(array)) {
      const staged = { type, data: array.byteOffset, elementCount: array.length };
      return { staged, copyBack: () => array, release: () => undefined };
    }
    const data = this.heap.allocate(byteLength);
    const staged = { type, data, elementCount: array.length };
    this.view(staged).set(array);
    return {
      staged,
      copyBack: () => {
        array.set(this.view(staged));
        return array;
      },
      release: () => this.heap.release(data, byteLength),
    };
  }

  private part<T extends NumericArray>(array: T, staged: DenseArray, range: Range): T {
    const part = this.view<T>(staged, range);
    return (this.heap.holds(array) ? part : part.slice()) as T;
  }

  private view<T extends NumericArray>({ type, data, elementCount }: DenseArray, range?: Range): T {
    const { start, count } = range ?? { start: 0, count: elementCount };
    return arrayOf(type, this.heap.buffer, data + start * ELEMENT_BYTES[type], count) as T;
  }

  private stagedSparse<R extends Float32Array | Promise<Float32Array>>(
    array: SparseArray,
    use: (input: Commands['sparseAllReduce']['input'], result: () => Float32Array) => R,
  ): R {
    checkSparse(array);
    const { indices, values, elementCount } = array;
    const sizes = [indices.byteLength, values.byteLength, elementCount * 4];
    const blocks: Pointer[] = [];
    const release = () => blocks.forEach((block, i) => this.heap.release(block, sizes[i]!));
    try {
      for (const bytes of sizes) blocks.push(this.heap.allocate(bytes));
    } catch (error) {
      release(); // those that there was still room for
      throw error;
    }
    const [indicesAt, valuesAt, output] = blocks as [Pointer, Pointer, Pointer];
    const { buffer } = this.heap.memory;
    new Uint32Array(buffer, indicesAt, indices.length).set(indices);
    new Float32Array(buffer, valuesAt, values.length).set(values);
    const input = { indices: indicesAt, values: valuesAt, count: indices.length, elementCount, output };
    const result = () => new Float32Array(this.heap.memory.buffer, output, elementCount).slice();
    let used: R;
    try {
      used = use(input, result);
    } catch (error) {
      release();
      throw error;
    }
    if (used instanceof Promise) return used.finally(release) as R;
    release();
    return used;
  }
}

/** A comm thread that has crashed holds nothing any more. */
function ignoreCrash(run: () => void): void {
  try {
    run();
  } catch (error) {
    if (!(error instanceof GradringError && error.code === 'ERR_COMM_THREAD')) throw error;
  }
}

/**
 * Whether ZeroMQ may still send from the memory of a call that failed so. It is then left alone until another ring
 * stands, if ever.
 */
function isInFlight(error: unknown): boolean {
  return !(error instanceof GradringError && error.code === 'ERR_INVALID_ARGUMENT');
}

function reductionOf(options: ReduceOptions, { type }: DenseArray): Reduction {
  checkCallOptions('allReduce (or reduceScatter)', options, { op: true });
  const { op = 'sum' } = options;
  if (!REDUCTIONS.includes(op)) throw invalidArgument(`op is '${op}'; it must be one of ${REDUCTIONS.join(', ')}.`);
  if (op === 'mean' && (type === 'int32' || type === 'uint8')) {
    throw invalidArgument(`A mean of ${type} would not be whole: reduce with 'sum', or convert to float32 before.`);
  }
  return op;
}

/** {@link checkOptions} of a collective, for users: they have no purpose to give. */
function checkCallOptions(call: string, options: object, names: Readonly<Record<string, true>>): void {
  const { purpose, ...own } = (options ?? {}) as { readonly purpose?: Purpose };
  checkOptions(call, typeof options === 'object' && purpose !== undefined ? own : options, names);
}

function purposeOf({ purpose = Purpose.Call }: { readonly purpose?: Purpose }): Purpose {
  return purpose;
}

function lengthsOf(options: GatherOptions): 'variable' | 'equal' {
  checkCallOptions('allGather', options, { variableLength: true });
  const { variableLength = false } = options;
  return variableLength ? 'variable' : 'equal';
}

function gathered<T extends NumericArray>({ type }: DenseArray, bodies: Uint8Array[]): T[] {
  return bodies.map(
    bytes => arrayOf(type, bytes.buffer, bytes.byteOffset, bytes.byteLength / ELEMENT_BYTES[type]) as T,
  );
}

function checkSparse({ indices, values, elementCount }: SparseArray): void {
  if (!(indices instanceof Uint32Array) || !(values instanceof Float32Array)) {
    throw invalidArgument('sparseAllReduce takes indices as a Uint32Array and values as a Float32Array.');
  }
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
