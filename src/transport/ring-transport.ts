import { setTimeout as sleep } from 'node:timers/promises';
import { closedError, type GradringError } from '../errors';
import { Observer } from '../observer';
import { decodeHeader, FrameKind, protocolError } from '../wire/frame';
import type { Link, Message } from './control/link';
import { LinkPath } from './control/link-path';
import { Mailbox } from './control/mailbox';
import { RollCall } from './control/roll-call';
import { LARGEST_HEADER } from './data/frame-assembly';
import type { Lane } from './data/lane';
import { LanePath } from './data/lane-path';
import { TcpLane } from './data/tcp-lane';
import { deferred } from './deferred';
import type { LinkDelay } from './delay/link-delay';
import type { Pacer } from './pacing';
import { type HostRun, neighbourOf, type RingPlace, type Side, SIDES } from './ring-place';
import { LAST_MESSAGES_MS, RingState } from './ring-state';
import type { DataPath, Transport } from './transport';

/** How long a rank that leaves in order waits for its neighbours to take what was sent. */
const FAREWELL_MS = 60_000;

/** How long the ends of a lane have to open it. A firewall may drop what is sent to its port. */
const LANES_MS = 3_000;

/**
 * A rank's part of the ring: its two links, and the lanes beside them. Frames go either way. The first failure, here or
 * on another rank, ends the ring for good: every call that waits, and every later one, throws what the ranks agree on.
 */
export class RingTransport implements Transport {
  readonly rank: number;
  readonly worldSize: number;
  readonly isLocal: boolean;
  readonly hostRuns: readonly HostRun[];
  readonly ranksHere: number;
  readonly paceNs: number;
  readonly messenger: Mailbox;
  private readonly linkPath: LinkPath;
  private lanePath: LanePath | undefined;
  private readonly state: RingState;
  readonly rollCall: RollCall;
  private readonly greeted = { left: deferred(), right: deferred() };
  /** How many aborts and goodbyes have come. */
  private readonly lastMessages = { left: 0, right: 0 };

  /**
   * @param lanes Those that this end can open by itself. A lane whose other end listens is added when that end greets.
   * @param onFailure Called once, with the error that ended the ring.
   * @param slowness Limits what this rank sends, and delays what it sends and receives. Undefined: nothing does.
   */
  constructor(
    private readonly place: RingPlace,
    private readonly ends: Readonly<Record<Side, Link>>,
    private readonly lanes: Record<Side, Lane | undefined>,
    private readonly onFailure: (error: GradringError) => void,
    readonly observer = new Observer(),
    private readonly slowness: { readonly pacer?: Pacer | undefined; readonly delay?: LinkDelay | undefined } = {},
  ) {
    this.rank = place.rank;
    this.worldSize = place.worldSize;
    this.isLocal = place.isLocal;
    this.hostRuns = place.hostRuns;
    this.ranksHere = place.ranksHere;
    this.paceNs = slowness.pacer?.byteNs ?? 0;
    this.state = new RingState(place, ends, error => this.end(error), observer, slowness.pacer);
    this.linkPath = new LinkPath(this.state);
    this.messenger = new Mailbox(this.state);
    this.rollCall = new RollCall(place, (side, status) => this.state.tell(side, status));
  }

  get links(): DataPath {
    return this.linkPath;
  }

  get bulk(): DataPath {
    return this.lanePath ?? this.linkPath;
  }

  get failure(): GradringError | undefined {
    return this.state.failure;
  }

  get failed(): boolean {
    return this.state.failed;
  }

  /** Greets both neighbours and awaits their greetings. */
  async open(): Promise<void> {
    const greet = async (side: Side) => {
      const offer = this.lanes[side]?.offer;
      const hello = this.state.encode({ kind: FrameKind.Hello, origin: this.rank, pid: process.pid, offer });
      await this.ends[side].send([hello]).catch(async () => Promise.reject(await this.state.failUnsent(side)));
    };
    for (const side of SIDES) this.start(side);
    await greet('right');
    await this.greeted.left.promise;
    // Only now is the left neighbour known to be connected. Before that, this end of the link cannot send.
    await greet('left');
    await this.greeted.right.promise;
  }

  /**
   * Awaits both lanes of this rank. Returns whether both are open. To be called after {@link open}.
   *
   * @param longestMs How long this may take, if that is less than usual.
   */
  async openLanes(longestMs: number): Promise<boolean> {
    const { left, right } = this.lanes;
    if (left === undefined || right === undefined) return false;
    const bothOpen = Promise.all([left.opened(), right.opened()]).then(
      () => true,
      () => false,
    );
    return Promise.race([bothOpen, sleep(Math.min(LANES_MS, longestMs), false, { ref: false })]);
  }

  /**
   * Settles for the life of the ring how bulk travels. All ranks must say the same.
   *
   * @param areOpen Whether all lanes of all ranks are open.
   */
  settleBulk(areOpen: boolean): void {
    const { left, right } = this.lanes;
    if (!areOpen || left === undefined || right === undefined) return this.closeLanes();
    this.lanePath = new LanePath({ left, right }, this.state, this.linkPath);
    if (this.failure !== undefined) this.lanePath.fail(this.failure);
  }

  fail(error: GradringError): Promise<GradringError> {
    return this.state.fail(error);
  }

  async check({ whole }: { readonly whole: boolean }): Promise<void> {
    const { state } = this;
    const [side] = state.departed;
    if (whole && side !== undefined) state.requireNeighbour(side);
    if (state.failing !== undefined) throw await state.failing;
  }

  async close(): Promise<void> {
    const { state } = this;
    let timeoutMs = 2 * LAST_MESSAGES_MS;
    this.rollCall.close();
    if (state.isAgreeing) await state.failing;
    // Parts of messages between other ranks go before the goodbye.
    await Promise.race([this.messenger.sent(), sleep(FAREWELL_MS, undefined, { ref: false })]);
    if (state.failure === undefined) {
      const error = closedError();
      state.leave(error);
      this.failPaths(error);
      for (const side of SIDES) {
        state.farewell.received(side); // a neighbour that stays sends no last message
        this.lanes[side]?.finish();
        if (!state.departed.has(side)) state.sendLastMessage(side, { kind: FrameKind.Goodbye, origin: this.rank });
      }
      timeoutMs = FAREWELL_MS;
    }
    // A connection that is closed with unread bytes is reset, and what was last sent on it may be lost. So this end
    // stays open, and is read, until the neighbours have acknowledged all.
    const isOver = await Promise.race([
      state.farewell.over().then(() => true),
      sleep(timeoutMs, false, { ref: false }),
    ]);
    // If that is over, nothing is left to deliver. A socket that lingers would not be read any more, and its queue
    // would be full (see receiveHighWaterMark).
    await this.drop(isOver ? 0 : undefined);
  }

  /** Closes the links and lanes, without a goodbye. */
  async drop(lingerMs?: number): Promise<void> {
    await Promise.all([this.ends.left.close(lingerMs), this.ends.right.close(lingerMs)]);
    this.closeLanes();
    await this.slowness.delay?.close();
  }

  private closeLanes(): void {
    for (const side of SIDES) this.lanes[side]?.close();
  }

  /** The ranks have agreed on what all of them raise. */
  private end(error: GradringError): void {
    this.rollCall.close();
    this.failPaths(error);
    for (const side of SIDES) this.greeted[side].reject(error);
    this.onFailure(error);
  }

  private failPaths(error: GradringError): void {
    this.slowness.pacer?.stop(); // the calls that it holds up must fail, too
    this.linkPath.fail(error);
    this.messenger.fail(error);
    this.lanePath?.fail(error);
  }

  private start(side: Side): void {
    this.ends[side].start({
      onMessage: message => this.onMessage(side, message),
      onLost: () => {
        this.state.farewell.lost(side);
        this.state.lose(side, 'link');
      },
    });
  }

  private async onMessage(side: Side, message: Message): Promise<void> {
    if (message.length === 1 && message[0]!.length === 0) return; // a sign of life of the link itself
    for (const part of message) this.observer.count('bytesReceived', part.length);
    try {
      this.take(side, message);
    } catch (error) {
      this.state.failBroken(side, error as Error);
    }
    await this.linkPath.untilRoom(side);
  }

  private take(side: Side, message: Message): void {
    const cameAt = this.observer.startOf('receive');
    const headerBytes = message[0]!;
    const header = decodeHeader(this.place, headerBytes);
    if (message.length > 2) throw protocolError(`comes in ${message.length} parts`);
    switch (header.kind) {
      case FrameKind.Hello:
        if (header.origin !== neighbourOf(this.place, this.rank, side))
          throw protocolError(`greets as rank ${header.origin}`);
        if (header.offer !== undefined)
          this.lanes[side] ??= TcpLane.connect(header.offer, this.ends[side].medium === 'tcp-encrypted');
        this.state.pids[side] = header.pid;
        this.greeted[side].resolve();
        return;
      case FrameKind.Goodbye:
        this.countLastMessage(side);
        void this.hearGoodbye(side);
        return;
      case FrameKind.Seen:
        this.state.farewell.acknowledged(side);
        return;
      case FrameKind.Abort:
        this.countLastMessage(side);
        this.state.hearAbort(side, header.origin, header.error);
        return;
      case FrameKind.Status:
        if (!this.failed) this.rollCall.hear(side, header);
        return;
      case FrameKind.Mail:
        this.messenger.take(side, header, headerBytes, message[1] ?? new Uint8Array(0));
        return;
      case FrameKind.Data: {
        if (message.length < 2) throw protocolError('has no body');
        if (headerBytes.length > LARGEST_HEADER) throw protocolError('has too long a header');
        const body = message[1]!;
        const frame = { header, headerBytes, body, bytes: body.length, hasLanded: false };
        if (!this.lanePath?.takeStray(side, frame)) this.linkPath.put(side, frame);
        if (cameAt !== undefined) this.state.tellReceived(side, frame, cameAt);
      }
    }
  }

  /** A neighbour forwards what each rank has found, and says goodbye. More would fill the queue with answers. */
  private countLastMessage(side: Side): void {
    this.lastMessages[side] += 1;
    if (this.lastMessages[side] > this.worldSize + 1) throw protocolError('is one abort too many');
  }

  private async hearGoodbye(side: Side): Promise<void> {
    if (this.lanePath !== undefined) {
      const lane = this.lanes[side]!;
      await lane.otherFinished();
      // The event loop may tell that bytes are sent later than the neighbour tells that it has read them and leaves.
      await Promise.race([lane.sent(), sleep(LAST_MESSAGES_MS, undefined, { ref: false })]);
    }
    const { state } = this;
    if (state.departed.has(side)) return;
    state.depart(side);
    if (this.linkPath.isAwaited(side) || this.lanePath?.isAwaited(side)) state.requireNeighbour(side);
    state.acknowledgeLastMessage(side);
  }
}
