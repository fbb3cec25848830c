import type { RendezvousMessage } from '../wire/rendezvous-message';

/** One conversation with a member. It opens another each time it comes to the rendezvous. */
export interface MemberLine {
  readonly id: string;
  tell(message: RendezvousMessage): void;
}

/** A member that has come to the rendezvous. */
export interface Arrival {
  readonly join: RendezvousMessage & { kind: 'join' };
  readonly line: MemberLine;
}

/**
 * One attempt to form a ring: its members come, listen, and connect. What a member says on the line of an earlier
 * attempt is ignored.
 */
export class Formation {
  private readonly arrivals = new Map<number, Arrival>();
  private readonly endpoints = new Map<number, string>();
  /** Members whose links stand, and whether they have a lane beside both. */
  private readonly standing = new Map<number, boolean>();
  /** Ascending, when all have come. */
  private members: readonly number[] = [];

  /** Whether all members have been told which members are in the ring. */
  get isCalled(): boolean {
    return this.members.length > 0;
  }

  /** Whether all members have been told where the others listen. */
  get isConnecting(): boolean {
    return this.isCalled && this.silent.length === 0;
  }

  get isStanding(): boolean {
    return this.isCalled && this.unconnected.length === 0;
  }

  /** Whether no member has come. */
  get isEmpty(): boolean {
    return this.arrivals.size === 0;
  }

  /** Members that were called, and do not say where they listen. */
  get silent(): readonly number[] {
    return this.members.length > 1 ? this.members.filter(member => !this.endpoints.has(member)) : [];
  }

  /** Members that were called, and whose links do not stand. */
  get unconnected(): readonly number[] {
    return this.members.filter(member => !this.standing.has(member));
  }

  /** Whether a member that has come lets newcomers in. */
  get admits(): boolean {
    return [...this.arrivals.values()].some(({ join }) => join.admits);
  }

  /** How long the most patient of those that have come waits for the others, in ms. */
  get patienceMs(): number {
    return Math.max(0, ...[...this.arrivals.values()].map(({ join }) => join.patienceMs));
  }

  has(member: number): boolean {
    return this.arrivals.has(member);
  }

  /** Whether a member that has come talks on this line. */
  hears(line: MemberLine): boolean {
    return [...this.arrivals.values()].some(arrival => arrival.line.id === line.id);
  }

  add(arrival: Arrival): void {
    this.arrivals.set(arrival.join.rank, arrival);
  }

  /** Forgets a member that had come, and is lost before all were called. */
  remove(member: number): void {
    this.arrivals.delete(member);
  }

  /** Tells all that have come that they are the ring. */
  call(generation: number): void {
    this.members = [...this.arrivals.keys()].sort((a, b) => a - b);
    const joins = this.members.map(member => this.arrivals.get(member)!.join);
    const hostIds = joins.map(({ hostId }) => hostId);
    const publicKeys = joins.map(({ publicKey }) => publicKey);
    this.tellAll({ kind: 'roster', hostIds, publicKeys, members: this.members, generation });
  }

  /** Notes where a member listens. When all do, they are told. */
  listen(member: number, endpoint: string, ringId: bigint, line: MemberLine): void {
    if (!this.isMember(member, line)) return;
    this.endpoints.set(member, endpoint);
    if (!this.isConnecting) return;
    this.tellAll({ kind: 'start', ringId, endpoints: this.members.map(each => this.endpoints.get(each)!) });
  }

  /** Notes that a member's links stand. When all do, they are told. */
  stand(member: number, lanes: boolean, line: MemberLine): void {
    if (!this.isMember(member, line)) return;
    this.standing.set(member, lanes);
    if (this.isStanding) this.tellAll({ kind: 'formed', lanes: [...this.standing.values()].every(Boolean) });
  }

  /** Tells all that have come why this attempt is over. */
  end(code: string, message: string): void {
    this.tellAll({ kind: 'refuse', code, message });
  }

  private tellAll(message: RendezvousMessage): void {
    for (const { line } of this.arrivals.values()) line.tell(message);
  }

  private isMember(member: number, line: MemberLine): boolean {
    return this.members.includes(member) && this.arrivals.get(member)?.line.id === line.id;
  }
}
