import type { MessagePort } from 'node:worker_threads';
import type { DenseArray } from '../collectives/dense-ring';
import type { Range } from '../collectives/chunks';
import type { NonFinite } from '../collectives/sparse-all-reduce';
import type { Compression } from '../compression/dgc-options';
import type { SerializedError } from '../errors';
import type { Pointer } from '../kernels/kernels';
import type { TrafficCount } from '../transport/transport';
import type { ConnectOptions } from './connect-options';

/** How the ranks' values become one. */
export type Reduction = 'sum' | 'mean' | 'min' | 'max';

/** A tensor of an exchange and its state, all in the shared memory, float32, 16-byte aligned. */
export interface ExchangedTensor {
  readonly elementCount: number;
  /** Whether the compression's rules send it whole at any density. */
  readonly dense: boolean;
  /** The local mean gradient before a step, the update after it. The tensors' follow each other without a gap but for alignment. */
  readonly gradient: Pointer;
  /** The paper's u, or the momentum of a dense tensor. */
  readonly momentum: Pointer;
  /** The paper's v. */
  readonly residual: Pointer;
}

/** What stays the same over all steps of one wrapped optimizer. */
export interface ExchangePlan {
  readonly tensors: readonly ExchangedTensor[];
  /** From the first tensor's gradient to the end of the last one's. */
  readonly gradients: DenseArray;
  readonly compression: Compression;
  readonly nesterov: boolean;
  /** Room for the entries that are sent of all tensors, and for {@link TensorCompressor}. */
  readonly indices: Pointer;
  readonly values: Pointer;
  readonly workspace: Pointer;
  /** Of names, shapes and options, which all ranks must have alike. */
  readonly hash: number;
}

/** One step of it. */
export interface ExchangeStep {
  readonly density: number;
  readonly momentumFactor: number;
  /** Of the whole local gradient. */
  readonly sumOfSquares: number;
  /** Number of the first tensor with NaN or infinity in the local gradient, or −1. */
  readonly nonFiniteTensor: number;
}

/** What came of a step. */
export interface ExchangeResult {
  /** Set if some rank's gradient was not finite: then no rank has an update, and what was to be sent is still held back. */
  readonly nonFinite?: NonFinite;
  /** Bytes this rank sent for the step, forwarded ones and headers among them. */
  readonly bytesSent: number;
  /** Bytes it would have sent for a dense ring all-reduce of the same gradient. */
  readonly denseBytes: number;
}

/** What the user's thread asks of the comm thread, and what it gets. */
export interface Commands {
  allReduce: { input: { array: DenseArray; reduction: Reduction }; result: void };
  allGather: { input: { array: DenseArray; lengths: 'equal' | 'variable' }; result: Uint8Array[] };
  /** The result says where in the array this rank's chunk is. */
  reduceScatter: { input: { array: DenseArray; reduction: Reduction }; result: Range };
  broadcast: { input: { array: DenseArray; root: number }; result: void };
  barrier: { input: Record<string, never>; result: void };
  sparseAllReduce: {
    input: { indices: Pointer; values: Pointer; count: number; elementCount: number; output: Pointer };
    result: void;
  };
  openExchange: { input: { exchange: number; plan: ExchangePlan }; result: void };
  exchange: { input: { exchange: number; step: ExchangeStep }; result: ExchangeResult };
  closeExchange: { input: { exchange: number }; result: void };
  close: { input: Record<string, never>; result: void };
}

export type CommandName = keyof Commands;

export interface Request {
  readonly id: number;
  readonly name: CommandName;
  readonly input: unknown;
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
  readonly port: MessagePort;
  readonly control: Int32Array;
}

/** Words of the control block that both threads see. */
export const CONTROL = {
  /** Counts the responses; the user's thread sleeps on it. */
  responses: 0,
  /** Counts up while the comm thread's event loop turns. */
  beat: 1,
  /** 1 when the comm thread has closed its sockets, so that the process may end. */
  closed: 2,
  words: 4,
} as const;

/**
 * Posted instead of a request: end at once, whatever is under way. `leave` says goodbye; `drop` does not, so that the
 * neighbours find the links broken, as they would after a crash.
 */
export type End = 'leave' | 'drop';

/** The id of the response that says that the ring stands, or why not. */
export const READY = 0;
