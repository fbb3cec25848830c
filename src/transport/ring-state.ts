import { setTimeout as sleep } from 'node:timers/promises';
import { deserializeError, GradringError, type SerializedError, serializeError } from '../errors';
import type { Observer } from '../observer';
import { decodeHeader, encodeHeader, FrameKind, type Header, protocolError } from '../wire/frame';
import { FailureAgreement } from './control/failure-agreement';
import { Farewell } from './control/farewell';
import type { Link } from './control/link';
import type { AssembledFrame } from './data/frame-assembly';
import { deferred } from './deferred';
import type { Pacer } from './pacing';
import { stateOfProcess } from './process-state';
import { leftBefore, neighbourOf, opposite, peerLost, type RingPlace, type Side } from './ring-place';
import { type DataFrame, frameArguments } from './transport';

/**
 * After a link breaks, this rank reads for this long what the neighbour had still sent. If the neighbour has failed,
 * its abort tells the first cause, which must win over "the neighbour is gone". If it forwarded what another rank has
 * found, the ranks choose from that, too.
 */
export const LAST_MESSAGES_MS = 250;

/**
 * What the parts of a rank's ring have in common: its place and its links, what was counted, which neighbours have
 * left, and what the ring has failed with. The first failure, here or on another rank, ends the ring for good.
 */
export class RingState {
  /** What calls throw: set when the ranks have agreed on it, or when this one has left. */
  failure: GradringError | undefined;
  /** Sides from which a goodbye came. By side, because in a ring of two both neighbours are one rank over two links. */
  readonly departed = new Set<Side>();
  /** The ids of the neighbours' processes, when they have greeted. */
  readonly pids: Partial<Record<Side, number>> = {};
  readonly farewell = new Farewell();
  private readonly agreement: FailureAgreement;
  /** Resolved with {@link failure}. */
  private readonly ended = deferred<GradringError>();

  /** @param onEnd Called once, with the error that ended the ring, unless this rank had left. */
  constructor(
    readonly place: RingPlace,
    readonly ends: Readonly<Record<Side, Link>>,
    private readonly onEnd: (error: GradringError) => void,
    readonly observer: Observer,
    /** Limits what this rank sends. Undefined: nothing does. */
    readonly pacer: Pacer | undefined,
  ) {
    this.agreement = new FailureAgreement({
      rank: place.rank,
      neighbourOf: (rank, side) => neighbourOf(place, rank, side),
      tell: (side, origin, error) => this.sendLastMessage(side, { kind: FrameKind.Abort, origin, error }),
      giveUpIfSilent: side => this.giveUpIfSilent(side),
      missing: side => serializeError(this.lossOf(side), 'ERR_PEER_LOST'),
      onAgreed: error => this.end(error),
    });
  }

  /** Whether the ring has failed. The ranks may still have to agree on the {@link failure}. */
  get failed(): boolean {
    return this.failure !== undefined || this.agreement.begun;
  }

  /** Settles with what the ring fails with, if it has failed. */
  get failing(): Promise<GradringError> | undefined {
    return this.failed ? this.ended.promise : undefined;
  }

  /** Whether the ranks are agreeing on a failure, or have agreed. */
  get isAgreeing(): boolean {
    return this.agreement.begun;
  }

  encode(header: Header): Uint8Array {
    return encodeHeader(this.place, header);
  }

  /**
   * To be awaited before a frame is sent: for the pace of the links, if they have one. Counts the frame as sent.
   *
   * @param bytes The length of the frame.
   * @throws what the ring has failed with, if it has. It fails if the neighbour on that side has left.
   */
  async admit(side: Side, bytes: number): Promise<void> {
    if (this.pacer !== undefined) await this.pacer.send(bytes);
    this.requireNeighbour(side);
    if (this.failing !== undefined) throw await this.failing;
    this.observer.count('bytesSent', bytes);
  }

  /** Decodes a frame that has arrived by the lane on that side, and counts it as received. */
  acceptFromLane(side: Side, frame: AssembledFrame): DataFrame {
    const cameAt = this.observer.startOf('receive');
    const header = decodeHeader(this.place, frame.headerBytes);
    if (header.kind !== FrameKind.Data) throw protocolError('came beside the link, but is no data');
    this.observer.count('bytesReceived', frame.headerBytes.length + frame.bytes);
    const accepted = { ...frame, header };
    if (cameAt !== undefined) this.tellReceived(side, accepted, cameAt);
    return accepted;
  }

  tellReceived(side: Side, frame: DataFrame, cameAt: number): void {
    this.observer.ended('receive', cameAt, frameArguments(frame, opposite(side)));
  }

  /** Ends the ring. Settles with the error that all ranks raise, which may be that of another one. */
  fail(error: GradringError): Promise<GradringError> {
    if (!this.failed) {
      this.ends.right.interrupt(error); // or the abort would wait behind a frame that waits for room
      this.agreement.find(serializeError(error, 'ERR_COMM_THREAD'));
    }
    return this.ended.promise;
  }

  /** Another rank has found something wrong. */
  hearAbort(side: Side, origin: number, error: SerializedError): void {
    if (!this.failed) this.ends.right.interrupt(deserializeError(error));
    this.acknowledgeLastMessage(side);
    if (this.agreement.begun || !this.failed) this.agreement.hear(side, origin, error);
  }

  /** This rank leaves. Calls throw that from now on. */
  leave(error: GradringError): void {
    this.failure = error;
    this.ended.resolve(error);
  }

  /** A neighbour is needed. If it has left, the ring fails. */
  requireNeighbour(side: Side): void {
    if (!this.departed.has(side)) return;
    void this.fail(peerLost(this.place, side, leftBefore('this rank')));
  }

  /** The neighbour on that side has left in order. */
  depart(side: Side): void {
    this.departed.add(side);
    this.agreement.lose(side);
  }

  /** A link sends no more. Waits before the ring fails: the neighbour's own last message may tell the cause. */
  async failUnsent(side: Side): Promise<GradringError> {
    if (!this.failed) await sleep(LAST_MESSAGES_MS);
    return this.fail(this.lossOf(side));
  }

  /** The link or the lane to a neighbour is broken. If only the lane is, the link still carries messages. */
  lose(side: Side, broken: 'link' | 'lane'): void {
    setTimeout(() => {
      if (this.departed.has(side)) return;
      if (broken === 'link') this.agreement.lose(side);
      void this.fail(this.lossOf(side));
    }, LAST_MESSAGES_MS);
  }

  /**
   * What came from the neighbour on that side breaks the protocol.
   *
   * @param rank The rank that made it, if the neighbour may have forwarded it.
   */
  failBroken(side: Side, error: Error, rank = neighbourOf(this.place, this.place.rank, side)): void {
    const words = `Rank ${rank} (${this.place.addresses[rank]}) broke the protocol: ${error.message}`;
    void this.fail(new GradringError('ERR_PROTOCOL', words, { rank }, { cause: error }));
  }

  /** Sends what is no part of a collective, if that can be done. */
  async tell(side: Side, header: Header): Promise<void> {
    await this.ends[side].send([this.encode(header)]).catch(() => undefined);
  }

  /** Sends a last message, which the neighbour acknowledges. */
  sendLastMessage(side: Side, header: Header): void {
    this.farewell.sent(side);
    this.ends[side].send([this.encode(header)]).catch(() => this.farewell.lost(side));
  }

  /**
   * The neighbour on that side has sent its last message. To be called after an interruption, which would drop the
   * acknowledgement.
   */
  acknowledgeLastMessage(side: Side): void {
    this.farewell.received(side);
    void this.tell(side, { kind: FrameKind.Seen, origin: this.place.rank });
  }

  /** The ranks have agreed on what all of them raise. */
  private end(error: GradringError): void {
    if (this.failure !== undefined) return; // it has left
    this.failure = error;
    this.onEnd(error);
    this.ended.resolve(error);
  }

  private giveUpIfSilent(side: Side): boolean {
    const isSilent = this.ends[side].silentMs !== undefined;
    if (isSilent) this.farewell.lost(side);
    return isSilent;
  }

  /** The error for a neighbour that cannot be reached: it is gone, or silent. */
  private lossOf(side: Side): GradringError {
    return peerLost(this.place, side, this.howLost(side));
  }

  private howLost(side: Side): string {
    const { silentMs, options } = this.ends[side];
    const pid = this.place.isHere[side] ? this.pids[side] : undefined;
    const state = pid === undefined ? undefined : stateOfProcess(pid);
    if (state === 'ended') return `is gone: its process (pid ${pid}) has ended`;
    if (silentMs === undefined) {
      return state === undefined
        ? 'is gone: its process ended, or the connection broke'
        : `is gone: it closed the connection, though its process (pid ${pid}) still exists`;
    }
    const silence = `has been silent for ${Math.round(silentMs)} ms; the limit is ${options.heartbeatTimeoutMs} ms (heartbeatTimeoutMs)`;
    if (state === undefined) return `${silence}. Whether its process still exists cannot be seen from this host`;
    return `${silence}. Its process (pid ${pid}) still exists${state === 'stopped' ? ', but is stopped' : ''}`;
  }
}
