import { GradringError, isLoss } from '../errors';
import { LONGEST_DELAY_MS } from '../longest-delay';
import { askWaiting, type CoordinatorLine, type ElasticJoin, sayLeave } from '../rendezvous/elastic-rendezvous';
import { securityOf } from '../rendezvous/run-security';
import type { Timeline } from '../timeline/timeline';
import type { TrafficCount, Transport } from '../transport/transport';
import type { ConnectOptions } from '../rendezvous/connect-options';
import { formRing } from './form-ring';
import type { CommandName, Commands, MembershipCommand, RingPlace } from './thread-protocol';

/** What the rest of the comm thread does for an {@link ElasticRing}. */
export interface ElasticHooks {
  /** Whether a collective is under way. */
  isBusy(): boolean;
  /** Settles when none is. Those of a ring that has failed end at once. */
  idle(): Promise<void>;
  /** Settles when the user's thread asks for something, or already has. */
  asked(): Promise<void>;
  moveTo(transport: Transport): void;
  /** To be told when the standing ring has failed. */
  onFailure(error: GradringError): void;
}

const STAY: ElasticJoin = { newcomer: false, admits: false };

/** A late rank is given this long at least to come to the next ring. */
const LEAST_PATIENCE_MS = 2_000;

/**
 * The comm thread's part of an elastic run: when somebody is lost, comes to the coordinator again, by itself, while the
 * user's thread may be computing, and goes on with the ring of those who are left.
 */
export class ElasticRing {
  private transport: Transport | undefined;
  private place: RingPlace | undefined;
  private forming: Promise<void> = Promise.resolve();
  /** Why there will be no other ring. */
  private failure: GradringError | undefined;
  private past: TrafficCount = { bytesSent: 0, bytesReceived: 0 };
  private hasFormed = false;
  private leaving = false;
  private line: CoordinatorLine | undefined;

  constructor(
    private readonly options: ConnectOptions,
    private readonly timeline: Timeline | undefined,
    private readonly hooks: ElasticHooks,
  ) {}

  /** Over all generations. */
  get traffic(): TrafficCount {
    const { bytesSent = 0, bytesReceived = 0 } = this.transport?.traffic ?? {};
    return { bytesSent: this.past.bytesSent + bytesSent, bytesReceived: this.past.bytesReceived + bytesReceived };
  }

  /** Comes to the first ring. */
  async join(): Promise<RingPlace> {
    return this.run('rejoin', STAY) as Promise<RingPlace>;
  }

  /** @throws GradringError `ERR_PEER_LOST` if a collective was meant for an earlier ring than the one that stands. */
  checkGeneration(name: CommandName, generation: number): void {
    if (name === 'openExchange' || name === 'concludeExchange' || name === 'closeExchange' || name === 'close') return;
    if (this.failure !== undefined) throw this.failure;
    if (this.place?.generation === generation) return;
    throw new GradringError('ERR_PEER_LOST', 'The ring has lost a rank, and is formed again.');
  }

  /** @param generation Of the ring that the user's thread knows of. */
  async run<N extends MembershipCommand>(
    name: N,
    input: Commands[N]['input'],
    generation = -1,
  ): Promise<Commands[N]['result']> {
    if (name === 'askWaiting') return (await askWaiting(this.coordinator())) as Commands[N]['result'];
    const join = input as ElasticJoin;
    for (let formed: Promise<void> | undefined; formed !== this.forming;) await (formed = this.forming);
    // A ring that the user's thread does not know yet is not left again: the others are in it, and compare there.
    const isAnother = this.hasFormed && this.place?.generation !== generation;
    const leaves = join.newcomer || join.admits || !this.hasFormed;
    if (this.failure === undefined && leaves && !isAnother) await this.begin(join);
    if (this.failure !== undefined) throw this.failure;
    return this.place as Commands[N]['result'];
  }

  /** Leaves for good: the others shall not wait for this member at the coordinator. */
  async leave(): Promise<void> {
    this.leaving = true;
    await sayLeave(this.coordinator()).catch(() => undefined);
  }

  private onFailure(error: GradringError): void {
    this.hooks.onFailure(error);
    if (this.leaving) return;
    if (isLoss(error)) void this.begin(STAY, error.code === 'ERR_TIMEOUT' && !this.hooks.isBusy());
    else this.failure = error;
  }

  /** @param late This rank's user's thread is what the others waited for in vain: it must show that it lives. */
  private begin(join: ElasticJoin, late = false): Promise<void> {
    this.place = undefined;
    this.forming = this.form(join, late).catch((error: unknown) => {
      this.failure = error as GradringError;
    });
    return this.forming;
  }

  private async form(join: ElasticJoin, late: boolean): Promise<void> {
    this.drop();
    await this.hooks.idle();
    if (late) await this.hooks.asked();
    const { connectTimeoutMs, heartbeatTimeoutMs } = this.options;
    const isFirst = !this.hasFormed && !join.newcomer;
    const patienceMs = isFirst
      ? connectTimeoutMs
      : Math.min(LONGEST_DELAY_MS, Math.max(LEAST_PATIENCE_MS, 2 * heartbeatTimeoutMs));
    const startedAt = performance.now();
    for (;;) {
      let standing: Transport | undefined;
      const onFailure = (error: GradringError) => {
        if (standing !== undefined && standing === this.transport) this.onFailure(error);
      };
      try {
        const { transport, generation } = await formRing(this.options, this.timeline, onFailure, {
          ...join,
          patienceMs,
        });
        if (transport.failed) {
          void transport.close();
          throw new GradringError('ERR_PEER_LOST', 'A rank was lost while the ring formed.');
        }
        standing = this.transport = transport;
        this.place = { rank: transport.rank, worldSize: transport.worldSize, generation };
        this.hasFormed = true;
        this.hooks.moveTo(transport);
        return;
      } catch (error) {
        if (!isLoss(error) && !((this.hasFormed || join.newcomer) && isLate(error))) throw error;
        // Links that break whenever the first ring forms are no loss: something is wrong with the network.
        if (isFirst && performance.now() - startedAt > connectTimeoutMs) throw error;
      }
    }
  }

  /** The old ring is closed while the next one forms: nobody waits for its goodbyes. */
  private drop(): void {
    const { transport } = this;
    if (transport === undefined) return;
    this.past = this.traffic;
    this.transport = undefined;
    void transport.close();
  }

  private coordinator(): CoordinatorLine {
    if (this.line === undefined) {
      const { rank, masterAddr, masterPort } = this.options;
      const security = securityOf(this.options);
      security?.gate.close(); // nobody comes to this rank here
      this.line = { rank, masterAddr, masterPort, security };
    }
    return this.line;
  }
}

/** Somebody has come to the rendezvous, but hangs since: the next attempt shows who. */
function isLate(error: unknown): boolean {
  return error instanceof GradringError && error.code === 'ERR_RENDEZVOUS_TIMEOUT';
}
