import { GradringError } from '../errors';
import { Observer, type SpanArguments } from '../observer';
import type { DataHeader } from '../wire/frame';
import { RollCall } from './control/roll-call';
import type { Landing } from './data/landing';
import type { Medium, RingPlace, Side } from './ring-place';

/** A received data frame. */
export interface DataFrame {
  readonly header: DataHeader;
  /** The header as it arrived, for {@link DataPath.forward}. */
  readonly headerBytes: Uint8Array;
  /** Empty if the body has landed. */
  readonly body: Buffer;
  /** Length of the body, wherever that is. */
  readonly bytes: number;
  /** Whether the body is where {@link DataPath.receive} was told to put it. */
  readonly hasLanded: boolean;
}

/**
 * A rank sends at most this many more frames of a collective than it has received: enough to hide the latency of a hop,
 * few enough to bound the memory. Each path accepts as many frames of any size, even if the neighbour receives none.
 */
export const FRAMES_AHEAD = 4;

/** Carries data frames to and from both neighbours. Frames from one side keep their order. */
export interface DataPath {
  /** What carries the frames, to the left and to the right. Empty in a ring of one. */
  readonly media: readonly Medium[];
  /** Sends a data frame. When this settles, the memory of the body is the caller's again. */
  send(side: Side, header: DataHeader, body: Uint8Array): Promise<void>;
  /** Sends a received frame on, byte for byte. Its body must never be written to or released from then on. */
  forward(side: Side, frame: DataFrame): Promise<void>;
  /**
   * The next data frame from that neighbour. One call at a time for each side.
   *
   * Also returns a frame of the same collective, or of an earlier one, that arrives by the other path. It shows that
   * the neighbour is in another collective.
   *
   * @param sequence Number of the collective that waits.
   * @param landing Where the body may go while it arrives, if it has the same length. That memory belongs to the path
   *   until this settles.
   */
  receive(side: Side, sequence: number, landing?: Landing): Promise<DataFrame>;
}

/** An array as it travels. */
export interface MailedArray {
  readonly elementType: DataHeader['elementType'];
  readonly bytes: Uint8Array;
}

/** What carries messages from any rank to any other, while collectives are under way or not. */
export interface Messenger {
  /**
   * Settles when the receiver has asked for the message and all of it is on its way. Then the memory is the caller's
   * again. One at a time for each rank and tag.
   */
  send(to: number, tag: number, array: MailedArray): Promise<void>;
  /** The next message of that rank with that tag, in memory of its own. One at a time for each rank and tag. */
  receive(from: number, tag: number): Promise<MailedArray>;
}

/** What the collectives need of the network. */
export interface Transport extends Pick<RingPlace, 'rank' | 'worldSize' | 'isLocal' | 'hostRuns' | 'ranksHere'> {
  /** What the pace of the links adds to each byte, in ns: 0 if nothing paces them. */
  readonly paceNs: number;
  /** The ring of ZeroMQ links: for sparse frames and for everything that is not bulk. */
  readonly links: DataPath;
  /** For bulk: the lanes beside the links, if every link of the ring has its lane; else the links. */
  readonly bulk: DataPath;
  /** For messages from one rank to another. */
  readonly messenger: Messenger;
  /** For what each rank is doing. */
  readonly rollCall: Pick<RollCall, 'attend' | 'ask' | 'answers'>;
  /** What the ring has failed with, or was closed with: it cannot be used any more. */
  readonly failure: GradringError | undefined;
  /** Whether the ring has failed. The ranks may still have to agree on the {@link failure}. */
  readonly failed: boolean;
  /** Told of what happens. The transport itself tells the arrival of frames, and counts bytes. */
  readonly observer: Observer;
  /**
   * Ends the ring with an error, and tells all ranks. Settles with the error that all of them raise, which may be
   * another rank's. From then on nothing writes to memory that a call has passed.
   */
  fail(error: GradringError): Promise<GradringError>;
  /**
   * Fails with what the ring has failed with, if it has.
   *
   * @param whole If true, the ring also fails if a neighbour has left in order.
   */
  check(options: { readonly whole: boolean }): Promise<void>;
  /**
   * Leaves the ring: says goodbye, unless the ring has failed, and closes the links when the neighbours have received
   * all that was sent to them, or are gone.
   */
  close(): Promise<void>;
}

const refuse = (): Promise<never> =>
  Promise.reject(new GradringError('ERR_COMM_THREAD', 'A ring of one tried to use the network: a bug in gradring.'));

/** The path of a ring of one: no collective uses it. */
const NO_PATH: DataPath = { media: [], send: refuse, forward: refuse, receive: refuse };

/** A ring of one: no sockets, and no collective that would use them. */
export class SoloTransport implements Transport {
  readonly rank = 0;
  readonly worldSize = 1;
  readonly isLocal = true;
  readonly hostRuns = [{ first: 0, last: 0 }];
  readonly ranksHere = 1;
  readonly paceNs = 0;
  readonly links = NO_PATH;
  readonly bulk = NO_PATH;
  readonly messenger = { send: refuse, receive: refuse };
  readonly rollCall: Transport['rollCall'] = new RollCall(this, async () => undefined);
  failure: GradringError | undefined;

  constructor(readonly observer = new Observer()) {}

  get failed(): boolean {
    return this.failure !== undefined;
  }

  async fail(error: GradringError): Promise<GradringError> {
    return (this.failure ??= error);
  }

  async check(): Promise<void> {
    if (this.failure !== undefined) throw this.failure;
  }

  async close(): Promise<void> {
    // Nothing is open.
  }
}

/** What spans tell of a data frame. All but the size is the same where it is sent and where it arrives. */
export function frameArguments({ header, bytes }: DataFrame, direction: Side): SpanArguments {
  const { sequence, part, origin } = header;
  return { sequence, part, origin, direction, bytes };
}
