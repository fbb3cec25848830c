import { setTimeout as sleep } from 'node:timers/promises';
import { deserializeError, GradringError, serializeError } from '../errors';
import { type DataHeader, decodeHeader, encodeHeader, FrameKind, type Header, protocolError } from '../wire/frame';
import { deferred } from './deferred';
import { FailureAgreement } from './control/failure-agreement';
import { Farewell } from './control/farewell';
import { LARGEST_HEADER } from './data/frame-assembly';
import { Inbox } from './data/inbox';
import { Lane } from './data/lane';
import type { Landing } from './data/landing';
import type { Link, Message } from './control/link';
import { ProgressEngine } from './data/progress-engine';
import type { Timeline } from '../timeline/timeline';
import { ReceivedFrame } from './data/received-frame';
import { neighbourOf, peerLost, type RingPlace } from './ring-place';
import { RollCall } from './control/roll-call';
import {
  type DataFrame,
  frameArguments,
  type Medium,
  opposite,
  type RankState,
  type Sent,
  type Side,
  SIDES,
  type TrafficCount,
  type Transport,
} from './transport';

const IS_GONE = 'is gone: its process ended, or the connection broke';

/**
 * After a link breaks, what the neighbour had still sent is read for this long: if it failed itself, its abort tells
 * the first cause, and must win over "the neighbour is gone"; if it passed on what another had found, that is to be
 * chosen from, too.
 */
const LAST_WORDS_MS = 250;

/** How long a rank that leaves in order waits for its neighbours to take what was sent. */
const FAREWELL_MS = 60_000;

/**
 * The two links of a rank, as a ring: frames go either way. The first failure, here or anywhere, ends the ring for
 * good: every waiting and later call throws what the ranks agree on.
 */
export class RingTransport implements Transport {
  private readonly inboxes = { left: new Inbox(), right: new Inbox() };
  private readonly lanes: Readonly<Record<Side, Lane | undefined>>;
  private readonly engine: ProgressEngine;
  /** What calls throw: set when the ranks have agreed on it, or when this one has left. */
  private failure: GradringError | undefined;
  private readonly agreement: FailureAgreement;
  /** Resolved with {@link failure}. */
  private readonly ended = deferred<GradringError>();
  private readonly rollCall: RollCall;
  /** Sides from which a goodbye came. By side, for in a ring of two both neighbours are one rank over two links. */
  private readonly departed = new Set<Side>();
  private readonly greeted = { left: deferred(), right: deferred() };
  private readonly farewell = new Farewell();
  // Arrays, as those hold floats from the first. At 2³¹ a property would become one, and all compiled code that knows
  // this class would be thrown away.
  private readonly bytesSent = new Float64Array(1);
  private readonly bytesReceived = new Float64Array(1);

  constructor(
    private readonly place: RingPlace,
    private readonly left: Link,
    private readonly right: Link,
    /** Called once, with the error that ended the ring. */
    private readonly onFailure: (error: GradringError) => void,
    readonly timeline?: Timeline,
  ) {
    this.agreement = new FailureAgreement({
      rank: place.rank,
      neighbourOf: (rank, side) => neighbourOf(place, rank, side),
      tell: (side, origin, error) => this.sayLast(side, { kind: FrameKind.Abort, origin, error }),
      missing: side => serializeError(peerLost(place, side, IS_GONE), 'ERR_PEER_LOST'),
      onAgreed: error => this.end(error),
    });
    this.lanes = { left: this.laneOf('left'), right: this.laneOf('right') };
    this.engine = new ProgressEngine(
      SIDES.flatMap(side => this.lanes[side] ?? []),
      place.hasCore,
    );
    this.rollCall = new RollCall(place, (side, status) => this.tell(side, status));
  }

  get rank(): number {
    return this.place.rank;
  }

  get worldSize(): number {
    return this.place.worldSize;
  }

  get isLocal(): boolean {
    return this.place.isLocal;
  }

  get usesTree(): boolean {
    return this.place.usesTree;
  }

  get traffic(): TrafficCount {
    return { bytesSent: this.bytesSent[0]!, bytesReceived: this.bytesReceived[0]! };
  }

  get media(): readonly Medium[] {
    return SIDES.map(side => {
      const carrier = this.place.carriers?.[side];
      return carrier?.canSend ? carrier.medium : this[side].medium;
    });
  }

  get failed(): boolean {
    return this.failure !== undefined || this.agreement.begun;
  }

  /** Greets both neighbours and awaits their greetings. */
  async open(): Promise<void> {
    const { rank } = this.place;
    const greet = (side: Side) => {
      const offer = this.place.carriers?.[side]?.offer;
      return this.deliver(side, [this.encode({ kind: FrameKind.Hello, origin: rank, offer })]);
    };
    for (const side of SIDES) this.start(side);
    await greet('right');
    await this.greeted.left.promise;
    // Only now is the left neighbour known to be connected; this end of the link refuses to send to nobody.
    await greet('left');
    await this.greeted.right.promise;
  }

  send(side: Side, header: DataHeader, body: Uint8Array): Promise<Sent> {
    return this.sendFrame(side, this.encode(header), body);
  }

  forward(side: Side, { message, body }: DataFrame): Promise<Sent> {
    return this.sendFrame(side, message[0]!, body);
  }

  async receive(side: Side, landing?: Landing): Promise<DataFrame> {
    const inbox = this.inboxes[side];
    const lane = this.lanes[side];
    if (lane !== undefined && !this.failed) {
      await lane.pace();
      if (inbox.isEmpty) {
        lane.expect(landing);
        lane.takeNext();
      }
    }
    if (!this.failed && inbox.isEmpty && this.departed.has(side)) void this.failDeparted(side);
    if (this.failed) throw await this.ended.promise;
    const next = inbox.next();
    if (inbox.isAwaited) this.engine.run();
    return next;
  }

  fail(error: GradringError): Promise<GradringError> {
    if (!this.failed) {
      this.right.interrupt(error); // behind a send that waits nothing could be told
      this.agreement.find(serializeError(error, 'ERR_COMM_THREAD'));
    }
    return this.ended.promise;
  }

  async check({ whole }: { readonly whole: boolean }): Promise<void> {
    const [side] = this.departed;
    if (whole && side !== undefined && !this.failed) void this.failDeparted(side);
    if (this.failed) throw await this.ended.promise;
  }

  attend(describe: () => RankState, onAsked: () => void): void {
    this.rollCall.attend(describe, onAsked);
  }

  ask(what: 'answers' | 'report'): void {
    this.rollCall.ask(what);
  }

  answers(since: number): ReadonlyMap<number, RankState> {
    return this.rollCall.answers(since);
  }

  async close(): Promise<void> {
    let timeoutMs = 2 * LAST_WORDS_MS;
    this.rollCall.close();
    if (this.agreement.begun) await this.ended.promise;
    if (this.failure === undefined) {
      const error = new GradringError('ERR_CLOSED', 'The communicator was closed.');
      this.failure = error;
      this.ended.resolve(error);
      for (const side of SIDES) {
        this.inboxes[side].fail(error);
        this.farewell.hear(side); // a neighbour may stay, with nothing to say
        this.place.carriers?.[side]?.finish();
        if (!this.departed.has(side)) this.sayLast(side, { kind: FrameKind.Goodbye, origin: this.rank });
      }
      timeoutMs = FAREWELL_MS;
    }
    // A connection that is closed with bytes unread is reset, and what was last sent on it may be lost. So our end
    // stays open, and is read, until the neighbours have seen all.
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<false>(resolve => {
      timer = setTimeout(() => resolve(false), timeoutMs);
    });
    const isOver = await Promise.race([this.farewell.over().then(() => true), late]);
    clearTimeout(timer);
    // Nothing is left to be delivered then. A socket that lingers is not read any more, so its queue is full (see
    // receiveHighWaterMark).
    const lingerMs = isOver ? 0 : undefined;
    await Promise.all([this.left.close(lingerMs), this.right.close(lingerMs)]);
    for (const side of SIDES) this.place.carriers?.[side]?.close();
  }

  private encode(header: Header): Uint8Array {
    return encodeHeader(this.place, header);
  }

  /** The ranks have agreed on what all of them raise. */
  private end(error: GradringError): void {
    if (this.failure !== undefined) return; // it has left
    this.failure = error;
    this.rollCall.close();
    this.ended.resolve(error);
    for (const side of SIDES) {
      this.inboxes[side].fail(error);
      this.greeted[side].reject(error);
    }
    this.onFailure(error);
  }

  /** Sends what is no part of a collective, if that can be done. */
  private async tell(side: Side, header: Header): Promise<void> {
    await this[side].send([this.encode(header)]).catch(() => undefined);
  }

  /** Says a last word, which the neighbour acknowledges. */
  private sayLast(side: Side, header: Header): void {
    this.farewell.say(side);
    this[side].send([this.encode(header)]).catch(() => this.farewell.lose(side));
  }

  /**
   * The neighbour on that side has said a last word. To be called after an interruption, which would drop the
   * acknowledgement.
   */
  private hearLast(side: Side): void {
    this.farewell.hear(side);
    void this.tell(side, { kind: FrameKind.Seen, origin: this.rank });
  }

  private async sendFrame(side: Side, header: Uint8Array, body: Uint8Array): Promise<Sent> {
    if (!this.failed && this.departed.has(side)) void this.failDeparted(side);
    if (this.failed) throw await this.ended.promise;
    this.bytesSent[0]! += header.length + body.length;
    const isQueued = (await this.lanes[side]?.send(header, body)) ?? false;
    if (!isQueued) await this.deliver(side, [header, body]);
    else if (this.failed) throw await this.ended.promise;
    return { lent: !isQueued };
  }

  private async deliver(side: Side, parts: Uint8Array[]): Promise<void> {
    try {
      await this[side].send(parts);
    } catch {
      // The link fails before the reason is known, which the neighbour may still tell.
      if (!this.failed) await sleep(LAST_WORDS_MS);
      throw await this.fail(peerLost(this.place, side, IS_GONE));
    }
  }

  private start(side: Side): void {
    this[side].start({
      onMessage: message => this.onMessage(side, message),
      onLost: () => {
        this.farewell.lose(side);
        this.lose(side, 'link');
      },
    });
  }

  /** What leads to a neighbour is broken. If it was the carrier, the link may still bring and take words. */
  private lose(side: Side, broken: 'link' | 'carrier'): void {
    setTimeout(() => {
      if (this.departed.has(side)) return;
      if (broken === 'link') this.agreement.lose(side);
      void this.fail(peerLost(this.place, side, IS_GONE));
    }, LAST_WORDS_MS);
  }

  private async onMessage(side: Side, message: Message): Promise<void> {
    if (message.length === 1 && message[0]!.length === 0) return; // a probe of the link itself
    for (const part of message) this.bytesReceived[0]! += part.length;
    try {
      this.take(side, message);
    } catch (error) {
      this.failBroken(side, error as Error);
    }
    await this.inboxes[side].room();
  }

  /** The lane of a link, where it has one. */
  private laneOf(side: Side): Lane | undefined {
    const carrier = this.place.carriers?.[side];
    if (carrier === undefined) return undefined;
    return new Lane(carrier, {
      onFrame: ({ header: head, body, bytes, hasLanded }) => {
        const cameAt = this.timeline?.now();
        const header = decodeHeader(this.place, head);
        if (header.kind !== FrameKind.Data) throw protocolError('came beside the link, but is no data');
        this.bytesReceived[0]! += head.length + bytes;
        this.put(side, new ReceivedFrame(header, [head, body], false, hasLanded ? bytes : undefined), cameAt);
      },
      onBroken: error => this.failBroken(side, error),
      onLost: () => this.lose(side, 'carrier'),
      isAwaited: () => !this.failed && this.inboxes[side].isAwaited,
      onWait: () => this.engine.run(),
      ended: this.ended.promise,
    });
  }

  private put(side: Side, frame: ReceivedFrame, cameAt: number | undefined): void {
    if (!this.failed) this.inboxes[side].put(frame);
    this.timeline?.span('receive', cameAt!, frameArguments(frame, opposite(side)));
  }

  /** What came from the neighbour on that side cannot be. */
  private failBroken(side: Side, error: Error): void {
    const rank = neighbourOf(this.place, this.rank, side);
    const words = `Rank ${rank} (${this.place.addresses[rank]}) broke the protocol: ${error.message}`;
    void this.fail(new GradringError('ERR_PROTOCOL', words, { rank }, { cause: error }));
  }

  private take(side: Side, message: Message): void {
    const cameAt = this.timeline?.now();
    const header = decodeHeader(this.place, message[0]!);
    if (message.length > 2) throw protocolError(`comes in ${message.length} parts`);
    switch (header.kind) {
      case FrameKind.Hello:
        if (header.origin !== neighbourOf(this.place, this.rank, side))
          throw protocolError(`greets as rank ${header.origin}`);
        if (header.offer !== undefined) this.place.carriers?.[side]?.meet(header.offer);
        this.greeted[side].resolve();
        return;
      case FrameKind.Goodbye:
        void this.hearGoodbye(side);
        return;
      case FrameKind.Seen:
        this.farewell.see(side);
        return;
      case FrameKind.Abort:
        if (!this.failed) this.right.interrupt(deserializeError(header.error));
        this.hearLast(side);
        if (this.agreement.begun || !this.failed) this.agreement.hear(side, header.origin, header.error);
        return;
      case FrameKind.Status:
        if (!this.failed) this.rollCall.hear(side, header);
        return;
      case FrameKind.Data: {
        if (message.length < 2) throw protocolError('has no body');
        if (message[0]!.length > LARGEST_HEADER) throw protocolError('has too long a header');
        this.lanes[side]?.pass();
        this.put(side, new ReceivedFrame(header, message, true), cameAt);
      }
    }
  }

  private async hearGoodbye(side: Side): Promise<void> {
    await this.lanes[side]?.drainToEnd();
    if (this.departed.has(side)) return;
    this.departed.add(side);
    this.agreement.lose(side);
    if (this.inboxes[side].isAwaited || this.lanes[side]?.isFull) void this.failDeparted(side);
    this.hearLast(side);
  }

  private failDeparted(side: Side): Promise<GradringError> {
    return this.fail(
      peerLost(this.place, side, 'has left the ring: its program ended, or closed it, before this rank was done'),
    );
  }
}
