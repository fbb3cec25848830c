import { Dealer } from 'zeromq';
import { type ErrorCode, GradringError, serializeError } from '../errors';
import { LONGEST_DELAY_MS } from '../longest-delay';
import { curveClient } from '../transport/control/curve';
import { closed, opened } from '../transport/control/open-sockets';
import { PROTOCOL_VERSION } from '../wire/frame';
import type { RendezvousMessage } from '../wire/rendezvous-message';
import { Host } from './host';
import { endpointOf, type RendezvousOptions } from './rendezvous-options';
import { fromText, toText } from './text-message';

/** A roster of the largest ring has some 7 MB. */
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;

/** Who is in the ring, by rank. */
export interface Roster {
  /** The ranks as they were launched: the ranks themselves, unless the run is elastic. */
  readonly members: readonly number[];
  /** Which ring of the run this is. */
  readonly generation: number;
  readonly hostIds: readonly string[];
  /** CURVE keys of their links; empty texts where the run has no token. */
  readonly publicKeys: readonly string[];
  /** See {@link prefersTree}. */
  readonly tree: boolean;
}

/** What everybody knows after the rendezvous. */
export interface RendezvousResult {
  readonly ringId: bigint;
  readonly publicKeys: readonly string[];
  /** Where each rank awaits its left neighbour, by rank. */
  readonly endpoints: readonly string[];
}

/**
 * Meets the other ranks at rank 0, which holds the rendezvous in its own process: no server runs before or after.
 *
 * @param listen Called when it is known who is where: binds the end of the left link and returns its endpoint.
 * @throws GradringError `ERR_RENDEZVOUS_TIMEOUT` naming the ranks that did not come, `ERR_RENDEZVOUS_REFUSED` or
 *   `ERR_RANK_TAKEN` in rank 0's words, `ERR_ADDRESS_IN_USE` on rank 0 when the port cannot be bound.
 */
export async function rendezvous(
  options: RendezvousOptions,
  listen: (roster: Roster) => Promise<string>,
): Promise<RendezvousResult> {
  const host = options.rank === 0 ? Host.open(options) : undefined;
  try {
    return await join(options, listen);
  } finally {
    await host?.close(); // what it still has to say to the others leaves while the socket lingers
  }
}

/** Every rank's part, rank 0's too: says who it is, where it listens, and hears the same of all. */
async function join(
  options: RendezvousOptions,
  listen: (roster: Roster) => Promise<string>,
): Promise<RendezvousResult> {
  const { rank, worldSize, masterAddr, masterPort, timeoutMs } = options;
  const endpoint = endpointOf(masterAddr, masterPort);
  // Rank 0's other half tells who is missing, to rank 0 too; only if there is no rank 0, the time runs out here.
  const socket = guestSocket(options, Math.min(timeoutMs + 2_000, LONGEST_DELAY_MS));
  const receive = async (): Promise<RendezvousMessage> => {
    const message = fromText(
      await socket.receive().then(
        parts => parts[0]!,
        () => {
          const words = `Rank ${rank} got no answer from rank 0 at ${endpoint} within ${timeoutMs} ms. Is rank 0 running, do MASTER_ADDR and MASTER_PORT name its host and port, and has it the same GRADRING_RUN_TOKEN and GRADRING_ENCRYPTION, or none?`;
          throw new GradringError('ERR_RENDEZVOUS_TIMEOUT', words, { rank: 0 });
        },
      ),
    );
    if (message.kind === 'refuse') throw new GradringError(message.code as ErrorCode, message.message);
    return message;
  };
  try {
    socket.connect(endpoint);
    const send = (message: RendezvousMessage) => socket.send(toText(message));
    await send(joinMessage(options));
    const roster = await receive();
    if (roster.kind !== 'roster') throw unexpected(roster);
    const { hostIds, publicKeys } = roster;
    if (hostIds.length !== worldSize || publicKeys.length !== worldSize) throw unexpected(roster);
    const ranks = hostIds.map((_, each) => each);
    const listening = await listen({ ...roster, members: ranks }).catch(async (error: unknown) => {
      // Or all would wait for this rank. The answer shows that rank 0, which may be this one, has told them.
      const { code, message } = serializeError(error, 'ERR_ADDRESS_IN_USE');
      await send({ kind: 'refuse', code, message: `Rank ${rank} cannot listen: ${message}` });
      await receive().catch(() => undefined);
      throw error;
    });
    await send({ kind: 'listening', rank, endpoint: listening });
    const start = await receive();
    if (start.kind !== 'start' || start.endpoints.length !== worldSize) throw unexpected(start);
    return { ringId: start.ringId, publicKeys, endpoints: start.endpoints };
  } finally {
    closed(socket);
    socket.close();
  }
}

/** A socket at which the rendezvous answers, to be connected and closed. */
export function guestSocket({ security }: Pick<RendezvousOptions, 'security'>, receiveTimeout: number): Dealer {
  return opened(
    new Dealer({
      ipv6: true,
      linger: 400,
      maxMessageSize: MAX_MESSAGE_BYTES,
      receiveTimeout,
      reconnectInterval: 50,
      reconnectMaxInterval: 1_000,
      ...(security && curveClient(security.guest, security.host.publicKey)),
    }),
  );
}

/** What a rank says of itself when it comes. */
export function joinMessage(options: RendezvousOptions): RendezvousMessage & { kind: 'join' } {
  const { rank, worldSize, runId, hostId, encryption, security, timeoutMs } = options;
  return {
    ...{ kind: 'join', protocolVersion: PROTOCOL_VERSION, runId, worldSize, rank, hostId, encryption },
    ...{ publicKey: security?.link.publicKey ?? '', newcomer: false, admits: false, patienceMs: timeoutMs },
  };
}

export function unexpected(message: RendezvousMessage): GradringError {
  return new GradringError('ERR_PROTOCOL', `Rank 0 answered the rendezvous with '${message.kind}' out of turn.`);
}
