import type { ErrorCode } from '../errors';
import type { RendezvousMessage } from '../wire/rendezvous-message';

/** A connection to a member. The member opens a new one each time it comes to the rendezvous. */
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
 * One attempt to form a ring: its members come, listen, and connect. Messages over the connection of an earlier attempt
 * are ignored.
 */
export class Formation {
  private readonly arrivals = new Map<number, Arrival>();
  private readonly endpoints = new Map<number, string>();
  /** Members whose links are connected, and whether both their lanes are open. */
  private readonly connected = new Map<number, boolean>();
  /** In ascending order. Empty until all have come. */
  private members: readonly number[] = [];

  /** Whether all members have been told which members are in the ring. */
  get isCalled(): boolean {
    return this.members.length > 0;
  }

  /** Whether all members have been told where the others listen. */
  get isConnecting(): boolean {
    return this.isCalled && this.silent.length === 0;
  }

  get hasFormed(): boolean {
    return this.isCalled && this.unconnected.length === 0;
  }

  /** Whether no member has come. */
  get isEmpty(): boolean {
    return this.arrivals.size === 0;
  }

  /** Members that were called, but have not said where they listen. */
  get silent(): readonly number[] {
    return this.members.length > 1 ? this.members.filter(member => !this.endpoints.has(member)) : [];
  }

  /** Members that were called, but whose links are not connected yet. */
  get unconnected(): readonly number[] {
    return this.members.filter(member => !this.connected.has(member));
  }

  /** Whether a member that has come lets newcomers in. */
  get admits(): boolean {
    return [...this.arrivals.values()].some(({ join }) => join.admits);
  }

  /** The longest time that a member that has come is ready to wait for the others, in ms. */
  get patienceMs(): number {
    return Math.max(0, ...[...this.arrivals.values()].map(({ join }) => join.patienceMs));
  }

  has(member: number): boolean {
    return this.arrivals.has(member);
  }

  /** The member that has come over this connection. */
  memberAt(line: MemberLine): number | undefined {
    return [...this.arrivals.values()].find(arrival => arrival.line.id === line.id)?.join.rank;
  }

  add(arrival: Arrival): void {
    this.arrivals.set(arrival.join.rank, arrival);
  }

  /** Removes a member that had come, but was lost before all were called. */
  remove(member: number): void {
    this.arrivals.delete(member);
  }

  /** Tells all that have come that they form the ring. */
  call(generation: number): void {
    this.members = [...this.arrivals.keys()].sort((a, b) => a - b);
    const joins = this.members.map(member => this.arrivals.get(member)!.join);
    const hostIds = joins.map(({ hostId }) => hostId);
    const publicKeys = joins.map(({ publicKey }) => publicKey);
    this.tellAll({ kind: 'roster', hostIds, publicKeys, members: this.members, generation });
  }

  /** Notes where a member listens. When all listen, tells them where the others do. */
  listen(member: number, endpoint: string, ringId: string, line: MemberLine): void {
    if (!this.isMember(member, line)) return;
    this.endpoints.set(member, endpoint);
    if (!this.isConnecting) return;
    this.tellAll({ kind: 'start', ringId, endpoints: this.members.map(each => this.endpoints.get(each)!) });
  }

  /** Notes that a member's links are connected. When those of all are, tells them. */
  connect(member: number, lanes: boolean, line: MemberLine): void {
    if (!this.isMember(member, line)) return;
    this.connected.set(member, lanes);
    if (this.hasFormed) this.tellAll({ kind: 'formed', lanes: [...this.connected.values()].every(Boolean) });
  }

  /** Tells all that have come why this attempt is over. */
  end(code: ErrorCode, message: string): void {
    this.tellAll({ kind: 'refuse', code, message });
  }

  private tellAll(message: RendezvousMessage): void {
    for (const { line } of this.arrivals.values()) line.tell(message);
  }

  private isMember(member: number, line: MemberLine): boolean {
    return this.members.includes(member) && this.arrivals.get(member)?.line.id === line.id;
  }
}
