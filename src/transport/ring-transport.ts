import { setTimeout as sleep } from 'node:timers/promises';
import { deserializeError, GradringError, serializeError } from '../errors';
import type { Timeline } from '../timeline/timeline';
import { type DataHeader, decodeHeader, encodeHeader, FrameKind, type Header, protocolError } from '../wire/frame';
import { FailureAgreement } from './control/failure-agreement';
import { Farewell } from './control/farewell';
import type { Link, Message } from './control/link';
import { LinkPath } from './control/link-path';
import { RollCall } from './control/roll-call';
import { type AssembledFrame, LARGEST_HEADER } from './data/frame-assembly';
import type { Lane } from './data/lane';
import { LanePath } from './data/lane-path';
import { TcpLane } from './data/tcp-lane';
import { deferred } from './deferred';
import { PacedPath, type Pacer } from './pacing';
import { stateOfProcess } from './process-state';
import { neighbourOf, peerLost, type RingPlace } from './ring-place';
import { opposite, type Side, SIDES } from './side';
import {
  type DataFrame,
  type DataPath,
  frameArguments,
  type RankState,
  type TrafficCount,
  type Transport,
} from './transport';

/**
 * After a link breaks, this rank reads for this long what the neighbour had still sent. If the neighbour has failed,
 * its abort tells the first cause, which must win over "the neighbour is gone". If it forwarded what another rank has
 * found, the ranks choose from that, too.
 */
const LAST_MESSAGES_MS = 250;

/** How long a rank that leaves in order waits for its neighbours to take what was sent. */
const FAREWELL_MS = 60_000;

/** How long the ends of a lane have to open it. A firewall may drop what is sent to its port. */
const LANES_MS = 3_000;

/**
 * A rank's part of the ring: its two links, and the lanes beside them. Frames go either way. The first failure, here or
 * on another rank, ends the ring for good: every call that waits, and every later one, throws what the ranks agree on.
 */
export class RingTransport implements Transport {
  readonly links: DataPath;
  private bulkPath: DataPath | undefined;
  private readonly linkPath: LinkPath;
  private lanePath: LanePath | undefined;
  /** What calls throw: set when the ranks have agreed on it, or when this one has left. */
  failure: GradringError | undefined;
  private readonly agreement: FailureAgreement;
  /** Resolved with {@link failure}. */
  private readonly ended = deferred<GradringError>();
  private readonly rollCall: RollCall;
  /** Sides from which a goodbye came. By side, because in a ring of two both neighbours are one rank over two links. */
  private readonly departed = new Set<Side>();
  /** The ids of the neighbours' processes, when they have greeted. */
  private readonly pids: Partial<Record<Side, number>> = {};
  private readonly greeted = { left: deferred(), right: deferred() };
  private readonly farewell = new Farewell();
  /** How many aborts and goodbyes have come. */
  private readonly lastMessages = { left: 0, right: 0 };
  // Arrays, as those hold floats from the first. At 2³¹ a property would become one, and all compiled code that knows
  // this class would be thrown away.
  private readonly bytesSent = new Float64Array(1);
  private readonly bytesReceived = new Float64Array(1);

  /**
   * @param lanes Those that this end can open by itself. A lane whose other end listens is added when that end greets.
   * @param onFailure Called once, with the error that ended the ring.
   * @param pacer Limits what this rank sends. Undefined: nothing does.
   */
  constructor(
    private readonly place: RingPlace,
    private readonly ends: Readonly<Record<Side, Link>>,
    private readonly lanes: Record<Side, Lane | undefined>,
    private readonly onFailure: (error: GradringError) => void,
    readonly timeline?: Timeline,
    private readonly pacer?: Pacer,
  ) {
    this.agreement = new FailureAgreement({
      rank: place.rank,
      neighbourOf: (rank, side) => neighbourOf(place, rank, side),
      tell: (side, origin, error) => this.sendLastMessage(side, { kind: FrameKind.Abort, origin, error }),
      giveUpIfSilent: side => this.giveUpIfSilent(side),
      missing: side => serializeError(this.lossOf(side), 'ERR_PEER_LOST'),
      onAgreed: error => this.end(error),
    });
    this.linkPath = new LinkPath(ends, {
      failing: () => this.failing,
      encode: (header, bodyBytes) => this.encodeCounted(header, bodyBytes),
      count: frame => this.countSent(frame.headerBytes.length + frame.bytes),
      requireNeighbour: side => this.requireNeighbour(side),
      onLost: side => this.failUnsent(side),
    });
    this.links = this.paced(this.linkPath);
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

  get paceNs(): number {
    return this.pacer?.byteNs ?? 0;
  }

  get bulk(): DataPath {
    return this.bulkPath ?? this.links;
  }

  get traffic(): TrafficCount {
    return { bytesSent: this.bytesSent[0]!, bytesReceived: this.bytesReceived[0]! };
  }

  /** Settles with what the ring fails with, if it has failed. The ranks may still have to agree on it. */
  private get failing(): Promise<GradringError> | undefined {
    return this.failed ? this.ended.promise : undefined;
  }

  get failed(): boolean {
    return this.failure !== undefined || this.agreement.begun;
  }

  /** Greets both neighbours and awaits their greetings. */
  async open(): Promise<void> {
    const greet = async (side: Side) => {
      const offer = this.lanes[side]?.offer;
      const hello = this.encode({ kind: FrameKind.Hello, origin: this.rank, pid: process.pid, offer });
      await this.ends[side].send([hello]).catch(async () => Promise.reject(await this.failUnsent(side)));
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
  async openLanes(longestMs = LANES_MS): Promise<boolean> {
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
    this.lanePath = new LanePath(
      { left, right },
      {
        hasCore: this.place.hasCore,
        failing: () => this.failing,
        encode: (header, bodyBytes) => this.encodeCounted(header, bodyBytes),
        count: frame => this.countSent(frame.headerBytes.length + frame.bytes),
        accept: (side, frame) => this.acceptFromLane(side, frame),
        stray: (side, sequence) => this.linkPath.takeUpTo(side, sequence),
        requireNeighbour: side => this.requireNeighbour(side),
        onBroken: (side, error) => this.failBroken(side, error),
        onLost: side => this.lose(side, 'lane'),
      },
    );
    this.bulkPath = this.paced(this.lanePath);
    if (this.failure !== undefined) this.lanePath.fail(this.failure);
  }

  fail(error: GradringError): Promise<GradringError> {
    if (!this.failed) {
      this.ends.right.interrupt(error); // or the abort would wait behind a frame that waits for room
      this.agreement.find(serializeError(error, 'ERR_COMM_THREAD'));
    }
    return this.ended.promise;
  }

  async check({ whole }: { readonly whole: boolean }): Promise<void> {
    const [side] = this.departed;
    if (whole && side !== undefined && !this.failed) this.requireNeighbour(side);
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
    let timeoutMs = 2 * LAST_MESSAGES_MS;
    this.rollCall.close();
    if (this.agreement.begun) await this.ended.promise;
    if (this.failure === undefined) {
      const error = new GradringError('ERR_CLOSED', 'The communicator was closed.');
      this.failure = error;
      this.ended.resolve(error);
      this.failPaths(error);
      for (const side of SIDES) {
        this.farewell.received(side); // a neighbour that stays sends no last message
        this.lanes[side]?.finish();
        if (!this.departed.has(side)) this.sendLastMessage(side, { kind: FrameKind.Goodbye, origin: this.rank });
      }
      timeoutMs = FAREWELL_MS;
    }
    // A connection that is closed with unread bytes is reset, and what was last sent on it may be lost. So this end
    // stays open, and is read, until the neighbours have acknowledged all.
    const isOver = await Promise.race([this.farewell.over().then(() => true), sleep(timeoutMs, false, { ref: false })]);
    // If that is over, nothing is left to deliver. A socket that lingers would not be read any more, and its queue
    // would be full (see receiveHighWaterMark).
    await this.drop(isOver ? 0 : undefined);
  }

  /** Closes the links and lanes, without a goodbye. */
  async drop(lingerMs?: number): Promise<void> {
    await Promise.all([this.ends.left.close(lingerMs), this.ends.right.close(lingerMs)]);
    this.closeLanes();
  }

  private closeLanes(): void {
    for (const side of SIDES) this.lanes[side]?.close();
  }

  private paced(path: DataPath): DataPath {
    if (this.pacer === undefined) return path;
    return new PacedPath(path, this.pacer, (header, bodyBytes) => this.encode(header).length + bodyBytes);
  }

  private encode(header: Header): Uint8Array {
    return encodeHeader(this.place, header);
  }

  private encodeCounted(header: DataHeader, bodyBytes: number): Uint8Array {
    const bytes = this.encode(header);
    this.countSent(bytes.length + bodyBytes);
    return bytes;
  }

  private countSent(bytes: number): void {
    this.bytesSent[0]! += bytes;
  }

  /** The ranks have agreed on what all of them raise. */
  private end(error: GradringError): void {
    if (this.failure !== undefined) return; // it has left
    this.failure = error;
    this.rollCall.close();
    this.failPaths(error);
    this.ended.resolve(error);
    for (const side of SIDES) this.greeted[side].reject(error);
    this.onFailure(error);
  }

  private failPaths(error: GradringError): void {
    this.pacer?.stop(); // the calls that it holds up must fail, too
    this.linkPath.fail(error);
    this.lanePath?.fail(error);
  }

  /** Sends what is no part of a collective, if that can be done. */
  private async tell(side: Side, header: Header): Promise<void> {
    await this.ends[side].send([this.encode(header)]).catch(() => undefined);
  }

  /** Sends a last message, which the neighbour acknowledges. */
  private sendLastMessage(side: Side, header: Header): void {
    this.farewell.sent(side);
    this.ends[side].send([this.encode(header)]).catch(() => this.farewell.lost(side));
  }

  /**
   * The neighbour on that side has sent its last message. To be called after an interruption, which would drop the
   * acknowledgement.
   */
  private acknowledgeLastMessage(side: Side): void {
    this.farewell.received(side);
    void this.tell(side, { kind: FrameKind.Seen, origin: this.rank });
  }

  private start(side: Side): void {
    this.ends[side].start({
      onMessage: message => this.onMessage(side, message),
      onLost: () => {
        this.farewell.lost(side);
        this.lose(side, 'link');
      },
    });
  }

  /** A link sends no more. Waits before the ring fails: the neighbour's own last message may tell the cause. */
  private async failUnsent(side: Side): Promise<GradringError> {
    if (!this.failed) await sleep(LAST_MESSAGES_MS);
    return this.fail(this.lossOf(side));
  }

  /** The link or the lane to a neighbour is broken. If only the lane is, the link still carries messages. */
  private lose(side: Side, broken: 'link' | 'lane'): void {
    setTimeout(() => {
      if (this.departed.has(side)) return;
      if (broken === 'link') this.agreement.lose(side);
      void this.fail(this.lossOf(side));
    }, LAST_MESSAGES_MS);
  }

  private giveUpIfSilent(side: Side): boolean {
    const isSilent = this.ends[side].silentMs !== undefined;
    if (isSilent) this.farewell.lost(side);
    return isSilent;
  }

  /** The error for a neighbour that cannot be reached: it is gone, or silent. */
  private lossOf(side: Side): GradringError {
    const { silentMs, options } = this.ends[side];
    const pid = this.place.isHere[side] ? this.pids[side] : undefined;
    const state = pid === undefined ? undefined : stateOfProcess(pid);
    const silence = `has been silent for ${Math.round(silentMs ?? 0)} ms; the limit is ${options.heartbeatTimeoutMs} ms (heartbeatTimeoutMs)`;
    const how = (): string => {
      if (state === 'ended') return `is gone: its process (pid ${pid}) has ended`;
      if (silentMs === undefined && state === undefined) return 'is gone: its process ended, or the connection broke';
      if (silentMs === undefined)
        return `is gone: it closed the connection, though its process (pid ${pid}) still exists`;
      if (state === undefined) return `${silence}. Whether its process still exists cannot be seen from this host`;
      return `${silence}. Its process (pid ${pid}) still exists${state === 'stopped' ? ', but is stopped' : ''}`;
    };
    return peerLost(this.place, side, how());
  }

  private async onMessage(side: Side, message: Message): Promise<void> {
    if (message.length === 1 && message[0]!.length === 0) return; // a sign of life of the link itself
    for (const part of message) this.bytesReceived[0]! += part.length;
    try {
      this.take(side, message);
    } catch (error) {
      this.failBroken(side, error as Error);
    }
    await this.linkPath.untilRoom(side);
  }

  private take(side: Side, message: Message): void {
    const cameAt = this.timeline?.now();
    const headerBytes = message[0]!;
    const header = decodeHeader(this.place, headerBytes);
    if (message.length > 2) throw protocolError(`comes in ${message.length} parts`);
    switch (header.kind) {
      case FrameKind.Hello:
        if (header.origin !== neighbourOf(this.place, this.rank, side))
          throw protocolError(`greets as rank ${header.origin}`);
        if (header.offer !== undefined)
          this.lanes[side] ??= TcpLane.connect(header.offer, this.ends[side].medium === 'tcp-encrypted');
        this.pids[side] = header.pid;
        this.greeted[side].resolve();
        return;
      case FrameKind.Goodbye:
        this.countLastMessage(side);
        void this.hearGoodbye(side);
        return;
      case FrameKind.Seen:
        this.farewell.acknowledged(side);
        return;
      case FrameKind.Abort:
        this.countLastMessage(side);
        if (!this.failed) this.ends.right.interrupt(deserializeError(header.error));
        this.acknowledgeLastMessage(side);
        if (this.agreement.begun || !this.failed) this.agreement.hear(side, header.origin, header.error);
        return;
      case FrameKind.Status:
        if (!this.failed) this.rollCall.hear(side, header);
        return;
      case FrameKind.Data: {
        if (message.length < 2) throw protocolError('has no body');
        if (headerBytes.length > LARGEST_HEADER) throw protocolError('has too long a header');
        const body = message[1]!;
        const frame = { header, headerBytes, body, bytes: body.length, hasLanded: false };
        if (!this.lanePath?.takeStray(side, frame)) this.linkPath.put(side, frame);
        this.timeline?.span('receive', cameAt!, frameArguments(frame, opposite(side)));
      }
    }
  }

  /** A neighbour forwards what each rank has found, and says goodbye. More would fill the queue with answers. */
  private countLastMessage(side: Side): void {
    this.lastMessages[side] += 1;
    if (this.lastMessages[side] > this.worldSize + 1) throw protocolError('is one abort too many');
  }

  private acceptFromLane(side: Side, { header: headerBytes, body, bytes, hasLanded }: AssembledFrame): DataFrame {
    const cameAt = this.timeline?.now();
    const header = decodeHeader(this.place, headerBytes);
    if (header.kind !== FrameKind.Data) throw protocolError('came beside the link, but is no data');
    this.bytesReceived[0]! += headerBytes.length + bytes;
    const frame = { header, headerBytes, body, bytes, hasLanded };
    this.timeline?.span('receive', cameAt!, frameArguments(frame, opposite(side)));
    return frame;
  }

  private async hearGoodbye(side: Side): Promise<void> {
    if (this.lanePath !== undefined) {
      const lane = this.lanes[side]!;
      await lane.otherFinished();
      // The event loop may tell that bytes are sent later than the neighbour tells that it has read them and leaves.
      await Promise.race([lane.sent(), sleep(LAST_MESSAGES_MS, undefined, { ref: false })]);
    }
    if (this.departed.has(side)) return;
    this.departed.add(side);
    this.agreement.lose(side);
    if (this.linkPath.isAwaited(side) || this.lanePath?.isAwaited(side)) this.requireNeighbour(side);
    this.acknowledgeLastMessage(side);
  }

  /** A neighbour is needed. If it has left, the ring fails. */
  private requireNeighbour(side: Side): void {
    if (!this.departed.has(side)) return;
    const how = 'has left the ring: its program ended, or closed it, before this rank was done';
    void this.fail(peerLost(this.place, side, how));
  }

  /** What came from the neighbour on that side breaks the protocol. */
  private failBroken(side: Side, error: Error): void {
    const rank = neighbourOf(this.place, this.rank, side);
    const words = `Rank ${rank} (${this.place.addresses[rank]}) broke the protocol: ${error.message}`;
    void this.fail(new GradringError('ERR_PROTOCOL', words, { rank }, { cause: error }));
  }
}
