import type { RendezvousMessage } from '../../src/wire/rendezvous-message';

/** One message of each kind that ranks and their rendezvous exchange. */
export const MESSAGES: RendezvousMessage[];
