import type { RendezvousMessage } from '../wire/rendezvous-message';
import { type AllReduceAlgorithm, prefersTree } from './algorithm';

/** One conversation with a member. Whenever it comes to the rendezvous it opens another. */
export interface MemberLine {
  readonly id: string;
  tell(message: RendezvousMessage): void;
}

/** A member that has come to the rendezvous. */
export interface Comer {
  readonly join: RendezvousMessage & { kind: 'join' };
  readonly line: MemberLine;
}

/** One attempt to form a ring: those who are in it come, listen, and stand. It begins anew when one of them is lost. */
export class Formation {
  private readonly comers = new Map<number, Comer>();
  private readonly endpoints = new Map<number, string>();
  private readonly standing = new Set<number>();
  /** Ascending, when all have come. */
  private members: readonly number[] = [];

  /** Whether everybody has been told who is in the ring. */
  get isCalled(): boolean {
    return this.members.length > 0;
  }

  get isStanding(): boolean {
    return this.isCalled && this.standing.size === this.members.length;
  }

  /** Whether nobody has come. */
  get isEmpty(): boolean {
    return this.comers.size === 0;
  }

  has(member: number): boolean {
    return this.comers.has(member);
  }

  /** Whether somebody who has come lets newcomers in. */
  get admits(): boolean {
    return [...this.comers.values()].some(({ join }) => join.admits);
  }

  /** How long the most patient of those who have come waits for the others, in ms. */
  get patienceMs(): number {
    return Math.max(0, ...[...this.comers.values()].map(({ join }) => join.patienceMs));
  }

  add(comer: Comer): void {
    this.comers.set(comer.join.rank, comer);
  }

  /** Forgets one who had come, and is lost before they were called. */
  remove(member: number): void {
    this.comers.delete(member);
  }

  /** Who was called, and does not say where it listens. */
  get silent(): readonly number[] {
    return this.members.length > 1 ? this.members.filter(member => !this.endpoints.has(member)) : [];
  }

  /** Tells all who have come that these are the ring. */
  call(generation: number, algorithm: AllReduceAlgorithm): readonly number[] {
    this.members = [...this.comers.keys()].sort((a, b) => a - b);
    const joins = this.members.map(member => this.comers.get(member)!.join);
    const hostIds = joins.map(({ hostId }) => hostId);
    const publicKeys = joins.map(({ publicKey }) => publicKey);
    const tree = prefersTree(algorithm, hostIds);
    this.tellAll({ kind: 'roster', hostIds, publicKeys, members: this.members, generation, tree });
    return this.members;
  }

  /**
   * Notes where a member listens. When all do, they are told. What it still says on the line of an earlier attempt
   * counts for nothing.
   */
  listen(member: number, endpoint: string, ringId: bigint, line: MemberLine): void {
    if (!this.members.includes(member) || !this.isOn(line, member)) return;
    this.endpoints.set(member, endpoint);
    if (this.endpoints.size < this.members.length) return;
    this.tellAll({ kind: 'start', ringId, endpoints: this.members.map(each => this.endpoints.get(each)!) });
  }

  /** Notes that a member's links stand. */
  stand(member: number, line: MemberLine): void {
    if (this.members.includes(member) && this.isOn(line, member)) this.standing.add(member);
  }

  /** Tells all whose links do not stand yet why this attempt is over. */
  end(code: string, message: string): void {
    for (const [member, { line }] of this.comers) {
      if (!this.standing.has(member)) line.tell({ kind: 'refuse', code, message });
    }
  }

  private tellAll(message: RendezvousMessage): void {
    for (const { line } of this.comers.values()) line.tell(message);
  }

  private isOn(line: MemberLine, member: number): boolean {
    return this.comers.get(member)?.line.id === line.id;
  }
}
