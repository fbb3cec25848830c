import type { MessagePort } from 'node:worker_threads';
import type { DenseArray } from '../collectives/dense-array';
import type { Range } from '../collectives/chunks';
import type { SerializedError } from '../errors';
import type { Pointer } from '../kernels/kernels';
import type { ElasticJoin } from '../rendezvous/rendezvous-options';
import type { TimelineFile } from '../timeline/timeline-file';
import type { Medium } from '../transport/medium';
import type { TrafficCount } from '../transport/transport';
import type { Purpose } from '../wire/frame';
import type { ExchangePlan, ExchangeResult, ExchangeStep } from '../exchange/messages';
import type { ConnectOptions } from '../rendezvous/connect-options';

export const REDUCTIONS = ['sum', 'mean', 'min', 'max'] as const;

/** How the values of all ranks become one. */
export type Reduction = (typeof REDUCTIONS)[number];

/** What carries the frames of a rank, to the left and to the right; see {@link Transport}. */
export type Routes = Readonly<Record<'links' | 'bulk', readonly Medium[]>>;

/** What the user's thread asks of the comm thread, and what it gets. */
export interface Commands {
  allReduce: { input: { array: DenseArray; reduction: Reduction; purpose: Purpose }; result: void };
  allGather: { input: { array: DenseArray; lengths: 'equal' | 'variable'; purpose: Purpose }; result: Uint8Array[] };
  /** The result says where in the array this rank's chunk is. */
  reduceScatter: { input: { array: DenseArray; reduction: Reduction }; result: Range };
  broadcast: { input: { array: DenseArray; root: number; purpose: Purpose }; result: void };
  barrier: { input: { purpose: Purpose }; result: void };
  sendReceive: { input: { array: DenseArray }; result: void };
  sparseAllReduce: {
    input: { indices: Pointer; values: Pointer; count: number; elementCount: number; output: Pointer };
    result: void;
  };
  openExchange: { input: { exchange: number; plan: ExchangePlan }; result: void };
  exchange: { input: { exchange: number; step: ExchangeStep }; result: ExchangeResult };
  /** A step that others have done and this rank has not: what was selected for it counts as sent if it was applied. */
  concludeExchange: { input: { exchange: number; applied: boolean }; result: void };
  closeExchange: { input: { exchange: number }; result: void };
  /** Before a rank of an elastic run leaves: settles when all others have done the last collective that it has done. */
  awaitOthers: { input: Record<string, never>; result: void };
  /** How data goes from this rank by now. For measurements. */
  askRoutes: { input: Record<string, never>; result: Routes };
  close: { input: Record<string, never>; result: void };
  /** In an elastic run: awaits the next ring, after a loss or, with `newcomer` or `admits`, of its own accord. */
  rejoin: { input: ElasticJoin; result: RingPosition };
  /** How many newcomers wait to be let in. */
  askWaiting: { input: Record<string, never>; result: number };
}

export type CommandName = keyof Commands;

/** The commands that are about which ranks are in the ring. */
export type MembershipCommand = 'rejoin' | 'askWaiting';

/** All others. */
export type RingCommand = Exclude<CommandName, MembershipCommand>;

/** A rank's position in the ring of a generation. */
export interface RingPosition {
  readonly rank: number;
  readonly worldSize: number;
  readonly generation: number;
}

export interface Request {
  readonly id: number;
  readonly name: CommandName;
  readonly input: unknown;
  /** Of the ring that the user's thread knows of. A collective of an earlier one fails. */
  readonly generation: number;
}

export interface Response {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: SerializedError;
  readonly traffic: TrafficCount;
}

/** What the comm thread is started with. */
export interface ThreadData {
  readonly options: ConnectOptions;
  readonly memory: WebAssembly.Memory;
  readonly scratch: Pointer;
  /** What to record on, if anything. */
  readonly timeline: TimelineFile | undefined;
  readonly port: MessagePort;
  readonly control: Int32Array;
}

/** Words of the control block that both threads see. */
export const CONTROL = {
  /** Counts the responses; the user's thread sleeps on it. */
  responses: 0,
  /** Counts up while the comm thread's event loop turns; 0 until it has started. */
  beat: 1,
  /** 1 when the comm thread has closed its sockets, so that the process may end. */
  closed: 2,
  /** 1 when the process ends as soon as the sockets are closed. */
  exiting: 3,
  words: 4,
} as const;

/**
 * Posted instead of a request: end at once, whatever is under way. `leave` says goodbye; `drop` does not, so that the
 * neighbours find the links broken, as they would after a crash.
 */
export type End = 'leave' | 'drop';

/** The id of the response that says that the ring stands, or why not. */
export const READY = 0;

/** The id of a response to no request: why the thread is about to end. */
export const CRASHED = -1;
