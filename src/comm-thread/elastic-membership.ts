import { GradringError, isLoss } from '../errors';
import { LONGEST_DELAY_MS, wakingNow } from '../waking-time';
import { askWaiting, type MemberPlace, sayLeave } from '../rendezvous/coordinator-line';
import { type ElasticJoin, STAY } from '../rendezvous/rendezvous-options';
import { securityOf } from '../rendezvous/run-security';
import { type FormedRing, formRing } from './form-ring';
import { Membership, positionIn } from './membership';
import type { CommandName, Request, RingCommand, RingPosition } from './thread-protocol';

/** A late rank has at least this long to join the next ring. */
const LEAST_PATIENCE_MS = 2_000;

/** Commands that also work between two rings. */
const NEED_NO_RING: readonly CommandName[] = ['openExchange', 'concludeExchange', 'closeExchange', 'close'];

/**
 * The successive rings of an elastic run. If a rank is lost, this rank comes to the coordinator again by itself, even
 * if the main thread is computing. It continues in the ring of the remaining ranks.
 */
export class ElasticMembership extends Membership {
  /** This rank's position in the current ring. */
  private position: RingPosition | undefined;
  private forming: Promise<void> = Promise.resolve();
  /** Why no other ring will form. */
  private failure: GradringError | undefined;
  private hasFormed = false;
  private isLeaving = false;
  private running: Promise<unknown> | undefined;
  private unansweredCount = 0;
  private awaitingRequest: (() => void) | undefined;
  private launcher: MemberPlace | undefined;

  /** A newcomer has no position in any ring yet: it joins when the others let it in. */
  async join(): Promise<RingPosition> {
    const { elastic, rank, worldSize } = this.options;
    return elastic === 'newcomer' ? { rank, worldSize, ranksHere: worldSize, generation: -1 } : this.rejoin(STAY, -1);
  }

  override onRequest(): void {
    this.unansweredCount++;
    this.awaitingRequest?.();
  }

  async carryOut({ name, input, generation }: Request): Promise<unknown> {
    try {
      if (name === 'rejoin') return await this.rejoin(input as ElasticJoin, generation);
      if (name === 'askWaiting') return await askWaiting(this.placeAtLauncher());
      if (!NEED_NO_RING.includes(name)) this.requireRing(generation);
      if (name === 'close') await this.leave();
      this.running = this.runner.run(name satisfies RingCommand, input as never);
      return await this.running;
    } finally {
      this.running = undefined;
      this.unansweredCount--;
    }
  }

  /**
   * @throws GradringError `ERR_PEER_LOST` if a collective was meant for an earlier ring than the current one; what the
   *   run has failed with, if there is no other ring.
   */
  private requireRing(generation: number): void {
    if (this.position?.generation === generation) return; // if that ring has failed, the call says so
    throw this.failure ?? new GradringError('ERR_PEER_LOST', 'The ring has lost a rank, and forms again.');
  }

  /**
   * Waits for the next ring.
   *
   * @param generation The generation of the ring that the main thread knows of.
   */
  private async rejoin(join: ElasticJoin, generation: number): Promise<RingPosition> {
    for (let formed: Promise<void> | undefined; formed !== this.forming;) await (formed = this.forming);
    // A newer ring has formed, which the main thread does not know yet. This rank stays in it: the others are there,
    // too, and will compare their steps.
    const isAnother = this.hasFormed && this.position?.generation !== generation;
    const leaves = join.newcomer || join.admits || !this.hasFormed;
    if (this.failure === undefined && leaves && !isAnother) await this.begin(join);
    if (this.failure !== undefined) throw this.failure;
    return this.position!;
  }

  /** Leaves for good. Tells the coordinator, so that the others do not wait for this member. */
  private async leave(): Promise<void> {
    this.isLeaving = true;
    await sayLeave(this.placeAtLauncher()).catch(() => undefined);
  }

  private onFailure(error: GradringError): void {
    if (this.isLeaving) return;
    if (!isLoss(error)) {
      this.failure = error;
      return;
    }
    // After a timeout, the others perhaps waited for this rank's main thread. It must first show that it is alive.
    const isSuspect = error.code === 'ERR_TIMEOUT' && this.running === undefined;
    void this.begin(STAY, isSuspect ? this.nextRequest() : undefined);
  }

  /** @param sign Settles when the main thread has shown that it is alive. Until then this rank joins no ring. */
  private begin(join: ElasticJoin, sign?: Promise<void>): Promise<void> {
    this.position = undefined;
    void this.transport.close(); // while the next ring forms, because no rank waits for its goodbyes
    this.forming = this.form(join, sign).catch((error: unknown) => {
      this.failure = error as GradringError;
    });
    return this.forming;
  }

  private async form(join: ElasticJoin, sign: Promise<void> | undefined): Promise<void> {
    await this.running?.catch(() => undefined); // a collective of a ring that has failed ends at once
    await sign;
    const { connectTimeoutMs, heartbeatTimeoutMs } = this.options;
    const isFirst = !this.hasFormed && !join.newcomer;
    const patienceMs = isFirst
      ? connectTimeoutMs
      : Math.min(LONGEST_DELAY_MS, Math.max(LEAST_PATIENCE_MS, 2 * heartbeatTimeoutMs));
    const startedAt = wakingNow();
    for (;;) {
      try {
        return this.moveTo(await formRing(this.options, this.observer, { ...join, patienceMs }));
      } catch (error) {
        if (!isLoss(error) && (isFirst || !isLate(error))) throw error;
        // If links break each time that the first ring forms, no rank is lost: something is wrong with the network.
        if (isFirst && wakingNow() - startedAt > connectTimeoutMs) throw error;
      }
    }
  }

  private moveTo({ transport, generation, failed }: FormedRing): void {
    this.transport = transport;
    this.position = positionIn(transport, generation);
    this.hasFormed = true;
    this.runner.moveTo(transport);
    void failed.then(error => {
      const isLeft = this.position === undefined || this.transport !== transport;
      if (!isLeft) this.onFailure(error);
    });
  }

  /** Settles when the main thread requests something, or already has. */
  private nextRequest(): Promise<void> {
    if (this.unansweredCount > 0) return Promise.resolve();
    return new Promise(resolve => (this.awaitingRequest = resolve));
  }

  private placeAtLauncher(): MemberPlace {
    if (this.launcher === undefined) {
      const { rank, masterAddr, masterPort } = this.options;
      const security = securityOf(this.options);
      security?.gate.close(); // no peer connects to this rank here
      this.launcher = { rank, masterAddr, masterPort, security };
    }
    return this.launcher;
  }
}

/** Whether a rank came to the rendezvous, but then hung. The next attempt shows which one. */
function isLate(error: unknown): boolean {
  return error instanceof GradringError && error.code === 'ERR_RENDEZVOUS_TIMEOUT';
}
