import { randomBytes } from 'node:crypto';
import type { ErrorCode } from '../errors';
import { LONGEST_DELAY_MS } from '../longest-delay';
import { PROTOCOL_VERSION } from '../wire/frame';
import type { RendezvousMessage } from '../wire/rendezvous-message';
import type { AllReduceAlgorithm } from './algorithm';
import { type Comer, Formation, type MemberLine } from './formation';
import type { Encryption } from './run-security';

/** What a run is, and whom the coordinator tells. */
export interface CoordinatorOptions {
  /** Members at launch. */
  readonly worldSize: number;
  readonly runId: string;
  readonly encryption: Encryption;
  readonly algorithm: AllReduceAlgorithm;
  /** Whether enough are left for another ring. If not, those who come wait for their end. */
  readonly mayForm: () => boolean;
  /** A ring stands, of these members. */
  readonly onFormed: (generation: number, members: readonly number[]) => void;
  /**
   * These members live, as far as is known, but did not come in time. They are taken for lost when {@link
   * Coordinator.lose} says so.
   */
  readonly onAbsent: (members: readonly number[]) => void;
}

/**
 * Decides who forms the ring of each generation: all members that are left of the one before, and, when these let them
 * in, the newcomers that wait. A member is a rank as it was launched. Whatever happens while a ring forms, a lost
 * member or one that comes again, the attempt ends and the next begins; each has a generation of its own. Speaks with
 * nobody itself: {@link CoordinatorSocket} does.
 */
export class Coordinator {
  /** Members of the ring, or of the one that forms. */
  private ring: Set<number>;
  private readonly waiting = new Map<number, Comer>();
  /** Members that said that they will not come any more. */
  private readonly left = new Set<number>();
  private formation = new Formation();
  private generation = -1;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: CoordinatorOptions) {
    this.ring = allMembers(options);
  }

  /** Of the ring that stands, or that is to be formed first. */
  get currentGeneration(): number {
    return Math.max(0, this.generation);
  }

  /** Newcomers that wait to be let in. */
  get waitingCount(): number {
    return this.waiting.size;
  }

  /** A member's process has ended, or it leaves in order. */
  lose(member: number, why: string): void {
    this.waiting.delete(member);
    if (!this.formation.isCalled) this.formation.remove(member);
    if (!this.ring.delete(member)) return;
    if (this.formation.isCalled && !this.formation.isStanding) this.beginAnew(why);
    else if (!this.formation.isStanding) this.callIfComplete();
  }

  /** All processes are new: the next ring is again of all members. */
  reset(): void {
    clearTimeout(this.timer);
    this.formation = new Formation();
    this.ring = allMembers(this.options);
    this.waiting.clear();
    this.left.clear();
  }

  close(): void {
    clearTimeout(this.timer);
  }

  /** Takes what a member says. */
  hear(message: RendezvousMessage, line: MemberLine): void {
    switch (message.kind) {
      case 'join':
        return this.join({ join: message, line });
      case 'listening':
        return this.formation.listen(message.rank, message.endpoint, randomBytes(8).readBigUInt64LE(), line);
      case 'standing':
        return this.stand(message.rank, line);
      case 'ask':
        return line.tell({ kind: 'waiting', count: this.waitingCount });
      case 'leave':
        this.left.add(message.rank);
        return this.lose(message.rank, `rank ${message.rank} left while the ring formed`);
      default: // what only a coordinator says
    }
  }

  private join(comer: Comer): void {
    const { rank: member, newcomer } = comer.join;
    const refusal = this.refusalOf(comer.join);
    if (refusal !== undefined) return comer.line.tell({ kind: 'refuse', ...refusal });
    if (newcomer) {
      this.lose(member, `rank ${member} was not let in`);
      this.waiting.set(member, comer);
      return;
    }
    // Whoever comes again while the others are already called has lost the ring that was to form.
    if (this.formation.isStanding) this.formation = new Formation();
    else if (this.formation.isCalled) this.beginAnew(`rank ${member} lost its neighbours while the ring formed`);
    this.formation.add(comer);
    this.awaitAll();
    this.callIfComplete();
  }

  private refusalOf(join: RendezvousMessage & { kind: 'join' }): { code: ErrorCode; message: string } | undefined {
    const { worldSize, runId } = this.options;
    const { rank, newcomer } = join;
    const refused = (message: string) => ({ code: 'ERR_RENDEZVOUS_REFUSED' as const, message });
    if (join.protocolVersion !== PROTOCOL_VERSION) {
      return refused(
        `Rank ${rank} speaks protocol version ${join.protocolVersion}, the launcher version ${PROTOCOL_VERSION}: install the same gradring everywhere.`,
      );
    }
    if (join.runId !== runId)
      return refused(`Rank ${rank} belongs to run '${join.runId}', the launcher to '${runId}'.`);
    if (join.worldSize !== worldSize || rank >= worldSize) {
      return refused(`Rank ${rank} of ${join.worldSize} came to a run of ${worldSize} ranks.`);
    }
    if (join.encryption !== this.options.encryption) {
      return refused(`Rank ${rank} has encryption '${join.encryption}', the launcher '${this.options.encryption}'.`);
    }
    if (newcomer || this.ring.has(rank)) return undefined;
    return refused(
      this.left.has(rank)
        ? `Rank ${rank} has left the ring; in an elastic run a process joins once.`
        : `Rank ${rank} was taken for lost: it did not answer in time.`,
    );
  }

  private callIfComplete(): void {
    const { formation, ring } = this;
    if (
      formation.isCalled ||
      ring.size === 0 ||
      !this.options.mayForm() ||
      ![...ring].every(member => formation.has(member))
    )
      return;
    if (formation.admits) {
      for (const [member, comer] of this.waiting) {
        formation.add(comer);
        ring.add(member);
      }
      this.waiting.clear();
    }
    this.generation++;
    formation.call(this.generation, this.options.algorithm);
    this.awaitAll();
  }

  private stand(member: number, line: MemberLine): void {
    const { formation } = this;
    if (!this.ring.has(member) || formation.isStanding) return;
    formation.stand(member, line);
    if (!formation.isStanding) return;
    clearTimeout(this.timer);
    this.options.onFormed(
      this.generation,
      [...this.ring].sort((a, b) => a - b),
    );
  }

  /**
   * Tells who does not come, or does not say where it listens, when the patience of those who have come is at its end.
   */
  private awaitAll(): void {
    clearTimeout(this.timer);
    const { formation } = this;
    this.timer = setTimeout(
      () => formation === this.formation && this.giveUp(),
      Math.min(LONGEST_DELAY_MS, formation.patienceMs),
    );
  }

  private beginAnew(why: string): void {
    const { formation } = this;
    this.formation = new Formation();
    formation.end('ERR_PEER_LOST', `The ring is formed again: ${why}.`);
  }

  private giveUp(): void {
    const { formation, ring } = this;
    if (formation.isEmpty) return; // nobody waits any more
    const absent = formation.isCalled ? formation.silent : [...ring].filter(member => !formation.has(member));
    this.options.onAbsent([...absent].sort((a, b) => a - b));
  }
}

function allMembers({ worldSize }: CoordinatorOptions): Set<number> {
  return new Set(Array.from({ length: worldSize }, (_, member) => member));
}
