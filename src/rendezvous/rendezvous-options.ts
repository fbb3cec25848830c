import type { Observer } from '../observer';
import type { StallReport } from './coordinator';
import type { RunSecurity } from './run-security';

/** Where the members of a run meet, and what proves that they belong to it. */
export interface MeetingPlace {
  readonly masterAddr: string;
  readonly masterPort: number;
  /** If given, the rendezvous is encrypted, and open only to processes that know the run token. */
  readonly security: RunSecurity | undefined;
}

/** How a member of an elastic run comes to the rendezvous. */
export interface ElasticJoin {
  /** Has no state yet, and waits without a limit until the others let it in. */
  readonly newcomer: boolean;
  /** Lets newcomers in. */
  readonly admits: boolean;
}

/** How a member comes again after a loss. */
export const STAY: ElasticJoin = { newcomer: false, admits: false };

/** What a rank must know to find the others. */
export interface RendezvousOptions extends MeetingPlace, StallReport {
  readonly rank: number;
  readonly worldSize: number;
  /** Ranks with another run id are refused, so that two runs at one port do not mix. */
  readonly runId: string;
  readonly hostId: string;
  /** See {@link agreedValues}. */
  readonly agreed: readonly string[];
  /** Undefined in a static run, where rank 0 holds the rendezvous. In an elastic run the launcher holds it. */
  readonly elastic: ElasticJoin | undefined;
  /** The file that the run token is made from. Undefined if the user gave the token. */
  readonly tokenFrom?: string | undefined;
  /** How long to wait for the others, in ms. */
  readonly timeoutMs: number;
  /** Counts the messages of the rendezvous, if this rank holds it. */
  readonly observer?: Observer;
}

/** An endpoint of TCP. At port 0 the system chooses one. */
export function endpointOf(address: string, port: number): string {
  const host = address === 'localhost' ? '127.0.0.1' : address;
  return `tcp://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
