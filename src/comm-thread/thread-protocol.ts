import type { MessagePort } from 'node:worker_threads';
import type { DenseArray, ReducedArray } from '../collectives/dense-array';
import type { ElementType } from '../collectives/element-type';
import type { Range } from '../collectives/chunks';
import type { SerializedError } from '../errors';
import type { KernelMemory } from '../kernel-memory';
import type { Pointer } from '../kernels/kernels';
import type { ElasticJoin } from '../rendezvous/rendezvous-options';
import type { TimelineFile } from '../timeline/timeline-file';
import type { Medium } from '../transport/ring-place';
import type { Purpose } from '../wire/frame';
import type { ExchangePlan, ExchangeResult, ExchangeStep } from '../exchange/messages';
import type { ConnectOptions } from '../rendezvous/connect-options';

export const REDUCTIONS = ['sum', 'product', 'mean', 'min', 'max'] as const;

/** How the values of all ranks become one. */
export type Reduction = (typeof REDUCTIONS)[number];

/** What carries the frames of a rank, to the left and to the right; see {@link Transport}. */
export type Media = Readonly<Record<'links' | 'bulk', readonly Medium[]>>;

/** An array that another rank has sent. */
export interface ReceivedArray {
  readonly elementType: ElementType;
  readonly bytes: Uint8Array;
}

/** The commands from the main thread to the comm thread, with their inputs and results. */
export interface Commands {
  allReduce: { input: { array: ReducedArray; reduction: Reduction; purpose: Purpose }; result: void };
  allGather: { input: { array: DenseArray; lengths: 'equal' | 'variable'; purpose: Purpose }; result: Uint8Array[] };
  /** The result says where in the array this rank's chunk is. */
  reduceScatter: { input: { array: ReducedArray; reduction: Reduction }; result: Range };
  broadcast: { input: { array: DenseArray; root: number; purpose: Purpose }; result: void };
  barrier: { input: { purpose: Purpose }; result: void };
  sendReceive: { input: { array: DenseArray }; result: void };
  /** Runs beside the collectives, as `receive` does. */
  send: { input: { array: DenseArray; to: number; tag: number }; result: void };
  receive: { input: { from: number; tag: number }; result: ReceivedArray };
  sparseAllReduce: {
    input: { indices: Pointer; values: Pointer; count: number; elementCount: number; output: Pointer };
    result: void;
  };
  openExchange: { input: { exchange: number; plan: ExchangePlan }; result: void };
  exchange: { input: { exchange: number; step: ExchangeStep }; result: ExchangeResult };
  /** Ends a step that others have done and this rank has not. If it was applied, what was selected counts as sent. */
  concludeExchange: { input: { exchange: number; applied: boolean }; result: void };
  closeExchange: { input: { exchange: number }; result: void };
  /** Before a rank of an elastic run leaves: settles when all others have done the last collective that it has done. */
  awaitOthers: { input: Record<string, never>; result: void };
  /** Which media carry this rank's data now. For measurements. */
  askMedia: { input: Record<string, never>; result: Media };
  close: { input: Record<string, never>; result: void };
  /** In an elastic run: waits for the next ring, after a loss or, with `newcomer` or `admits`, without one. */
  rejoin: { input: ElasticJoin; result: RingPosition };
  /** How many newcomers wait to be let in. */
  askWaiting: { input: Record<string, never>; result: number };
}

export type CommandName = keyof Commands;

/** The commands that are not about which ranks are in the ring. */
export type RingCommand = Exclude<CommandName, 'rejoin' | 'askWaiting'>;

/** A rank's position in the ring of a generation. */
export interface RingPosition {
  readonly rank: number;
  readonly worldSize: number;
  /** How many ranks there are on this host. */
  readonly ranksHere: number;
  readonly generation: number;
}

export interface Request {
  readonly id: number;
  readonly name: CommandName;
  readonly input: unknown;
  /** The generation of the ring that the main thread knows of. A collective for an earlier ring fails. */
  readonly generation: number;
}

/** Ends the ring, unless the request of that id is over. */
export interface Abort {
  readonly abort: number;
}

/** The id alone, if the command has succeeded and has no result: a number is copied several times as fast. */
export type Response =
  number | { readonly id: number; readonly result?: unknown; readonly error?: SerializedError | undefined };

/** The data with which the comm thread starts. */
export interface ThreadData {
  readonly options: ConnectOptions;
  readonly memory: KernelMemory;
  readonly scratch: Pointer;
  /** Where to record, if anywhere. */
  readonly timeline: TimelineFile | undefined;
  readonly port: MessagePort;
  /** That of the {@link Shelter}, if the rank is itself a worker, which may be terminated. */
  readonly sentry?: MessagePort;
  readonly control: Int32Array;
  /** Those of an {@link Observer}. */
  readonly metrics: Float64Array;
}

/** Words of the control block that both threads share. */
export const CONTROL = {
  /** Counts the responses. The main thread sleeps on it. */
  responses: 0,
  /** Increases while the comm thread's event loop turns. 0 until it has started. */
  beat: 1,
  /** 1 if the comm thread has closed its sockets, so that the process may end. */
  closed: 2,
  /** 1 if the process ends as soon as the sockets are closed. */
  exiting: 3,
  words: 4,
} as const;

/**
 * Posted instead of a request: the thread must end at once, even if a command is under way. `leave` says goodbye.
 * `drop` does not, so the neighbours find broken links, as after a crash.
 */
export type End = 'leave' | 'drop';

/** The id of the response that says that the ring has formed, or why not. */
export const READY = 0;

/** The id of a response without a request: why the thread is about to end. */
export const CRASHED = -1;
