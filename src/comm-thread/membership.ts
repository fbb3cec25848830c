import type { Transport } from '../transport/transport';
import type { Request, RingPosition } from './thread-protocol';

/** The rings that this rank is in. There are two kinds: {@link StaticMembership}, {@link ElasticMembership}. */
export interface Membership {
  /** The current ring, or the last one. A ring of one, until the first has formed. */
  readonly transport: Transport;
  /** Joins the first ring. Settles with this rank's position in it. */
  join(): Promise<RingPosition>;
  /** A request has arrived. It is carried out after the earlier ones. */
  onRequest(): void;
  /** Carries out a request in the ring that it was meant for, or throws the reason why it cannot. One at a time. */
  carryOut(request: Request): Promise<unknown>;
}
