import { connect } from 'node:net';
import { WakingTimer } from '../waking-time';

/** How long a host has to answer, in ms. */
export const ANSWER_MS = 3_000;

/** What came of an attempt to connect: `open`, `refused`, `filtered` (no answer), or another error of the system. */
export type Outcome = string;

/** Tries to connect to a TCP port, as ranks do, and closes the connection. */
export function tryPort(host: string, port: number): Promise<Outcome> {
  return new Promise(resolve => {
    const socket = connect({ host, port });
    const timer = new WakingTimer(() => end('filtered'), ANSWER_MS);
    const end = (outcome: Outcome) => {
      timer.cancel();
      socket.destroy();
      resolve(outcome);
    };
    socket
      .on('connect', () => end('open'))
      .on('error', ({ code = 'failed' }: NodeJS.ErrnoException) => end(OF_ERRORS[code] ?? code));
  });
}

const OF_ERRORS: Readonly<Record<string, Outcome>> = { ECONNREFUSED: 'refused', ETIMEDOUT: 'filtered' };

/** @param isListening Whether it is known that a program listens there. */
export function describeOutcome(outcome: Outcome, isListening: boolean): string {
  switch (outcome) {
    case 'open':
      return 'open';
    case 'refused':
      return isListening
        ? 'refused: a firewall rejects it'
        : 'refused: nothing listens there, or a firewall rejects it';
    case 'filtered':
      return `filtered: no answer within ${ANSWER_MS / 1000} s, so a firewall drops it${isListening ? '' : ', or that host is down'}`;
    default:
      return `unreachable (${outcome}): there is no route, or a firewall rejects it`;
  }
}
