import { setTimeout as sleep } from 'node:timers/promises';
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
import { Inbox } from './inbox';
import type { Link, Message } from './link';
import type { Timeline } from '../timeline/timeline';
import { ReceivedFrame } from './received-frame';
import type { Slots } from './slots';
import {
  type DataFrame,
  frameArguments,
  opposite,
  type SendOptions,
  type Side,
  type TrafficCount,
  type Transport,
} from './transport';

/** This rank's place, and how to name its neighbours in errors. */
export interface RingPlace extends RingIdentity {
  readonly rank: number;
  /** Host and endpoint of each rank, for the words of errors. */
  readonly addresses: readonly string[];
  /** Whether all ranks are on this host. */
  readonly isLocal: boolean;
  /** The files that large bodies go by: to the right, and from the left. */
  readonly slots?: { readonly left: Slots | undefined; readonly right: Slots | undefined };
}

const SIDES = ['left', 'right'] as const;

const IS_GONE = 'is gone: its process ended, or the connection broke';

/**
 * After a link breaks, what the neighbour had still sent is read for this long: if it failed itself, its abort tells the
 * first cause, and must win over "the neighbour is gone".
 */
const LAST_WORDS_MS = 250;

/** How long a rank that leaves in order waits for its neighbours to take what was sent. */
const FAREWELL_MS = 60_000;

/**
 * The two links of a rank, as a ring: frames go either way. The first failure, here or anywhere, ends the ring for good:
 * every waiting and later call throws it.
 */
export class RingTransport implements Transport {
  private readonly inboxes = { left: new Inbox(), right: new Inbox() };
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
    readonly timeline?: Timeline,
  ) {}

  get rank(): number {
    return this.place.rank;
  }

  get worldSize(): number {
    return this.place.worldSize;
  }

  get isLocal(): boolean {
    return this.place.isLocal;
  }

  get traffic(): TrafficCount {
    return { bytesSent: this.bytesSent, bytesReceived: this.bytesReceived };
  }

  get failed(): boolean {
    return this.failure !== undefined;
  }

  /** Greets both neighbours and awaits their greetings. */
  async open(): Promise<void> {
    const { rank } = this.place;
    for (const side of SIDES) this.start(side);
    await this.right.send([this.encode({ kind: FrameKind.Hello, origin: rank })]);
    await this.greeted.left.promise;
    // Only now is the left neighbour known to be connected; this end of the link refuses to send to nobody.
    await this.left.send([this.encode({ kind: FrameKind.Hello, origin: rank })]);
    await this.greeted.right.promise;
  }

  send(side: Side, header: DataHeader, body: Uint8Array, { bulk = false }: SendOptions = {}): Promise<void> {
    const slots = bulk && side === 'right' && this.failure === undefined ? this.place.slots?.right : undefined;
    const place = slots?.fill(body);
    if (place === undefined) return this.sendParts(side, [this.encode(header), body]);
    this.bytesSent += body.length;
    return this.sendParts(side, [this.encode({ ...header, inSlot: true }), place]);
  }

  forward(side: Side, frame: DataFrame): Promise<void> {
    return this.sendParts(side, [...frame.message]);
  }

  receive(side: Side): Promise<DataFrame> {
    if (this.failure === undefined && this.inboxes[side].isEmpty && this.departed.has(side)) this.failDeparted(side);
    return this.failure === undefined ? this.inboxes[side].next() : Promise.reject(this.failure);
  }

  fail(error: GradringError): void {
    if (this.failure !== undefined) return;
    this.failure = error;
    for (const side of SIDES) {
      this.inboxes[side].fail(error);
      this.greeted[side].reject(error);
    }
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
    let timeoutMs = 2 * LAST_WORDS_MS;
    if (this.failure === undefined) {
      const error = new GradringError('ERR_CLOSED', 'The communicator was closed.');
      this.failure = error;
      const goodbye = this.encode({ kind: FrameKind.Goodbye, origin: this.rank });
      for (const side of SIDES) {
        this.inboxes[side].fail(error);
        if (this.departed.has(side)) continue;
        this[side].send([goodbye]).catch(() => this.finished[side].resolve()); // it may just have gone
      }
      timeoutMs = FAREWELL_MS;
    }
    // A connection that is closed with bytes unread is reset, and what was last sent on it may be lost. So our end stays open, and
    // is read, until the neighbours have heard: they answer a goodbye, and an abort with theirs.
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>(resolve => {
      timer = setTimeout(resolve, timeoutMs);
    });
    await Promise.race([Promise.all(SIDES.map(side => this.finished[side].promise)), late]);
    clearTimeout(timer);
    await Promise.all([this.left.close(), this.right.close()]);
    for (const side of SIDES) this.place.slots?.[side]?.close();
  }

  private encode(header: Header): Uint8Array {
    return encodeHeader(this.place, header);
  }

  private async sendParts(side: Side, parts: Uint8Array[]): Promise<void> {
    if (this.failure === undefined && this.departed.has(side)) this.failDeparted(side);
    if (this.failure !== undefined) throw this.failure;
    for (const part of parts) this.bytesSent += part.length;
    try {
      await this[side].send(parts);
    } catch {
      // The link fails before the reason is known, which the neighbour may still tell.
      if (this.failure === undefined) await sleep(LAST_WORDS_MS);
      this.fail(this.lost(side, IS_GONE));
      throw this.failure!;
    }
  }

  private start(side: Side): void {
    this[side].start({
      onMessage: message => this.onMessage(side, message),
      onLost: () => {
        this.finished[side].resolve();
        if (this.departed.has(side)) return;
        setTimeout(() => {
          if (this.departed.has(side)) return;
          this.fail(this.lost(side, IS_GONE));
        }, LAST_WORDS_MS);
      },
    });
  }

  private async onMessage(side: Side, message: Message): Promise<void> {
    if (message.length === 1 && message[0]!.length === 0) return; // a probe of the link itself
    for (const part of message) this.bytesReceived += part.length;
    try {
      this.take(side, message);
    } catch (error) {
      const rank = this.neighbour(side);
      const words = `Rank ${rank} (${this.place.addresses[rank]}) broke the protocol: ${(error as Error).message}`;
      this.fail(new GradringError('ERR_PROTOCOL', words, { rank }, { cause: error }));
    }
    await this.inboxes[side].room();
  }

  private take(side: Side, message: Message): void {
    const cameAt = this.timeline?.now();
    const header = decodeHeader(this.place, message[0]!);
    if (message.length > 2) throw protocolError(`comes in ${message.length} parts`);
    switch (header.kind) {
      case FrameKind.Hello:
        if (header.origin !== this.neighbour(side)) throw protocolError(`greets as rank ${header.origin}`);
        this.greeted[side].resolve();
        return;
      case FrameKind.Goodbye:
        this.finished[side].resolve();
        this[side].send([this.encode({ kind: FrameKind.Seen, origin: this.rank })]).catch(() => undefined);
        this.departed.add(side);
        if (this.inboxes[side].isAwaited) this.failDeparted(side);
        return;
      case FrameKind.Seen:
        this.finished[side].resolve();
        return;
      case FrameKind.Abort:
        this.finished[side].resolve();
        this.fail(deserializeError(header.error));
        return;
      case FrameKind.Data: {
        const frame = new ReceivedFrame(header, message, side === 'left' ? this.place.slots?.left : undefined);
        if (header.inSlot) this.bytesReceived += frame.bodyBytes;
        if (this.failure === undefined) this.inboxes[side].put(frame);
        this.timeline?.span('receive', cameAt!, frameArguments(frame, opposite(side)));
      }
    }
  }

  private failDeparted(side: Side): void {
    this.fail(this.lost(side, 'has left the ring'));
  }

  private lost(side: Side, how: string): GradringError {
    const rank = this.neighbour(side);
    return new GradringError('ERR_PEER_LOST', `Rank ${rank} (${this.place.addresses[rank]}) ${how}.`, { rank });
  }

  private neighbour(side: Side): number {
    const { rank, worldSize } = this.place;
    return (rank + (side === 'right' ? 1 : worldSize - 1)) % worldSize;
  }
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
