import { deserializeError, GradringError, serializeError } from '../errors';
import {
  type DataHeader,
  decodeHeader,
  encodeHeader,
  FrameKind,
  type Header,
  type RingIdentity,
  protocolError,
} from '../wire/frame';
import type { Link, Message } from './link';
import type { DataFrame, TrafficCount, Transport } from './transport';

/** This rank's place, and how to name its neighbours in errors. */
export interface RingPlace extends RingIdentity {
  readonly rank: number;
  /** Host and endpoint of each rank, for the words of errors. */
  readonly addresses: readonly string[];
}

type Side = 'left' | 'right';

/** Frames that wait for their collective; past this many bytes the left link is no longer read. */
const INBOX_BYTES = 64 * 1024 * 1024;

/**
 * After a link breaks, what the neighbour had still sent is read for this long: if it failed itself, its abort tells the
 * first cause, and must win over "the neighbour is gone".
 */
const LAST_WORDS_MS = 250;

/** How long a rank that leaves in order waits for its right neighbour to take what was sent. */
const FAREWELL_MS = 60_000;

/**
 * The two links of a rank, as a ring: data goes right and comes from the left; aborts and goodbyes go both ways. The first
 * failure, here or anywhere, ends the ring for good: every waiting and later call throws it.
 */
export class RingTransport implements Transport {
  private readonly inbox: DataFrame[] = [];
  private inboxBytes = 0;
  private waiting: { resolve: (frame: DataFrame) => void; reject: (error: GradringError) => void } | undefined;
  private inboxDrained: (() => void) | undefined;
  private failure: GradringError | undefined;
  /** Sides from which a goodbye came. By side, for in a ring of two both neighbours are one rank over two links. */
  private readonly departed = new Set<Side>();
  private readonly greeted = { left: deferred(), right: deferred() };
  /** Resolved when a side has said its last, or is gone. */
  private readonly finished = { left: deferred(), right: deferred() };
  private bytesSent = 0;
  private bytesReceived = 0;

  constructor(
    private readonly place: RingPlace,
    private readonly left: Link,
    private readonly right: Link,
    /** Called once, with the error that ended the ring. */
    private readonly onFailure: (error: GradringError) => void,
  ) {}

  get rank(): number {
    return this.place.rank;
  }

  get worldSize(): number {
    return this.place.worldSize;
  }

  get traffic(): TrafficCount {
    return { bytesSent: this.bytesSent, bytesReceived: this.bytesReceived };
  }

  get failed(): boolean {
    return this.failure !== undefined;
  }

  /** Greets both neighbours and awaits their greetings. */
  async open(): Promise<void> {
    const { rank, worldSize } = this.place;
    this.start('left', this.left, (rank + worldSize - 1) % worldSize);
    this.start('right', this.right, (rank + 1) % worldSize);
    await this.right.send([this.encode({ kind: FrameKind.Hello, origin: rank })]);
    await this.greeted.left.promise;
    // Only now is the left neighbour known to be connected; this end of the link refuses to send to nobody.
    await this.left.send([this.encode({ kind: FrameKind.Hello, origin: rank })]);
    await this.greeted.right.promise;
  }

  send(header: DataHeader, body?: Uint8Array): Promise<void> {
    return this.sendRight(body === undefined ? [this.encode(header)] : [this.encode(header), body]);
  }

  forward(frame: DataFrame): Promise<void> {
    return this.sendRight([...frame.message]);
  }

  receive(): Promise<DataFrame> {
    if (this.failure !== undefined) return Promise.reject(this.failure);
    const frame = this.inbox.shift();
    if (frame !== undefined) {
      this.inboxBytes -= heldBytes(frame);
      if (this.inboxBytes <= INBOX_BYTES) this.inboxDrained?.();
      return Promise.resolve(frame);
    }
    if (this.departed.has('left')) {
      this.fail(this.lost(this.leftRank, 'has left the ring'));
      return Promise.reject(this.failure!);
    }
    return new Promise((resolve, reject) => {
      this.waiting = { resolve, reject };
    });
  }

  fail(error: GradringError): void {
    if (this.failure !== undefined) return;
    this.failure = error;
    this.waiting?.reject(error);
    this.waiting = undefined;
    this.greeted.left.reject(error);
    this.greeted.right.reject(error);
    this.dropInbox();
    this.right.interrupt(error);
    const abort = this.encode({
      kind: FrameKind.Abort,
      origin: this.rank,
      error: serializeError(error, 'ERR_COMM_THREAD'),
    });
    for (const link of [this.left, this.right]) link.send([abort]).catch(() => undefined);
    this.onFailure(error);
  }

  async close(): Promise<void> {
    const sides = ['left', 'right'] as const;
    let awaited: readonly Side[] = sides;
    let timeoutMs = 2 * LAST_WORDS_MS;
    if (this.failure === undefined) {
      const error = new GradringError('ERR_CLOSED', 'The communicator was closed.');
      this.failure = error;
      this.waiting?.reject(error);
      this.dropInbox();
      const goodbye = this.encode({ kind: FrameKind.Goodbye, origin: this.rank });
      const staying = sides.filter(side => !this.departed.has(side));
      for (const side of staying) this[side].send([goodbye]).catch(() => undefined); // it may just have gone
      awaited = ['right'];
      timeoutMs = FAREWELL_MS;
    }
    // A connection that is closed with bytes unread is reset, and what was last sent on it may be lost. So our end stays open, and
    // is read, until the neighbours have heard: they answer a goodbye, and an abort with theirs.
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>(resolve => {
      timer = setTimeout(resolve, timeoutMs);
    });
    await Promise.race([Promise.all(awaited.map(side => this.finished[side].promise)), late]);
    clearTimeout(timer);
    await Promise.all([this.left.close(), this.right.close()]);
  }

  private get leftRank(): number {
    return (this.rank + this.worldSize - 1) % this.worldSize;
  }

  private get rightRank(): number {
    return (this.rank + 1) % this.worldSize;
  }

  private encode(header: Header): Uint8Array {
    return encodeHeader(this.place, header);
  }

  private async sendRight(parts: Uint8Array[]): Promise<void> {
    if (this.failure === undefined && this.departed.has('right')) {
      this.fail(this.lost(this.rightRank, 'has left the ring'));
    }
    if (this.failure !== undefined) throw this.failure;
    for (const part of parts) this.bytesSent += part.length;
    try {
      await this.right.send(parts);
    } catch (error) {
      // The link fails before the reason is known; the failure that closes it is the one to be thrown.
      throw this.failure ?? error;
    }
  }

  private start(side: Side, link: Link, neighbour: number): void {
    link.start({
      onMessage: message => this.onMessage(side, neighbour, message),
      onLost: () => {
        this.finished[side].resolve();
        if (this.departed.has(side)) return;
        setTimeout(() => {
          if (this.departed.has(side)) return;
          this.fail(this.lost(neighbour, 'is gone: its process ended, or the connection broke'));
        }, LAST_WORDS_MS);
      },
    });
  }

  private async onMessage(side: Side, neighbour: number, message: Message): Promise<void> {
    if (message.length === 1 && message[0]!.length === 0) return; // a probe of the link itself
    for (const part of message) this.bytesReceived += part.length;
    try {
      this.take(side, neighbour, message);
    } catch (error) {
      const words = `Rank ${neighbour} (${this.place.addresses[neighbour]}) broke the protocol: ${(error as Error).message}`;
      this.fail(new GradringError('ERR_PROTOCOL', words, { rank: neighbour }, { cause: error }));
    }
    if (this.inboxBytes > INBOX_BYTES) {
      await new Promise<void>(resolve => {
        this.inboxDrained = resolve;
      });
      this.inboxDrained = undefined;
    }
  }

  private take(side: Side, neighbour: number, message: Message): void {
    const header = decodeHeader(this.place, message[0]!);
    if (message.length > 2) throw protocolError(`comes in ${message.length} parts`);
    switch (header.kind) {
      case FrameKind.Hello:
        if (header.origin !== neighbour) throw protocolError(`greets as rank ${header.origin}`);
        this.greeted[side].resolve();
        return;
      case FrameKind.Goodbye:
        this.finished[side].resolve();
        if (side === 'left') {
          this.left.send([this.encode({ kind: FrameKind.Seen, origin: this.rank })]).catch(() => undefined);
        }
        this.depart(side, neighbour);
        return;
      case FrameKind.Seen:
        this.finished[side].resolve();
        return;
      case FrameKind.Abort:
        this.finished[side].resolve();
        this.fail(deserializeError(header.error));
        return;
      case FrameKind.Data:
        if (side !== 'left') throw protocolError('comes from the right, where no data comes from');
        if (this.failure === undefined) this.deliver({ header, body: message[1] ?? Buffer.alloc(0), message });
    }
  }

  private deliver(frame: DataFrame): void {
    if (this.waiting !== undefined) {
      const { resolve } = this.waiting;
      this.waiting = undefined;
      resolve(frame);
      return;
    }
    this.inbox.push(frame);
    this.inboxBytes += heldBytes(frame);
  }

  private dropInbox(): void {
    this.inbox.length = 0;
    this.inboxBytes = 0;
    this.inboxDrained?.();
  }

  private depart(side: Side, neighbour: number): void {
    this.departed.add(side);
    if (side === 'left' && this.waiting !== undefined) this.fail(this.lost(neighbour, 'has left the ring'));
  }

  private lost(rank: number, how: string): GradringError {
    return new GradringError('ERR_PEER_LOST', `Rank ${rank} (${this.place.addresses[rank]}) ${how}.`, { rank });
  }
}

/** What a waiting frame costs in memory, about: small frames must count too. */
function heldBytes({ message }: DataFrame): number {
  return message.reduce((sum, part) => sum + part.length, 512);
}

interface Deferred {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: GradringError) => void;
}

function deferred(): Deferred {
  let resolve!: () => void;
  let reject!: (error: GradringError) => void;
  const promise = new Promise<void>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  promise.catch(() => undefined); // a ring that fails while it opens fails where `open` awaits it
  return { promise, resolve, reject };
}
