import { type Observer, Pair } from 'zeromq';
import { GradringError } from '../../errors';
import type { CurveClient, CurveServer } from './curve';
import { bind, closed, opened } from './open-sockets';
import type { Medium } from '../medium';

/** A received message: its parts, in memory of their own. */
export type Message = readonly Buffer[];

/** What a {@link Link} tells its owner. */
export interface LinkEvents {
  /** The next message; the link reads no further until the promise settles, so the peer feels back-pressure. */
  readonly onMessage: (message: Message) => Promise<void> | void;
  /** The peer's process or the network is gone. Called once at most, and not after {@link Link.close}. */
  readonly onLost: () => void;
}

export interface LinkOptions {
  /**
   * How long a peer may be silent, in ms, before the link counts as lost. ZeroMQ's own threads keep it from silence.
   */
  readonly heartbeatTimeoutMs: number;
}

/**
 * What is longer travels in several parts. ZeroMQ takes no longer part of a message, so that a stranger, of whom
 * nothing is yet known, can make it hold no more than this.
 */
const MAX_PART_BYTES = 16 * 1024 * 1024;

/** What encryption adds to a part, and more. */
const PART_OVERHEAD_BYTES = 1024;

/**
 * How long a closed socket still delivers what it took over. All that matters has been acknowledged by then (see
 * {@link RingTransport.close}), and after half a second zeromq warns at the end of the process that it waits.
 */
const LINGER_MS = 400;

const PROBE_AGAIN_MS = 50;

/**
 * One connection to one neighbour: a ZeroMQ PAIR socket, one end bound, the other connected. Messages arrive whole, in
 * order, at most once. A broken connection is never mended: what was in flight is lost, and the ring must know.
 */
export class Link {
  private readonly unsettled = new Set<(error: GradringError) => void>();
  private sending: Promise<void> = Promise.resolve();
  private interruptions = 0;
  private closed = false;
  /** Whether the peer has said anything yet. */
  private heard = false;
  /** Tells of the socket's events. Kept here: asked again, a closed socket would try to make a new one. */
  private observer: Observer | undefined;
  /** How many connections have ended, strangers' too. */
  private disconnections = 0;
  private probing = false;
  /** Settles after the last event. */
  private watched: Promise<void> = Promise.resolve();

  private constructor(
    private readonly socket: Pair,
    private readonly bound: boolean,
    readonly medium: Medium,
  ) {
    opened(this);
  }

  /** Binds the end that awaits the neighbour. Returns the endpoint that the neighbour must connect to. */
  static listen(endpoint: string, options: LinkOptions, curve?: CurveServer): { link: Link; endpoint: string } {
    // It takes all that is sent, which the collectives keep a bound on, so that a refusal tells that the peer is gone.
    const socket = new Pair({ ...socketOptions(options), ...curve, sendTimeout: 0, sendHighWaterMark: 0 });
    try {
      bind(socket, endpoint);
    } catch (error) {
      socket.close();
      const words = `Cannot listen at ${endpoint}: ${(error as Error).message}.`;
      throw new GradringError('ERR_ADDRESS_IN_USE', words, {}, { cause: error });
    }
    return { link: new Link(socket, true, mediumOf(endpoint, curve)), endpoint: socket.lastEndpoint! };
  }

  /** Connects the other end. It needs no waiting: what is sent first is held until the connection stands. */
  static connect(endpoint: string, options: LinkOptions, curve?: CurveClient): Link {
    const socket = new Pair({ ...socketOptions(options), ...curve });
    const link = new Link(socket, false, mediumOf(endpoint, curve));
    link.observer = socket.events; // before it connects: that it was refused would pass unseen
    socket.connect(endpoint);
    return link;
  }

  /** Begins to receive. To be called once. */
  start(events: LinkEvents): void {
    this.observer ??= this.socket.events;
    this.watched = this.watch(this.observer, events).catch(() => undefined);
    void this.receive(events);
  }

  /**
   * Queues a message, in order. Settles when ZeroMQ has taken it over, which waits while the peer is slow; the parts
   * must not be written to again, for large ones are not copied.
   */
  send(parts: Uint8Array[]): Promise<void> {
    if (this.closed) return Promise.reject(new GradringError('ERR_CLOSED', 'The link was closed.'));
    const { interruptions } = this;
    const sent = this.sending.then(() => {
      if (interruptions !== this.interruptions) return; // who waited for this one has been told
      return this.socket.send(parts.flatMap(split));
    });
    // One send at a time: a second one would be refused as EBUSY. One that was interrupted is still ZeroMQ's.
    this.sending = sent.catch(() => undefined);
    return this.settle(sent);
  }

  /**
   * Takes and sends nothing from now on; waiting sends fail with `ERR_CLOSED`. Settles when the messages that ZeroMQ
   * took over are delivered, or their moment has passed, and the socket is gone.
   *
   * @param lingerMs That moment; 0 if all has been delivered.
   */
  async close(lingerMs = LINGER_MS): Promise<void> {
    if (!this.closed) {
      this.closed = true;
      closed(this);
      this.socket.linger = lingerMs;
      this.socket.close();
      this.interrupt(new GradringError('ERR_CLOSED', 'The link was closed.'));
    }
    await this.gone();
  }

  /**
   * Fails the sends that wait. The queue is longer than what collectives keep in flight, so a send that waits has
   * nobody to send to, or who does not read. What is sent after this goes when ZeroMQ has taken the one that it was
   * offered.
   */
  interrupt(error: GradringError): void {
    this.interruptions += 1;
    for (const reject of this.unsettled) reject(error);
    this.unsettled.clear();
  }

  /**
   * Awaits the socket's events one by one, up to the last. ZeroMQ's I/O thread, which the whole process shares, would
   * block for ever on an event that nobody takes, and the binding aborts a process whose thread ends with events open.
   * Nothing else is awaited here, for thousands of strangers may come and go.
   */
  private async watch(observer: Observer, events: LinkEvents): Promise<void> {
    for (;;) {
      const { type } = await observer.receive();
      if (type === 'end') return;
      const isRefused = type === 'close' && !this.bound; // nobody listens at the peer's address any more
      if (type !== 'disconnect' && !isRefused) continue;
      this.disconnections += 1;
      if (!this.probing) void this.probe(events);
    }
  }

  /**
   * Finds out whether the peer was among those who left, and again while others leave. Once it was, it goes on for
   * good.
   */
  private async probe(events: LinkEvents): Promise<void> {
    this.probing = true;
    for (let seen = 0; seen !== this.disconnections;) {
      seen = this.disconnections;
      if (this.closed) return;
      if (!(await this.isLost())) continue;
      if (!this.closed) events.onLost();
      return;
    }
    this.probing = false;
  }

  /**
   * Settles when the socket is gone, which its last event tells. Should that never come: when the socket has had its
   * time to linger, no other can come any more either, and it is safe to stop listening.
   */
  private async gone(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const lingered = new Promise<void>(resolve => {
      timer = setTimeout(resolve, LINGER_MS + 200);
    });
    await Promise.race([this.watched, lingered]);
    clearTimeout(timer);
    if (this.observer?.closed === false) this.observer.close();
  }

  private async receive(events: LinkEvents): Promise<void> {
    while (!this.closed) {
      let message: Message;
      try {
        message = joined(await this.socket.receive());
      } catch {
        return; // closed, by us or by the end of the thread
      }
      this.heard = true;
      await events.onMessage(message);
    }
  }

  /**
   * Whether a 'disconnect' concerns the peer. At a bound TCP port any stranger may come and go; the peer is still there
   * if a message can be handed over. (An empty message; the receiver passes it over.)
   */
  private async isLost(): Promise<boolean> {
    if (!this.bound) return true;
    if (!this.heard) return false; // the peer is still to come
    try {
      // Twice, for ZeroMQ tells of a disconnection shortly before it stops to take messages for it.
      await this.send([new Uint8Array(0)]);
      await new Promise(resolve => setTimeout(resolve, PROBE_AGAIN_MS));
      await this.send([new Uint8Array(0)]);
      return false;
    } catch {
      return true;
    }
  }

  /** A promise of ZeroMQ's that also fails when the link closes: a closed socket may leave its own pending for ever. */
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

function socketOptions({ heartbeatTimeoutMs }: LinkOptions): ConstructorParameters<typeof Pair>[0] {
  return {
    ipv6: true, // and IPv4 still
    // More than a window of segments; a broadcast sends as far ahead as there is room, and memory must be bounded.
    sendHighWaterMark: 16,
    // More than comes while the comm thread is busy. When it is full, and the peer dies, ZeroMQ's heartbeats abort the
    // process (its issue 4364): so only a broadcast that runs far ahead of a rank, which then loses its neighbour, may
    // come to that.
    receiveHighWaterMark: 256,
    // A last error or goodbye is given a moment to leave, but a dead peer must not hold up the end of the process.
    linger: LINGER_MS,
    reconnectInterval: -1,
    heartbeatInterval: Math.max(1, Math.floor(heartbeatTimeoutMs / 4)),
    heartbeatTimeout: heartbeatTimeoutMs,
    maxMessageSize: MAX_PART_BYTES + PART_OVERHEAD_BYTES,
  };
}

function mediumOf(endpoint: string, curve: CurveServer | CurveClient | undefined): Medium {
  if (endpoint.startsWith('ipc:')) return 'unix-socket';
  return curve === undefined ? 'tcp' : 'tcp-encrypted';
}

/** The parts in which a part of a message travels. */
function split(part: Uint8Array): Uint8Array[] {
  if (part.length <= MAX_PART_BYTES) return [part];
  const count = Math.ceil(part.length / MAX_PART_BYTES);
  return Array.from({ length: count }, (_, i) => part.subarray(i * MAX_PART_BYTES, (i + 1) * MAX_PART_BYTES));
}

/** The message as it was sent: its body, which follows the header, whole. */
function joined([header, ...body]: Buffer[]): Message {
  if (body.length > 1 && body[0]!.length === MAX_PART_BYTES) return [header!, Buffer.concat(body)];
  return [header!, ...body];
}
