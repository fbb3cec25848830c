import { type Observer, Pair } from 'zeromq';
import { GradringError } from '../../errors';
import { canOpenFiles } from '../../open-files';
import { LONGEST_DELAY_MS, wakingNow } from '../../waking-time';
import { admitNobody, listenerAt } from '../data/system-calls';
import type { Medium } from '../ring-place';
import type { CurveClient, CurveServer } from './curve';
import { bind, PROOF_MS, register, unregister } from './open-sockets';

/** The parts of a received message. They own their memory. */
export type Message = readonly Buffer[];

/** What a {@link Link} reports to its owner. */
export interface LinkEvents {
  /** The next message. The link reads no further until the promise settles, so the peer feels backpressure. */
  readonly onMessage: (message: Message) => Promise<void> | void;
  /** The peer's process or the connection is gone. Called at most once, and not after {@link Link.close}. */
  readonly onLost: () => void;
}

export interface LinkOptions {
  /**
   * How long a peer may be silent before the end that connected counts the link as lost, in ms. ZeroMQ's own threads
   * send the heartbeats, and answer them. The bound end waits longer: twice this time, at least five seconds.
   */
  readonly heartbeatTimeoutMs: number;
}

/**
 * A longer body is sent in several parts. ZeroMQ refuses longer ones, so no unknown peer can make it hold more than
 * this. It has no limit for the number of parts, and holds them until the last has come. So the neighbour can make it
 * hold any number.
 */
const MAX_PART_BYTES = 16 * 1024 * 1024;

/** The parts of a body of 4 GiB. No body is larger, because each comes from one memory. */
const MAX_PARTS = 2 ** 32 / MAX_PART_BYTES;

/** How many signs of life a link sends in the time for which its peer may be silent, beside those of ZeroMQ. */
const BEATS = 4;

/** More than encryption adds to a part. */
const PART_OVERHEAD_BYTES = 1024;

/**
 * How long a closed socket still delivers the messages that it took over. All that matter have been acknowledged before
 * (see {@link RingTransport.close}). If the process ends and has to wait for more than half a second, zeromq prints a
 * warning.
 */
const LINGER_MS = 400;

/**
 * How long after its linger time a socket may still exist, on a busy machine. It takes this long only if the process
 * has no descriptor left.
 */
const LATE_MS = 2_000;

/**
 * A bound end looks this often whether its peer is still connected, in ms. Each look takes some 0.3 ms of a core. Both
 * neighbours of a lost rank must have looked before the ranks settle on an error.
 */
const PRESENCE_MS = 200;

/**
 * One connection to one neighbour: a ZeroMQ PAIR socket, one end bound, the other connected. Messages arrive whole, in
 * order, at most once. A broken connection is never restored, because what was in flight is lost, and the ring must
 * know.
 */
export class Link {
  private readonly unsettled = new Set<(error: GradringError) => void>();
  private sending: Promise<void> = Promise.resolve();
  private interruptions = 0;
  private closed = false;
  /** When the peer sent something last, by {@link wakingNow}. Undefined if it has not yet. */
  private heardAt: number | undefined;
  /** When the last connection ended, by the same clock. */
  private lostAt: number | undefined;
  /** Whether the owner works on a message. Then nothing is heard, whatever the peer sends. */
  private isHeld = false;
  private beat: NodeJS.Timeout | undefined;
  /**
   * Reports the socket's events. A bound end has none before it closes: unknown peers could make any number of events,
   * and ZeroMQ's I/O thread waits until they are taken.
   */
  private observer: Observer | undefined;
  /** Settles after the last event. Undefined if nobody takes the events yet. */
  private watched: Promise<void> | undefined;

  private constructor(
    private readonly socket: Pair,
    readonly medium: Medium,
    readonly options: LinkOptions,
    /** The descriptor of the port that it listens at, if that is known. */
    private readonly listener?: number,
  ) {
    register(this);
  }

  /** Binds the end that waits for the neighbour. Returns it, and the endpoint to which the neighbour must connect. */
  static listen(endpoint: string, options: LinkOptions, curve?: CurveServer): { link: Link; endpoint: string } {
    // It has no limit for messages, because collectives bound them. So if it refuses a message, the peer is gone.
    const limits = { sendTimeout: 0, sendHighWaterMark: 0, receiveTimeout: PRESENCE_MS, handshakeInterval: PROOF_MS };
    const socket = new Pair({ ...SOCKET_OPTIONS, ...curve, ...limits });
    try {
      bind(socket, endpoint);
    } catch (error) {
      socket.close();
      const words = `Cannot listen at ${endpoint}: ${(error as Error).message}.`;
      throw new GradringError('ERR_ADDRESS_IN_USE', words, {}, { cause: error });
    }
    const bound = socket.lastEndpoint!;
    const medium = mediumOf(endpoint, curve);
    const listener = medium === 'unix-socket' ? undefined : listenerAt(portOf(bound));
    return { link: new Link(socket, medium, options, listener), endpoint: bound };
  }

  /** Connects the other end. The caller need not wait: messages are queued until the connection exists. */
  static connect(endpoint: string, options: LinkOptions, curve?: CurveClient): Link {
    const socket = new Pair({ ...SOCKET_OPTIONS, ...heartbeats(options), ...curve });
    const link = new Link(socket, mediumOf(endpoint, curve), options);
    link.observer = socket.events; // before it connects, to notice if it is refused
    socket.connect(endpoint);
    return link;
  }

  /** Begins to receive. Call it once. */
  start(events: LinkEvents): void {
    if (this.observer !== undefined) this.watch(this.observer, () => this.lose(events));
    void this.receive(events);
    this.beat = setInterval(() => this.showLife(), this.options.heartbeatTimeoutMs / BEATS).unref();
  }

  /**
   * For how long the peer has been silent, or was before it was lost, in ms. Undefined if it has shown life lately.
   * ZeroMQ reports silence and the end of a connection alike, but a peer that closes a connection has shown life
   * shortly before.
   */
  get silentMs(): number | undefined {
    if (this.heardAt === undefined || (this.lostAt === undefined && this.isHeld)) return undefined;
    const { heartbeatTimeoutMs } = this.options;
    const silentMs = (this.lostAt ?? wakingNow()) - this.heardAt;
    return silentMs < ((BEATS - 1) * heartbeatTimeoutMs) / BEATS ? undefined : Math.max(silentMs, heartbeatTimeoutMs);
  }

  /**
   * Lets nobody connect to a bound end any more, where system calls can be used. Elsewhere unknown peers may connect,
   * but what they send is not read. Call it when the peer is connected.
   */
  admitNoMore(): void {
    if (!this.closed && this.listener !== undefined) admitNobody(this.listener);
  }

  /**
   * Queues a message, in order. Settles when ZeroMQ has taken it over; if the peer is slow, that waits (backpressure).
   * The parts must not be written to again, because large ones are not copied.
   */
  send(parts: Uint8Array[]): Promise<void> {
    if (this.closed) return Promise.reject(new GradringError('ERR_CLOSED', 'The link was closed.'));
    const { interruptions } = this;
    const sent = this.sending.then(() => {
      if (interruptions !== this.interruptions) return; // its caller has its error
      return this.socket.send(parts.flatMap(split));
    });
    // One send at a time: ZeroMQ refuses a second one with EBUSY. A send that was interrupted still occupies ZeroMQ.
    this.sending = sent.catch(() => undefined);
    return this.settle(sent);
  }

  /**
   * Sends and receives nothing from now on; sends that wait fail with `ERR_CLOSED`. Settles when the socket is gone: it
   * has delivered the messages that ZeroMQ took over, or its time is up.
   *
   * @param lingerMs The time to deliver them; 0 if all have been delivered.
   */
  async close(lingerMs = LINGER_MS): Promise<void> {
    clearInterval(this.beat);
    if (!this.closed) {
      this.closed = true;
      unregister(this);
      this.watchEnd();
      this.socket.linger = lingerMs;
      this.socket.close();
      this.interrupt(new GradringError('ERR_CLOSED', 'The link was closed.'));
    }
    await this.gone(lingerMs);
  }

  /**
   * Fails the sends that wait. The queue holds more than collectives keep in flight, so if a send waits, the peer is
   * gone or does not read. Later messages are sent when ZeroMQ has taken the one that it is working on.
   */
  interrupt(error: GradringError): void {
    this.interruptions += 1;
    for (const reject of this.unsettled) reject(error);
    this.unsettled.clear();
  }

  /**
   * Takes the socket's events one by one, up to the last. If an event was not taken, ZeroMQ's I/O thread would block
   * for ever, and the whole process shares it. If a thread ended with its events open, the binding would abort the
   * process.
   *
   * @param onLost The connection has ended, or nothing listens at the peer's address any more.
   */
  private watch(observer: Observer, onLost: () => void): void {
    const take = async () => {
      for (let isLost = false; ;) {
        const { type } = await observer.receive();
        if (type === 'end') return;
        if (isLost || (type !== 'disconnect' && type !== 'close')) continue;
        isLost = true;
        onLost();
      }
    };
    this.watched = take().catch(() => undefined);
  }

  /**
   * Takes the events until the last, if nobody does yet. An observer takes two descriptors. With only one, ZeroMQ would
   * wait for ever for its events to be taken.
   */
  private watchEnd(): void {
    if (this.watched !== undefined || (this.observer === undefined && !canOpenFiles(2))) return;
    try {
      this.observer ??= this.socket.events;
      this.watch(this.observer, () => undefined);
    } catch {
      // An observer is known by its place in memory, and the last one that had this place may not be quite gone.
    }
  }

  /**
   * Settles when the socket is gone, as its last event says. If that does not come while the socket may linger, no
   * other event can come either, and it is safe to stop listening.
   */
  private async gone(lingerMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const lingered = new Promise<void>(resolve => {
      timer = setTimeout(resolve, lingerMs + LATE_MS);
    });
    await Promise.race([this.watched, lingered]);
    clearTimeout(timer);
    if (this.observer?.closed === false) this.observer.close();
  }

  private async receive(events: LinkEvents): Promise<void> {
    while (!this.closed) {
      let parts: Buffer[];
      try {
        parts = await this.socket.receive();
      } catch (error) {
        if (this.closed || (error as NodeJS.ErrnoException).code !== 'EAGAIN') return; // closed, or the thread ends
        if (this.heardAt === undefined) continue; // nobody has come yet
        // Its queue has no limit. So it takes no message only if there is no peer any more.
        if (this.socket.writable && wakingNow() - this.heardAt < this.longestSilenceMs) continue;
        return this.lose(events);
      }
      this.isHeld = true;
      await events.onMessage(joined(parts));
      this.isHeld = false;
      this.heardAt = wakingNow();
    }
  }

  /**
   * After this time a bound end counts a silent peer as lost. The peer's left neighbour notices it earlier, by ZeroMQ's
   * heartbeats, and tells the others, unless it has left. What is missing here are signs of life of the peer's thread,
   * which may be late.
   */
  private get longestSilenceMs(): number {
    return Math.max(2 * this.options.heartbeatTimeoutMs, 5_000);
  }

  /** The peer is not connected any more, or is silent. */
  private lose(events: LinkEvents): void {
    this.lostAt = wakingNow();
    clearInterval(this.beat);
    if (!this.closed) events.onLost();
  }

  /** Sends an empty message, which the receiver ignores, unless others wait to be sent. */
  private showLife(): void {
    if (this.unsettled.size > 0 || this.closed) return;
    this.sending = this.sending.then(() => this.socket.send([new Uint8Array(0)])).catch(() => undefined);
  }

  /**
   * A promise of ZeroMQ that also fails when the link closes, because a closed socket may leave it pending for ever.
   */
  private settle(promise: Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.unsettled.add(reject);
      promise.then(
        () => {
          this.unsettled.delete(reject);
          resolve();
        },
        (error: unknown) => {
          this.unsettled.delete(reject);
          reject(new GradringError('ERR_PEER_LOST', 'The neighbour takes no more messages.', {}, { cause: error }));
        },
      );
    });
  }
}

const SOCKET_OPTIONS: ConstructorParameters<typeof Pair>[0] = {
  ipv6: true, // beside IPv4
  // More than the frames that collectives send ahead. A broadcast sends until the queue is full, so it needs a bound.
  sendHighWaterMark: 16,
  // More than arrives while the comm thread is busy. If this queue is full and the peer dies, ZeroMQ's heartbeats
  // abort the process (libzmq issue 4364). Only a broadcast can fill it, if it runs far ahead of a rank whose
  // neighbour then dies.
  receiveHighWaterMark: 256,
  // A last error or goodbye gets a moment to be sent, but a dead peer must not delay the end of the process.
  linger: LINGER_MS,
  // Never. With −1 ZeroMQ looks up the address of a connection that has ended, and aborts the process if it has no
  // descriptor left for that.
  reconnectInterval: LONGEST_DELAY_MS,
  maxMessageSize: MAX_PART_BYTES + PART_OVERHEAD_BYTES,
};

/**
 * Only the end that connects sends heartbeats, and the other one answers. So the left neighbour of a silent rank
 * notices that, and tells the others. A bound end would send heartbeats to unknown peers, too. If such a peer has said
 * something and is gone, ZeroMQ aborts the process when the next heartbeat is due (libzmq issue 4364).
 */
function heartbeats({ heartbeatTimeoutMs }: LinkOptions): ConstructorParameters<typeof Pair>[0] {
  return {
    heartbeatInterval: Math.max(1, Math.floor(heartbeatTimeoutMs / 4)),
    heartbeatTimeout: heartbeatTimeoutMs,
  };
}

/** The port of an endpoint of TCP. */
export function portOf(endpoint: string): number {
  return Number(endpoint.slice(endpoint.lastIndexOf(':') + 1));
}

function mediumOf(endpoint: string, curve: CurveServer | CurveClient | undefined): Medium {
  if (endpoint.startsWith('ipc:')) return 'unix-socket';
  return curve === undefined ? 'tcp' : 'tcp-encrypted';
}

/** Splits a part of a message into parts that ZeroMQ takes. */
function split(part: Uint8Array): Uint8Array[] {
  if (part.length <= MAX_PART_BYTES) return [part];
  const count = Math.ceil(part.length / MAX_PART_BYTES);
  return Array.from({ length: count }, (_, i) => part.subarray(i * MAX_PART_BYTES, (i + 1) * MAX_PART_BYTES));
}

/** The message before it was split: the header, and the whole body. Parts that no split makes stay as they are. */
function joined([header, ...body]: Buffer[]): Message {
  const isSplit = body.length > 1 && body.length <= MAX_PARTS;
  const isWhole = (part: Buffer, i: number) => part.length === MAX_PART_BYTES || i === body.length - 1;
  return isSplit && body.every(isWhole) ? [header!, Buffer.concat(body)] : [header!, ...body];
}
