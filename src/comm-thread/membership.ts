import type { TrafficCount, Transport } from '../transport/transport';
import type { Request, RingPosition } from './thread-protocol';

/** Which ring this rank is in. There are two kinds: {@link StaticMembership}, {@link ElasticMembership}. */
export interface Membership {
  /** The ring that stands, or the last one. A ring of one stands in until there is any. */
  readonly transport: Transport;
  /** Over all rings. */
  readonly traffic: TrafficCount;
  /** Comes to the first ring, and settles with this rank's position in it. */
  join(): Promise<RingPosition>;
  /** A request has come. It is carried out when those before it have been. */
  onRequest(): void;
  /** Carries out a request in the ring that it was meant for, or throws why it cannot be. One at a time. */
  carryOut(request: Request): Promise<unknown>;
}
