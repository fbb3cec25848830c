import { randomBytes } from 'node:crypto';
import { listed } from '../counted';
import { disagreement } from '../environment/rank-options';
import type { ErrorCode } from '../errors';
import { ifOutOfFiles } from '../open-files';
import { Patience } from '../patience';
import { isKey } from '../transport/control/curve';
import { WakingTimer } from '../waking-time';
import { PROTOCOL_VERSION } from '../wire/frame';
import type { RendezvousMessage } from '../wire/rendezvous-message';
import { type Arrival, Formation, type MemberLine } from './formation';

/** A report names so many missing members. */
const NAMED = 8;

/** What a run does if members are late, are lost, or come again. */
export interface MembershipPolicy {
  /** The process that holds the rendezvous, for the messages of refusals: `rank 0`, `the launcher`. */
  readonly holder: string;
  /**
   * Whether the ring forms again after a loss. Then members may leave, come again, and be replaced. Otherwise each
   * comes once.
   */
  readonly isElastic: boolean;
  /** Whether enough members are left for a ring. If not, members that come wait until they are ended. */
  mayForm(): boolean;
  /**
   * The time from now in which all must have come and listen (`come`), or all must be connected (`connect`), in ms.
   *
   * @param patienceMs The longest time that one of them is ready to wait.
   */
  waitMs(step: 'come' | 'connect', patienceMs: number): number;
  /** A ring of these members has formed. */
  onFormed(generation: number, members: readonly number[]): void;
  /**
   * These members did not come, or did not say where they listen, in time.
   *
   * @param refusals Why processes that came in their place were refused.
   * @returns The message for all that have come, if no ring can form. Undefined: they wait until
   *   {@link Coordinator.lose} says that these members are lost.
   */
  onAbsent(members: readonly number[], refusals: readonly string[]): string | undefined;
  /**
   * These members of a ring came, but did not connect to their neighbours in time. The attempt ends, and all are told.
   */
  onUnconnected(members: readonly number[], ring: readonly number[]): void;
}

/** The facts of a run. */
export interface CoordinatorOptions {
  /** How many members were launched. */
  readonly worldSize: number;
  readonly runId: string;
  /** See {@link agreedValues}. */
  readonly agreed: readonly string[];
  /** Whether every member must name the key of its links. */
  readonly needsKeys: boolean;
  readonly policy: MembershipPolicy;
  /** Undefined: nothing is reported. */
  readonly stallReport?: StallReport;
}

/** Reports which members the others wait for. */
export interface StallReport {
  /** The first report comes after so long, in ms, the next after twice that time, and so on. 0: never. */
  readonly stallMs: number;
  /** Prints one line. */
  say(line: string): void;
}

/**
 * Decides which members form the ring of each generation: all that are left of the previous one, and the newcomers that
 * wait, if the others let them in. A member is a rank as it was launched. If a member is lost or comes again while a
 * ring forms, the attempt ends and the next begins. Each attempt has a generation of its own. Static runs, where rank 0
 * holds the coordinator, and elastic runs, where the launcher does, have different {@link MembershipPolicy policies}.
 * The coordinator has no socket: {@link CoordinatorSocket} carries its messages.
 */
export class Coordinator {
  /** Members of the ring that has formed, or that forms. */
  private ring: Set<number>;
  private readonly waiting = new Map<number, Arrival>();
  /** Members that have said that they will not come any more. */
  private readonly left = new Set<number>();
  /** By member, why a process that came in its place was refused. */
  private readonly refusals = new Map<number, string>();
  private formation = new Formation();
  private generation = -1;
  private timer: WakingTimer | undefined;
  /** Reports which members are missing in this step. */
  private readonly patience: Patience;

  constructor(private readonly options: CoordinatorOptions) {
    this.ring = allMembers(options);
    this.patience = new Patience(options.stallReport?.stallMs ?? 0, seconds => this.reportMissing(seconds));
  }

  /** A member's process has ended, or it leaves in order. */
  lose(member: number, why: string): void {
    this.waiting.delete(member);
    if (!this.formation.isCalled) this.formation.remove(member);
    if (!this.ring.delete(member)) return;
    if (this.formation.isCalled && !this.formation.hasFormed) this.formAgain(why);
    else if (!this.formation.hasFormed) this.callIfComplete();
  }

  /** All processes are new. The next ring has all members again. */
  reset(): void {
    this.beginAnew();
    this.ring = allMembers(this.options);
    this.waiting.clear();
    this.left.clear();
  }

  /** Ends its timers, so that it does nothing by itself from then on. */
  stopWaiting(): void {
    this.timer?.cancel();
    this.patience.end();
  }

  /** Handles a message from a member. */
  hear(message: RendezvousMessage, line: MemberLine): void {
    switch (message.kind) {
      case 'join':
        return this.join({ join: message, line });
      case 'listening':
        return this.listen(message.rank, message.endpoint, line);
      case 'connected':
        return this.connect(message.rank, message.lanes, line);
      case 'refuse': // a member that cannot continue
        if (this.formation.memberAt(line) !== undefined && !this.formation.hasFormed)
          this.end(message.code, message.message);
        return;
      case 'ask':
        return line.tell({ kind: 'waiting', count: this.waiting.size });
      case 'leave':
        if (!this.options.policy.isElastic || message.rank >= this.options.worldSize) return;
        this.left.add(message.rank);
        return this.lose(message.rank, `rank ${message.rank} left while the ring formed`);
      default: // messages that only a coordinator sends
    }
  }

  /** Something came that is not a message. From a member, this is an error. From another program, it is ignored. */
  hearBroken(why: string, line: MemberLine): void {
    const member = this.formation.memberAt(line);
    if (member === undefined || this.formation.hasFormed) return;
    this.end('ERR_PROTOCOL', `Rank ${member} broke the protocol of the rendezvous: ${why}`);
  }

  private join(arrival: Arrival): void {
    const { rank: member, newcomer } = arrival.join;
    const refusal = this.refusalOf(arrival.join);
    if (refusal !== undefined) {
      if (member < this.options.worldSize) this.refusals.set(member, refusal.message);
      return arrival.line.tell({ kind: 'refuse', ...refusal });
    }
    const { policy } = this.options;
    if (newcomer && policy.isElastic) {
      this.lose(member, `rank ${member} was not let in`);
      this.waiting.set(member, arrival);
      return;
    }
    // If a member comes again after all were called, its attempt to form the ring has failed.
    if (this.formation.hasFormed) this.beginAnew();
    else if (this.formation.isCalled) this.formAgain(`rank ${member} lost its neighbours while the ring formed`);
    this.formation.add(arrival);
    this.wait('come');
    this.patience.begin();
    this.callIfComplete();
  }

  private refusalOf(join: RendezvousMessage & { kind: 'join' }): { code: ErrorCode; message: string } | undefined {
    const { worldSize, runId, agreed, needsKeys, policy } = this.options;
    const { holder } = policy;
    const { rank } = join;
    const refused = (message: string) => ({ code: 'ERR_RENDEZVOUS_REFUSED' as const, message });
    if (join.protocolVersion !== PROTOCOL_VERSION) {
      return refused(
        `Rank ${rank} has protocol version ${join.protocolVersion}, ${holder} has version ${PROTOCOL_VERSION}: install the same gradring everywhere.`,
      );
    }
    if (join.runId !== runId) {
      return refused(`Rank ${rank} is in run '${join.runId}', ${holder} is in '${runId}': two runs use one port.`);
    }
    if (join.worldSize !== worldSize) {
      return refused(`Rank ${rank} has WORLD_SIZE ${join.worldSize}, ${holder} has ${worldSize}.`);
    }
    const differs = disagreement(join.agreed, holder, agreed);
    if (differs !== undefined) return refused(`Rank ${rank} has ${differs}: set the same on all ranks.`);
    if (needsKeys && !isKey(join.publicKey)) return refused(`Rank ${rank} sent no key.`);
    if (rank >= worldSize) return refused(`Rank ${rank} is out of range: WORLD_SIZE is ${worldSize}.`);
    if (!policy.isElastic) {
      if (!this.formation.has(rank)) return undefined;
      const words = `Two processes claim rank ${rank} of ${worldSize}; the second was refused. Give each process its own RANK. If the first has died, start all ranks again.`;
      return { code: 'ERR_RANK_TAKEN', message: words };
    }
    if (join.newcomer || this.ring.has(rank)) return undefined;
    return refused(
      this.left.has(rank)
        ? `Rank ${rank} has left the ring; in an elastic run a process joins once.`
        : `Rank ${rank} counts as lost, because it did not answer in time.`,
    );
  }

  private callIfComplete(): void {
    const { formation, ring } = this;
    const { policy } = this.options;
    const isComplete = ring.size > 0 && [...ring].every(member => formation.has(member));
    if (formation.isCalled || !isComplete || !policy.mayForm()) return;
    if (formation.admits) {
      for (const [member, arrival] of this.waiting) {
        formation.add(arrival);
        ring.add(member);
      }
      this.waiting.clear();
    }
    this.generation++;
    formation.call(this.generation);
    this.wait('come');
    this.beginStep();
  }

  private listen(member: number, endpoint: string, line: MemberLine): void {
    const { formation } = this;
    if (formation.isConnecting) return;
    formation.listen(member, endpoint, randomBytes(8).toString('hex'), line);
    if (!formation.isConnecting) return;
    this.wait('connect');
    this.beginStep();
  }

  private connect(member: number, lanes: boolean, line: MemberLine): void {
    const { formation } = this;
    if (formation.hasFormed) return;
    formation.connect(member, lanes, line);
    if (!formation.hasFormed) return;
    this.stopWaiting();
    this.options.policy.onFormed(this.generation, ascending(this.ring));
  }

  /** Gives the missing members as much time as the policy allows. */
  private wait(step: 'come' | 'connect'): void {
    this.timer?.cancel();
    const ms = this.options.policy.waitMs(step, this.formation.patienceMs);
    this.timer = new WakingTimer(() => this.giveUp(ms), ms);
  }

  /** The members that the others wait for. */
  private get missing(): readonly number[] {
    const { formation, ring } = this;
    if (formation.isConnecting) return formation.unconnected;
    return formation.isCalled ? formation.silent : ascending(ring).filter(member => !formation.has(member));
  }

  private beginStep(): void {
    this.patience.end();
    this.patience.begin();
  }

  private reportMissing(seconds: number): void {
    const { missing } = this;
    const more = missing.length > NAMED ? ` and ${missing.length - NAMED} more` : '';
    const ranks = `${listed('rank', missing.slice(0, NAMED))}${more} ${missing.length === 1 ? 'has' : 'have'}`;
    this.options.stallReport!.say(`gradring: after ${seconds} s ${ranks} not ${this.stepInWords}.${this.outOfFiles}`);
  }

  /** What the missing members have not done yet. */
  private get stepInWords(): string {
    if (this.formation.isConnecting) return 'connected to the neighbours';
    return this.formation.isCalled ? 'begun to listen' : 'come to the rendezvous';
  }

  /** Why nobody can come, if this process has no descriptor left. */
  private get outOfFiles(): string {
    return ifOutOfFiles(this.options.policy.holder);
  }

  private giveUp(waitedMs: number): void {
    const { formation, missing } = this;
    if (formation.isEmpty) return; // no member waits any more
    if (formation.isConnecting) {
      const words = `${listed('Rank', missing)} came to the rendezvous but did not connect to the neighbours within ${waitedMs} ms: is a firewall between the hosts? 'npx gradring doctor --connect' tells which port is blocked.${this.outOfFiles}`;
      this.options.policy.onUnconnected(missing, ascending(this.ring));
      return this.end('ERR_RENDEZVOUS_TIMEOUT', words);
    }
    const refusals = missing.flatMap(member => this.refusals.get(member) ?? []);
    const words = this.options.policy.onAbsent(missing, refusals);
    if (words !== undefined) this.end('ERR_RENDEZVOUS_TIMEOUT', words + this.outOfFiles);
  }

  private formAgain(why: string): void {
    this.end('ERR_PEER_LOST', `The ring forms again: ${why}.`);
  }

  /** Ends this attempt, and tells all members that have come why. */
  private end(code: ErrorCode, message: string): void {
    const { formation } = this;
    this.beginAnew();
    formation.end(code, message);
  }

  private beginAnew(): void {
    this.stopWaiting();
    this.formation = new Formation();
  }
}

function allMembers({ worldSize }: CoordinatorOptions): Set<number> {
  return new Set(Array.from({ length: worldSize }, (_, member) => member));
}

function ascending(members: Iterable<number>): number[] {
  return [...members].sort((a, b) => a - b);
}
