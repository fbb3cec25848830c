import type { AllReduceAlgorithm } from './algorithm';
import type { Encryption, RunSecurity } from './run-security';

/** What a rank must know to find the others. */
export interface RendezvousOptions {
  readonly rank: number;
  readonly worldSize: number;
  readonly masterAddr: string;
  readonly masterPort: number;
  /** Ranks with another run id are refused, so that two runs at one port do not mix. */
  readonly runId: string;
  readonly hostId: string;
  readonly encryption: Encryption;
  /** Rank 0's counts. */
  readonly algorithm: AllReduceAlgorithm;
  /** The rendezvous is encrypted, and for those who know the run token, if this is given. */
  readonly security: RunSecurity | undefined;
  /** How long to wait for the others, in ms. */
  readonly timeoutMs: number;
}

/** Of the socket at which rank 0 is found. */
export function endpointOf(address: string, port: number): string {
  const host = address === 'localhost' ? '127.0.0.1' : address;
  return `tcp://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
