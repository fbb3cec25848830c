import {
  type ArrayOf,
  type ElementType,
  elementTypeOf,
  NUMERIC_ARRAYS,
  type NumericArray,
  requireElementType,
} from '../collectives/element-type';
import {
  type CommandName,
  type Commands,
  type Reduction,
  type RingPosition,
  type Media,
} from '../comm-thread/thread-protocol';
import { isLaunched, noteGroup, tellFailure, tellLauncher } from '../environment/launcher-pipe';
import { stopAfterMs } from '../environment/stop';
import { unknownVariableWarning } from '../environment/variables';
import { closedError, GradringError, invalidArgument } from '../errors';
import { defaultThreads } from '../environment/threads';
import { ExchangeHandle, type ExchangeInput } from '../exchange/exchange-handle';
import { SharedHeap } from '../memory/shared-heap';
import { requireNode } from '../node-version';
import type { Observer } from '../observer';
import { brokenValue } from '../rank-values';
import { type ConnectInput, type ConnectOptions, resolveConnectOptions } from '../rendezvous/connect-options';
import { ProcessCalls } from './process-calls';
import { Purpose } from '../wire/frame';
import { asleep, awake, waitFor, waitForPromise, type Work } from '../work';
import { type CallOptions, checkSignal, withReason } from './abort';
import { AllocatedArrays } from './allocated-arrays';
import {
  type BroadcastOptions,
  checkCallOptions,
  type CollectiveRequest,
  CollectiveRequests,
  type GatherOptions,
  type MessageOptions,
  type ReduceOptions,
  type SparseArray,
} from './collective-requests';
import { decodeObject, encodeObject, isObjectLength } from './object-code';
import {
  allToAll,
  type Collectives,
  gather,
  reduce,
  type RootedGatherOptions,
  type RootedReduceOptions,
  scatter,
  type ScatterOptions,
} from './rooted-collectives';
import { checkColour, type Colour, groupOptions } from './group';
import { sameResult } from './same-result';
import { StopRequest } from './stop-request';
import { type AbortableTicket, ThreadClient } from './thread-client';
import { type UnitRing, Units } from './units';

export { elementTypeOf, NUMERIC_ARRAYS, Purpose };
export type { BroadcastOptions, CallOptions, GatherOptions, MessageOptions, ReduceOptions, SparseArray };
export type { Colour };
export type { RootedGatherOptions, RootedReduceOptions, ScatterOptions };
export type { ArrayOf, ConnectInput, ElementType, NumericArray, Reduction, Media };

/** See {@link Communicator.traffic}. */
export interface TrafficCount {
  readonly bytesSent: number;
  readonly bytesReceived: number;
}

/** If a program just ends, it leaves its rings, so that its neighbours know that it did not crash. */
const BEFORE_EXIT = new ProcessCalls('beforeExit');

/** Options that describe another ring than that of the run. */
const PLACE_OPTIONS = ['rank', 'worldSize', 'masterAddr', 'masterPort', 'runId'] as const;

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
 * left; `error.rank` says which), `ERR_TIMEOUT`, `ERR_ABORTED`, `ERR_COLLECTIVE_MISMATCH`, `ERR_PROTOCOL`,
 * `ERR_COMM_THREAD`. All ranks get the same error. Wrong arguments (`ERR_INVALID_ARGUMENT`) and a closed communicator
 * (`ERR_CLOSED`) are errors before anything is sent, and the ring is not affected.
 */
export class Communicator {
  private readonly requests: CollectiveRequests;
  private readonly allocated: AllocatedArrays;
  private exchanges = 0;
  private readonly groups = new Set<Communicator>();
  /** Ends the wait for groups that are not formed yet. */
  private readonly formingGroups = new Set<AbortController>();
  private groupCalls = 0;
  private closing: Promise<void> | undefined;
  private isCallingForUnits = false;
  private readonly closeAtEnd = () => void this.close();
  /** @internal What {@link close} calls at its end. */
  readonly atClose: (() => void | Promise<void>)[] = [];
  /**
   * Runs what must happen on all ranks or on none.
   *
   * @internal
   */
  readonly units: Units;
  /** @internal Whether this rank was told to stop. */
  readonly stopRequest: StopRequest;
  /** Whether the ring continues when ranks are lost (`gradring run --min` or `--max-restarts`). */
  readonly isElastic: boolean;
  /** @internal Observes this thread. Its metrics are those of the rank. */
  readonly observer: Observer;

  /** For groups. Not in the options, because a communicator may be printed. */
  readonly #runToken: string | undefined;
  private readonly options: ConnectOptions;

  protected constructor(
    options: ConnectOptions,
    /** @internal The memory that both threads share, for the arrays of collectives. */
    readonly heap: SharedHeap,
    private readonly thread: ThreadClient,
  ) {
    this.#runToken = options.runToken;
    this.options = { ...options, runToken: undefined };
    this.isElastic = options.elastic !== undefined;
    this.observer = thread.observer;
    this.allocated = new AllocatedArrays(heap);
    this.requests = new CollectiveRequests(heap, this.allocated);
    const { stopAfter } = options;
    this.stopRequest = new StopRequest(stopAfter === undefined ? undefined : stopAfterMs(stopAfter));
    this.units = new Units(options.elastic && this.unitRing());
    BEFORE_EXIT.add(this.closeAtEnd);
  }

  /**
   * Joins the ring: meets the other ranks at the rendezvous and connects to the neighbours. Without RANK in the
   * environment the process is alone: a ring of one, without sockets. Use {@link connect} for a {@link Ring}.
   *
   * @throws GradringError `ERR_INVALID_ENVIRONMENT`, `ERR_INVALID_ARGUMENT`, `ERR_RENDEZVOUS_TIMEOUT`,
   *   `ERR_RENDEZVOUS_REFUSED`, `ERR_RANK_TAKEN`, `ERR_ADDRESS_IN_USE`, `ERR_LOOPBACK_DOWN`, `ERR_OUT_OF_MEMORY`,
   *   `ERR_TIMELINE`, `ERR_NODE_VERSION`, `ERR_BUNDLED`; `ERR_ABORTED` if the signal ends the wait.
   */
  static async connect(input: ConnectInput = {}): Promise<Communicator> {
    return new this(...(await Communicator.start(input)));
  }

  /**
   * Prepares what a constructor needs. For subclasses.
   *
   * @param elasticRefusal What to say in an elastic run, if the subclass does not support it.
   */
  protected static async start(
    input: ConnectInput,
    elasticRefusal?: string,
  ): Promise<[ConnectOptions, SharedHeap, ThreadClient]> {
    requireNode();
    checkSignal('connect', input.signal);
    let options: ConnectOptions;
    try {
      options = resolveConnectOptions(input);
    } catch (error) {
      tellUnknownVariables(); // which may be the reason
      throw error;
    }
    if (options.elastic !== undefined && elasticRefusal !== undefined) throw invalidArgument(elasticRefusal);
    if (options.rank === 0) tellUnknownVariables();
    const isRunsRing = PLACE_OPTIONS.every(option => input[option] === undefined);
    return Communicator.begin(options, isRunsRing, input.signal);
  }

  /** {@link start}, with options that are complete. */
  private static async begin(
    options: ConnectOptions,
    isRunsRing: boolean,
    signal: AbortSignal | undefined,
  ): Promise<[ConnectOptions, SharedHeap, ThreadClient]> {
    if (options.overruled !== undefined) {
      const words = `RANK=0 and WORLD_SIZE=1 are set, so this process trains alone, but ${options.overruled} has started several. If they should train together, unset RANK and WORLD_SIZE.`;
      process.emitWarning(words, 'GradringWarning');
    }
    process.removeListener('uncaughtExceptionMonitor', tellFailure); // of an earlier communicator
    process.on('uncaughtExceptionMonitor', tellFailure);
    tellLauncher({ kind: 'connects', isRunsRing });
    const heap = new SharedHeap();
    const thread = await ThreadClient.start(options, heap, signal);
    tellLauncher({ kind: 'joined' });
    return [options, heap, thread];
  }

  /** The number of this rank, 0 … worldSize − 1. It changes if the ring of an elastic run forms again. */
  get rank(): number {
    return this.thread.position.rank;
  }

  /** How many ranks the ring has. It changes if the ring of an elastic run forms again. */
  get worldSize(): number {
    return this.thread.position.worldSize;
  }

  /** The number of this ring in an elastic run, from 0. A process that was started again has −1 until it is let in. */
  get generation(): number {
    return this.thread.position.generation;
  }

  /** @internal Whether this process replaces a rank that was lost, and the others have not let it in yet. */
  get isNewcomer(): boolean {
    return this.generation === -1;
  }

  /**
   * RANK and WORLD_SIZE of this process at its launch. They never change, so they say which part of the data it has.
   */
  get launched(): { readonly rank: number; readonly worldSize: number } {
    const { rank, worldSize } = this.options;
    return { rank, worldSize };
  }

  /** @internal The id of the run. Empty if it has none. */
  get runId(): string {
    return this.options.runId;
  }

  /** The number of this rank among the ranks of its host. */
  get localRank(): number {
    return this.options.localRank;
  }

  /**
   * How many bytes this rank has sent and received in all its rings: headers and bodies, without ZeroMQ's framing. May
   * be read while a collective is under way.
   */
  get traffic(): TrafficCount {
    const { observer } = this;
    return { bytesSent: observer.read('bytesSent'), bytesReceived: observer.read('bytesReceived') };
  }

  /**
   * Makes an array of zeros in the memory that both threads share. Collectives work on it, and on parts of it
   * (`subarray`), without copying; they copy other arrays in and out. Do not read or write it while a collective uses
   * it, and, after a collective has failed, until the communicator is closed. It lives until you {@link free} it. Do
   * not use it after that: the memory may belong to another array.
   *
   * ```ts
   * const gradient = ring.allocate('float32', 1_000_000);
   * gradient.fill(ring.rank + 1);
   * ring.allReduceSync(gradient, { op: 'mean' });
   * console.log(gradient[0]); // 1.5
   * ring.free(gradient);
   * ```
   *
   * @throws GradringError `ERR_INVALID_ARGUMENT` for an unknown type or a wrong count; `ERR_OUT_OF_MEMORY` above 4 GiB
   *   in all.
   */
  allocate<T extends ElementType>(type: T, elementCount: number): ArrayOf<T> {
    requireElementType(type);
    if (!Number.isSafeInteger(elementCount) || elementCount < 0) {
      throw invalidArgument(`elementCount is ${elementCount}; it must be a whole number, 0 or more.`);
    }
    return this.allocated.allocate(type, elementCount);
  }

  /** Gives back the memory of an array from {@link allocate}. Call it once for each, when no call uses it any more. */
  free(array: NumericArray): void {
    this.allocated.free(array);
  }

  /**
   * Reduces element by element over all ranks, in place, and returns the array. Its bits are the same on all ranks.
   *
   * ```ts
   * console.log(await ring.allReduce(Int32Array.of(ring.rank, 7), { op: 'max' })); // Int32Array(2) [ 1, 7 ]
   * console.log(await ring.allReduce(BigInt64Array.of(3n), { op: 'product' })); // BigInt64Array(1) [ 9n ]
   * ```
   *
   * @throws GradringError `ERR_INVALID_ARGUMENT` for a `Uint16Array` without `as`, and for a mean of integers.
   */
  async allReduce<T extends NumericArray>(array: T, options: ReduceOptions = {}): Promise<T> {
    return awake(this.work(this.requests.allReduce(array, options)));
  }

  /** {@link allReduce}; the thread sleeps meanwhile. */
  allReduceSync<T extends NumericArray>(array: T, options: ReduceOptions = {}): T {
    return asleep(this.work(this.requests.allReduce(array, options)));
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
    return awake(this.allGatherWork(array, options));
  }

  /** @internal {@link allGather}, for code that sleeps or does not. */
  allGatherWork<T extends NumericArray>(array: T, options: GatherOptions): Work<T[]> {
    return this.work(this.requests.allGather(array, options));
  }

  /** {@link allGather}; the thread sleeps meanwhile. */
  allGatherSync<T extends NumericArray>(array: T, options: GatherOptions = {}): T[] {
    return asleep(this.allGatherWork(array, options));
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
    return awake(this.work(this.requests.reduceScatter(array, options)));
  }

  /** {@link reduceScatter}; the thread sleeps meanwhile. */
  reduceScatterSync<T extends NumericArray>(array: T, options: ReduceOptions = {}): T {
    return asleep(this.work(this.requests.reduceScatter(array, options)));
  }

  /**
   * Gives every rank the root's array, in place, and returns the array.
   *
   * ```ts
   * console.log(await ring.broadcast(Float32Array.of(ring.rank), { root: 1 })); // Float32Array(1) [ 1 ]
   * ```
   */
  async broadcast<T extends NumericArray>(array: T, options: BroadcastOptions = {}): Promise<T> {
    return awake(this.work(this.requests.broadcast(array, options, this.worldSize)));
  }

  /** {@link broadcast}; the thread sleeps meanwhile. */
  broadcastSync<T extends NumericArray>(array: T, options: BroadcastOptions = {}): T {
    return asleep(this.work(this.requests.broadcast(array, options, this.worldSize)));
  }

  /**
   * Reduces like {@link allReduce}, and gives the result to the root only, in place. The arrays of the others do not
   * change. On a ring it takes as long as an all-reduce.
   *
   * ```ts
   * console.log(await ring.reduce(Int32Array.of(ring.rank, 7), { root: 0 })); // Int32Array(2) [ 1, 14 ]
   * ```
   *
   * @returns The array on the root, and undefined on other ranks.
   */
  async reduce<T extends NumericArray>(array: T, options: RootedReduceOptions = {}): Promise<T | undefined> {
    return awake(reduce(this.collectives, array, options));
  }

  /** {@link reduce}; the thread sleeps meanwhile. */
  reduceSync<T extends NumericArray>(array: T, options: RootedReduceOptions = {}): T | undefined {
    return asleep(reduce(this.collectives, array, options));
  }

  /**
   * Gives the root the arrays of all ranks, in the order of ranks. On a ring it takes as long as an all-gather.
   *
   * ```ts
   * console.log(await ring.gather(Int32Array.of(5 + ring.rank))); // [ Int32Array(1) [ 5 ], Int32Array(1) [ 6 ] ]
   * ```
   *
   * @returns The arrays on the root, and undefined on other ranks.
   */
  async gather<T extends NumericArray>(array: T, options: RootedGatherOptions = {}): Promise<T[] | undefined> {
    return awake(gather(this.collectives, array, options));
  }

  /** {@link gather}; the thread sleeps meanwhile. */
  gatherSync<T extends NumericArray>(array: T, options: RootedGatherOptions = {}): T[] | undefined {
    return asleep(gather(this.collectives, array, options));
  }

  /**
   * Divides an array of the root between the ranks, in their order: each gets its part in place.
   *
   * ```ts
   * console.log(await ring.scatter(new Int32Array(2), { from: Int32Array.of(1, 2, 3, 4) })); // Int32Array(2) [ 1, 2 ]
   * ```
   *
   * @param array The part of this rank, of the same length on all ranks.
   */
  async scatter<T extends NumericArray>(array: T, options: ScatterOptions<T> = {}): Promise<T> {
    return awake(scatter(this.collectives, array, options));
  }

  /** {@link scatter}; the thread sleeps meanwhile. */
  scatterSync<T extends NumericArray>(array: T, options: ScatterOptions<T> = {}): T {
    return asleep(scatter(this.collectives, array, options));
  }

  /**
   * Exchanges parts: each rank has one for every rank, and gets those that are for it, in the order of the ranks that
   * had them.
   *
   * ```ts
   * console.log(await ring.allToAll(Int32Array.of(10 * ring.rank, 1 + 10 * ring.rank))); // Int32Array(2) [ 0, 10 ]
   * ```
   *
   * @param array The parts, all of the same length, in the order of the ranks that they are for.
   * @returns A new array.
   */
  async allToAll<T extends NumericArray>(array: T, options: CallOptions = {}): Promise<T> {
    return awake(allToAll(this.collectives, array, options));
  }

  /** {@link allToAll}; the thread sleeps meanwhile. */
  allToAllSync<T extends NumericArray>(array: T, options: CallOptions = {}): T {
    return asleep(allToAll(this.collectives, array, options));
  }

  /**
   * Gives all ranks a value of the root: plain JSON, in which there may be typed arrays.
   *
   * ```ts
   * const value = ring.rank === 0 ? { words: ['a', 'b'], counts: Float32Array.of(3, 4) } : undefined;
   * const { words } = await ring.broadcastObject(value) as { words: string[] };
   * console.log(words); // [ 'a', 'b' ]
   * ```
   *
   * @param value Only the root's counts.
   * @returns The value itself on the root, and a copy on other ranks.
   * @throws GradringError `ERR_INVALID_ARGUMENT` for what would not come back as it is, with the place in the value.
   */
  async broadcastObject(value: unknown, options: BroadcastOptions = {}): Promise<unknown> {
    checkCallOptions('broadcastObject', options, { root: true });
    const { root = 0 } = options;
    const part = { ...options, purpose: Purpose.Call };
    let own: Uint8Array | undefined;
    let fault: unknown;
    try {
      if (this.rank === root) own = encodeObject(value, 'ring.broadcastObject');
    } catch (error) {
      fault = error;
    }
    // The other ranks must learn that no value comes.
    const [length] = await this.broadcast(Float64Array.of(fault === undefined ? (own?.length ?? 0) : -1), part);
    if (fault !== undefined) throw fault;
    if (length === -1) {
      throw invalidArgument(`Rank ${root}, the root of ring.broadcastObject, gave a value that cannot be sent.`);
    }
    if (!isObjectLength(length)) throw brokenValue(root);
    const bytes = await this.broadcast(own ?? new Uint8Array(length), part);
    return own === undefined ? decodeObject(bytes, root) : value;
  }

  /**
   * Returns a value of each rank, in the order of ranks: plain JSON, in which there may be typed arrays.
   *
   * ```ts
   * console.log(await ring.allGatherObject({ rank: ring.rank })); // [ { rank: 0 }, { rank: 1 } ]
   * ```
   *
   * @returns Copies.
   * @throws GradringError `ERR_INVALID_ARGUMENT` for what would not come back as it is, with the place in the value.
   */
  async allGatherObject(value: unknown, options: CallOptions = {}): Promise<unknown[]> {
    checkCallOptions('allGatherObject', options, {});
    const bytes = encodeObject(value, 'ring.allGatherObject');
    return (await this.allGather(bytes, { ...options, variableLength: true })).map((each, rank) =>
      decodeObject(each, rank),
    );
  }

  /**
   * {@link allGatherObject}, for the root only.
   *
   * ```ts
   * const all = await ring.gatherObject({ rank: ring.rank }, { root: 1 });
   * console.log(all); // undefined
   * ```
   *
   * @returns The values on the root, and undefined on other ranks.
   */
  async gatherObject(
    value: unknown,
    options: CallOptions & { readonly root?: number } = {},
  ): Promise<unknown[] | undefined> {
    checkCallOptions('gatherObject', options, { root: true });
    const bytes = encodeObject(value, 'ring.gatherObject');
    const all = await this.gather(bytes, { ...options, variableLength: true });
    return all?.map((each, rank) => decodeObject(each, rank));
  }

  /** Returns when all ranks have called it. */
  async barrier(options: CallOptions = {}): Promise<void> {
    return awake(this.work(this.requests.barrier(options)));
  }

  /** {@link barrier}; the thread sleeps meanwhile. */
  barrierSync(options: CallOptions = {}): void {
    asleep(this.work(this.requests.barrier(options)));
  }

  /**
   * Sends the array to the right neighbour, receives the left neighbour's array in place, and returns it. All ranks
   * pass the same number of elements.
   *
   * ```ts
   * console.log(await ring.sendReceive(Int32Array.of(10 + ring.rank))); // Int32Array(1) [ 11 ]
   * ```
   */
  async sendReceive<T extends NumericArray>(array: T, options: CallOptions = {}): Promise<T> {
    return awake(this.work(this.requests.sendReceive(array, options)));
  }

  /** {@link sendReceive}; the thread sleeps meanwhile. */
  sendReceiveSync<T extends NumericArray>(array: T, options: CallOptions = {}): T {
    return asleep(this.work(this.requests.sendReceive(array, options)));
  }

  /**
   * Sends an array to any other rank, which calls {@link receive}. Messages to one rank with one tag arrive in the
   * order of the calls. Other messages, and collectives, do not wait for these, and these not for them. No other rank
   * takes part, but all must stay in the ring, because those between forward the message.
   *
   * ```ts
   * if (ring.rank === 1) await ring.send(Float32Array.of(0.5, 2), 0, { tag: 7 });
   * else console.log(await ring.receive(1, { tag: 7 })); // Float32Array(2) [ 0.5, 2 ]
   * ```
   *
   * @param array Is copied when the call is made, unless it is from {@link allocate}.
   * @returns When the other rank has called {@link receive}, and all of the array is on its way.
   * @throws GradringError `ERR_INVALID_ARGUMENT` for this rank itself, and in an elastic run, whose ranks may change.
   */
  async send(array: NumericArray, to: number, options: MessageOptions = {}): Promise<void> {
    return awake(this.sendWork(array, to, options));
  }

  /** {@link send}; the thread sleeps meanwhile. Two ranks that both send so before they receive wait for each other. */
  sendSync(array: NumericArray, to: number, options: MessageOptions = {}): void {
    asleep(this.sendWork(array, to, options));
  }

  /**
   * Receives the next array that another rank {@link send}s with that tag.
   *
   * @returns A new array of the type and the length that were sent.
   * @throws GradringError as {@link send}.
   */
  async receive<T extends NumericArray = NumericArray>(from: number, options: MessageOptions = {}): Promise<T> {
    return awake(this.receiveWork<T>(from, options));
  }

  /** {@link receive}; the thread sleeps meanwhile. */
  receiveSync<T extends NumericArray = NumericArray>(from: number, options: MessageOptions = {}): T {
    return asleep(this.receiveWork<T>(from, options));
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
  async sparseAllReduce(array: SparseArray, options: CallOptions = {}): Promise<Float32Array> {
    return awake(this.work(this.requests.sparseAllReduce(array, options)));
  }

  /** {@link sparseAllReduce}; the thread sleeps meanwhile. */
  sparseAllReduceSync(array: SparseArray, options: CallOptions = {}): Float32Array {
    return asleep(this.work(this.requests.sparseAllReduce(array, options)));
  }

  /**
   * Divides the ranks into rings of their own, as `MPI_Comm_split` does: those that give the same colour form one, with
   * ranks in the order of their ranks here. All ranks call it. A group is a communicator like this one, with a comm
   * thread, links and memory of its own. Its collectives and those of this ring may run at the same time, but all ranks
   * of both must begin them in the same order. Close it when it is not needed any more; {@link close} closes it, too.
   *
   * ```ts
   * const group = await ring.group(ring.rank % 2 === 0 ? 'even' : null);
   * console.log(group?.worldSize); // 1
   * ```
   *
   * The lowest rank of a group holds the rendezvous, at a free port of its host, one of `portRange` if that is given.
   * All other options are those of this ring, except that a group writes no timeline.
   *
   * @param colour A whole number or a text; null for no group.
   * @param options `signal` ends the call with `ERR_ABORTED`. While the ranks of this ring exchange their colours and
   *   where they meet, it fails, too; later only the group does not form.
   * @returns The group, or undefined without a colour.
   * @throws GradringError `ERR_INVALID_ARGUMENT` for another colour, and in an elastic run, whose ring may change its
   *   ranks; what forming a ring may throw, on the ranks of that group.
   */
  async group(colour: Colour, options: CallOptions = {}): Promise<this | undefined> {
    checkCallOptions('group', options, {});
    checkColour(colour);
    this.refuseIfElastic('group');
    const { signal } = options;
    const gather = { variableLength: true, purpose: Purpose.Group };
    const parent = {
      rank: this.rank,
      call: this.groupCalls++,
      options: { ...this.options, runToken: this.#runToken },
      allGather: (own: Uint8Array) => this.allGather(own, { ...gather, signal }),
      agree: async (own: Uint8Array) => {
        try {
          return await this.allGather(own, gather);
        } catch (error) {
          throw withReason(error, this.rank, signal);
        }
      },
      signal,
    };
    const found = await groupOptions(parent, colour);
    if (found === undefined) return undefined;
    noteGroup();
    const Kind = this.constructor as new (...parts: [ConnectOptions, SharedHeap, ThreadClient]) => this;
    const closing = new AbortController();
    this.formingGroups.add(closing);
    try {
      const either = signal === undefined ? closing.signal : AbortSignal.any([signal, closing.signal]);
      const group = new Kind(...(await Communicator.begin(found, false, either)));
      this.groups.add(group);
      group.atClose.push(() => void this.groups.delete(group));
      if (closing.signal.aborted) await group.close();
      else return group;
    } catch (error) {
      if (!closing.signal.aborted) throw error;
    } finally {
      this.formingGroups.delete(closing);
    }
    throw closedError();
  }

  /**
   * Runs collectives that must succeed on all ranks or on none, and returns their result. If a rank of an elastic run
   * is lost meanwhile, the others run them again, in a ring of another size; or, if some ranks had finished, all ranks
   * get their result. So do not change anything in `run` that must not be changed twice. Optimizer steps do not belong
   * in it: each of them is done by all ranks or by none.
   *
   * ```ts
   * const total = await ring.allOrNone(async () => [...(await ring.allReduce(Int32Array.of(2)))]);
   * console.log(total); // [ 4 ]
   * ```
   *
   * @param run Must return the same plain JSON on all ranks, such as what the collectives gave. The ranks compare it.
   * @throws GradringError `ERR_RESULTS_DIFFER` if a rank has another result than rank 0, or if `run` throws on another
   *   rank; `ERR_INVALID_ARGUMENT` for a result that JSON would change, with the place in it;
   *   `ERR_COLLECTIVE_MISMATCH` if the ranks were in different ones; what `run` throws.
   */
  async allOrNone<T>(run: () => Promise<T>): Promise<T> {
    const options = { variableLength: true, purpose: Purpose.AllOrNone };
    const together = () => sameResult(run, own => this.allGather(own, options));
    return this.units.run({ name: 'allOrNone', run: () => waitForPromise(together()) });
  }

  /**
   * Waits until the others let in this process, which replaces a lost rank.
   *
   * @param receive Receives the state from rank `root`, by synchronous collectives.
   * @internal
   */
  async enter<T>(receive: (root: number) => T): Promise<T> {
    const rejoin = async () => {
      this.moveTo(await this.thread.post('rejoin', { newcomer: true, admits: false }).promise);
    };
    return this.units.enter(rejoin, receive);
  }

  /**
   * How many newcomers wait to be let in. Only one rank needs to ask.
   *
   * @internal
   */
  async waitingNewcomers(): Promise<number> {
    return this.post('askWaiting', {}).promise;
  }

  /**
   * Which media carry this rank's data now. For measurements.
   *
   * @internal
   */
  async media(): Promise<Media> {
    return this.post('askMedia', {}).promise;
  }

  /**
   * How many threads of this rank compress.
   *
   * @internal
   */
  get threads(): number {
    return this.options.threads ?? defaultThreads(this.thread.position.ranksHere);
  }

  /**
   * Opens the exchange of the gradients of one training.
   *
   * @internal
   */
  openExchange(input: ExchangeInput): ExchangeHandle {
    const exchange = this.exchanges++;
    const handle = new ExchangeHandle(
      { ...input, threads: this.threads },
      {
        start: step => this.post('exchange', { exchange, step }),
        conclude: applied => this.post('concludeExchange', { exchange, applied }).sleep(),
        close: () => {
          if (this.closing === undefined) ignoreCrash(() => this.post('closeExchange', { exchange }).sleep());
        },
      },
    );
    this.post('openExchange', { exchange, plan: handle.plan }).sleep();
    return handle;
  }

  /**
   * Leaves the ring and its {@link group}s, after earlier calls have finished. The other ranks may finish what does not
   * need this one; a collective that needs it fails there with `ERR_PEER_LOST`. May be called twice.
   *
   * In an elastic run it first waits until all ranks have done the last step that this rank has done, which takes some
   * milliseconds. If a rank is lost meanwhile, it gives the step to the ranks that have not done it, and sleeps until
   * they take it.
   */
  close(): Promise<void> {
    BEFORE_EXIT.delete(this.closeAtEnd);
    if (this.isElastic) tellLauncher({ kind: 'left' });
    for (const each of this.formingGroups) each.abort();
    this.closing ??= (async () => {
      await Promise.all([...this.groups].map(group => group.close()));
      if (!this.isNewcomer) await this.units.awaitOthers().catch(() => undefined); // it leaves in any case
      await this.closeThread().catch(() => undefined); // a thread that has failed is closed
      await this.thread.terminate();
      for (const each of this.atClose) await each();
      this.stopRequest.stopListening(true);
    })();
    return this.closing;
  }

  /** {@link close}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  private get collectives(): Collectives {
    const { rank, worldSize } = this;
    return {
      ...{ rank, worldSize },
      allReduce: (array, options) => this.work(this.requests.allReduce(array, options)),
      allGather: (array, options) => this.allGatherWork(array, options),
      broadcast: (array, options) => this.work(this.requests.broadcast(array, options, worldSize)),
    };
  }

  private moveTo(position: RingPosition): void {
    this.thread.position = position;
  }

  private unitRing(): UnitRing {
    return {
      rejoin: join => {
        const { generation } = this;
        this.moveTo(this.thread.post('rejoin', join).sleep());
        return this.generation !== generation;
      },
      allGather: own => this.allGatherSync(own, { variableLength: true, purpose: Purpose.Reunite }),
      awaitOthers: () => this.thread.post('awaitOthers', {}).promise,
      evenIfLeaving: run => {
        this.isCallingForUnits = true; // all synchronous: no other code runs meanwhile
        try {
          return run();
        } finally {
          this.isCallingForUnits = false;
        }
      },
    };
  }

  private post<N extends CommandName>(name: N, input: Commands[N]['input']): AbortableTicket<Commands[N]['result']> {
    this.checkOpen();
    return this.thread.post(name, input);
  }

  private checkOpen(): void {
    if (this.closing !== undefined && !this.isCallingForUnits) throw closedError();
    if (!this.isNewcomer) return;
    const words =
      'This process replaces a rank that was lost. Before anything else it must join the others, by ring.join(…) or checkpoint.resume().';
    throw invalidArgument(words);
  }

  private sendWork(array: NumericArray, to: number, options: MessageOptions): Work<void> {
    this.refuseIfElastic('send');
    return this.work(this.requests.send(array, to, options, this));
  }

  private receiveWork<T extends NumericArray>(from: number, options: MessageOptions): Work<T> {
    this.refuseIfElastic('receive');
    return this.work(this.requests.receive(from, options, this)) as Work<T>;
  }

  /** @throws GradringError `ERR_INVALID_ARGUMENT` */
  private refuseIfElastic(call: string): void {
    if (!this.isElastic) return;
    throw invalidArgument(
      `ring.${call} is not for elastic runs: the numbers of ranks change when one is lost or replaced.`,
    );
  }

  private *work<N extends CommandName, R>(request: CollectiveRequest<N, R>): Work<R> {
    const { name, input, result, release, signal } = request;
    let abort: (() => void) | undefined;
    try {
      const ticket = this.post(name, input);
      abort = () => ticket.abort();
      if (signal?.aborted) abort(); // during an earlier part of the call
      signal?.addEventListener('abort', abort);
      return result(yield* waitFor(ticket));
    } catch (error) {
      throw withReason(error, this.rank, signal);
    } finally {
      if (abort !== undefined) signal?.removeEventListener('abort', abort);
      release();
    }
  }

  private async closeThread(): Promise<void> {
    await this.thread.post('close', {}).promise;
  }
}

/** Runs a call that needs no effect if the comm thread has crashed, because then it holds nothing any more. */
function ignoreCrash(run: () => void): void {
  try {
    run();
  } catch (error) {
    if (!(error instanceof GradringError && error.code === 'ERR_COMM_THREAD')) throw error;
  }
}

let hasToldVariables = false;

/** Warns of misspelt variables, once in a process, if no launcher has done so. */
function tellUnknownVariables(): void {
  if (hasToldVariables || isLaunched()) return;
  hasToldVariables = true;
  const words = unknownVariableWarning(process.env);
  if (words !== undefined) process.emitWarning(words, 'GradringWarning');
}
