import { GradringError } from '../errors';
import type { Timeline } from '../timeline/timeline';
import type { SpanArguments } from '../timeline/trace-event';
import type { CallFingerprint, DataHeader } from '../wire/frame';
import type { StepSettings } from '../wire/rank-status';
import type { Landing } from './data/landing';
import type { Message } from './control/link';

/** A received data frame. */
export interface DataFrame {
  readonly header: DataHeader;
  /** Empty if it has landed. */
  readonly body: Buffer;
  /** Of the body, wherever that is. */
  readonly bytes: number;
  /** Whether the body is where {@link Transport.receive} was told to put it. */
  readonly hasLanded: boolean;
  /** The message as it came, for {@link Transport.forward}. */
  readonly message: Message;
  /** Whether the sender waits to be told that all it has sent has come; see {@link Transport.send}. */
  readonly lent: boolean;
  /** Frees the body's memory for the next. Not while it is lent to a link that it was forwarded to. */
  release(): void;
}

/** How a frame was sent. */
export interface Sent {
  readonly lent: boolean;
}

/** Bytes sent and received since the ring formed: headers and bodies, without ZeroMQ's framing. */
export interface TrafficCount {
  readonly bytesSent: number;
  readonly bytesReceived: number;
}

/** One of a rank's two neighbours. In a ring of two they are the same rank, over two links. */
export type Side = 'left' | 'right';

export const SIDES = ['left', 'right'] as const;

/**
 * A rank sends at most so many frames of a collective more than it has received: enough to hide the latency of a hop,
 * few enough to bound the memory. Each link takes as many, whatever their size, though its receiver takes none.
 */
export const FRAMES_AHEAD = 4;

/**
 * What carries data from a rank to a neighbour: memory that both share; the socket of the link itself (a unix socket,
 * or TCP through ZeroMQ); or a TCP connection beside the link (a stream).
 */
export type Medium = 'shared-memory' | 'unix-socket' | 'tcp' | 'tcp-encrypted' | 'tcp-stream' | 'tcp-stream-encrypted';

/** What a rank is doing. */
export interface RankState {
  /** The collective under way, or the last. Its operation is `None` if there was none yet. */
  readonly call: CallFingerprint;
  /** Its number. */
  readonly sequence: number;
  readonly isCalling: boolean;
  /** For how long it has been under way, or over, in ms. */
  readonly sinceMs: number;
  /** The optimizer's step, if it is of one. */
  readonly step: number | undefined;
  /** Of that step, while it is under way. */
  readonly settings: StepSettings | undefined;
}

/** What the collectives need of the network: frames to and from both neighbours. Each link keeps its order. */
export interface Transport {
  readonly rank: number;
  readonly worldSize: number;
  /** Whether all ranks are on this host. */
  readonly isLocal: boolean;
  /** Whether barriers, and all-reduces of up to some MiB, go by a tree; the same on all ranks. */
  readonly usesTree: boolean;
  readonly traffic: TrafficCount;
  /** What carries the data that is sent from now on, to the left and to the right. Empty in a ring of one. */
  readonly media: readonly Medium[];
  /** Whether the ring has failed. */
  readonly failed: boolean;
  /** Where to record what happens, if anywhere. The transport records the arrival of frames itself. */
  readonly timeline?: Timeline | undefined;
  /**
   * Sends a data frame. Settles when it is on its way, and tells whether the body is lent to ZeroMQ: which reads that
   * when it likes, so it must not be written to before the neighbour is known to have it.
   */
  send(side: Side, header: DataHeader, body: Uint8Array): Promise<Sent>;
  /** Sends a received frame on, byte for byte. */
  forward(side: Side, frame: DataFrame): Promise<Sent>;
  /**
   * The next data frame from that neighbour. One call at a time a side.
   *
   * @param landing Where its body may go as it comes, if that is as long. It is the transport's until this settles.
   */
  receive(side: Side, landing?: Landing): Promise<DataFrame>;
  /**
   * Ends the ring with an error, which all ranks are told of. Settles with what all of them raise: another's finding,
   * perhaps.
   */
  fail(error: GradringError): Promise<GradringError>;
  /**
   * From now on other ranks can learn what this one is doing.
   *
   * @param onAsked Called when one of them wants the user to be told who is missing.
   */
  attend(describe: () => RankState, onAsked: () => void): void;
  /** Asks all ranks what they are doing; with `report` it tells them to let the user know. */
  ask(what: 'answers' | 'report'): void;
  /** What other ranks have said of themselves since then (as `performance.now()` has it). */
  answers(since: number): ReadonlyMap<number, RankState>;
  /**
   * Fails with what the ring has failed with, if it has.
   *
   * @param whole A neighbour that has left in order fails it, too.
   */
  check(options: { readonly whole: boolean }): Promise<void>;
  /**
   * Leaves the ring: says goodbye, unless it has failed, and closes the links when the neighbours have taken all that
   * was sent to them, or are gone.
   */
  close(): Promise<void>;
}

/** A ring of one: no sockets, and no collective that would use them. */
export class SoloTransport implements Transport {
  readonly rank = 0;
  readonly worldSize = 1;
  readonly isLocal = true;
  readonly usesTree = false;
  readonly traffic = { bytesSent: 0, bytesReceived: 0 };
  readonly media = [];
  readonly failed = false;

  constructor(readonly timeline?: Timeline) {}

  send(): Promise<never> {
    return Promise.reject(alone());
  }

  forward(): Promise<never> {
    return Promise.reject(alone());
  }

  receive(): Promise<DataFrame> {
    return Promise.reject(alone());
  }

  fail(error: GradringError): Promise<GradringError> {
    return Promise.resolve(error);
  }

  async check(): Promise<void> {
    // Nothing can be wrong.
  }

  attend(): void {
    // Nobody will ask.
  }

  ask(): void {
    // Nobody would answer.
  }

  answers(): ReadonlyMap<number, RankState> {
    return new Map();
  }

  async close(): Promise<void> {
    // Nothing to close.
  }
}

export function opposite(side: Side): Side {
  return side === 'left' ? 'right' : 'left';
}

/** What the timeline tells of a data frame, which goes that way. All but the size match its sending and its arrival. */
export function frameArguments({ header, bytes }: DataFrame, way: Side): SpanArguments {
  const { sequence, part, origin } = header;
  return { sequence, part, origin, way, bytes };
}

function alone(): GradringError {
  return new GradringError('ERR_COMM_THREAD', 'A ring of one tried to use the network: a bug in gradring.');
}
