import type { Dealer } from 'zeromq';
import { type ErrorCode, GradringError } from '../errors';
import { LONGEST_DELAY_MS } from '../longest-delay';
import { closed } from '../transport/control/open-sockets';
import type { RendezvousMessage } from '../wire/rendezvous-message';
import { guestSocket, joinMessage, type RendezvousResult, type Roster, unexpected } from './rendezvous';
import { endpointOf, type RendezvousOptions } from './rendezvous-options';
import { fromText, toText } from './text-message';

/** How a member of an elastic run comes to the rendezvous. */
export interface ElasticJoin {
  /** Holds nothing yet, and waits, however long, until the others let it in. */
  readonly newcomer: boolean;
  /** Lets newcomers in. */
  readonly admits: boolean;
}

/** What a member may say and ask between two rings. */
export type CoordinatorLine = Pick<RendezvousOptions, 'rank' | 'masterAddr' | 'masterPort' | 'security'>;

/** The coordinator tells when somebody is late, or kills who is; this is for when there is no coordinator. */
const NO_COORDINATOR_MS = 60_000;

/**
 * Meets the other members at the coordinator. The line to it stays open until the links stand, as it may tell meanwhile
 * that a member was lost: then this attempt fails with `ERR_PEER_LOST`, and the caller comes again.
 *
 * @param listen Called when it is known who is where, unless this member is alone: binds the end of the left link and
 *   returns its endpoint.
 * @param stand Called when it is known where all listen: opens the links.
 */
export async function meetMembers<T>(
  options: RendezvousOptions & ElasticJoin,
  listen: (roster: Roster) => Promise<string>,
  stand: (roster: Roster, result: RendezvousResult) => Promise<T>,
): Promise<T> {
  const { rank, newcomer, admits, timeoutMs } = options;
  const timeout = newcomer ? -1 : Math.min(timeoutMs + NO_COORDINATOR_MS, LONGEST_DELAY_MS);
  return conversation(options, timeout, async ({ send, receive }) => {
    await send({ ...joinMessage(options), newcomer, admits });
    const roster = await receive();
    if (roster.kind !== 'roster' || !isRoster(roster) || !roster.members.includes(rank)) throw unexpected(roster);
    const { publicKeys } = roster;
    let result: RendezvousResult = { ringId: 0n, publicKeys, endpoints: [] };
    if (roster.members.length > 1) {
      await send({ kind: 'listening', rank, endpoint: await listen(roster) });
      const start = await receive();
      if (start.kind !== 'start' || start.endpoints.length !== roster.members.length) throw unexpected(start);
      result = { ringId: start.ringId, publicKeys, endpoints: start.endpoints };
    }
    const refused = receive().then(message => Promise.reject(unexpected(message)));
    refused.catch(() => undefined); // it fails, too, when the line is closed
    const standing = await Promise.race([stand(roster, result), refused]);
    await send({ kind: 'standing', rank });
    return standing;
  });
}

/** Asks how many newcomers wait to be let in. */
export async function askWaiting(line: CoordinatorLine): Promise<number> {
  return conversation(line, NO_COORDINATOR_MS, async ({ send, receive }) => {
    await send({ kind: 'ask', rank: line.rank });
    const answer = await receive();
    if (answer.kind !== 'waiting') throw unexpected(answer);
    return answer.count;
  });
}

/** Says that this member will not come any more. */
export async function sayLeave(line: CoordinatorLine): Promise<void> {
  await conversation(line, NO_COORDINATOR_MS, ({ send }) => send({ kind: 'leave', rank: line.rank }));
}

interface Talk {
  send(message: RendezvousMessage): Promise<void>;
  receive(): Promise<RendezvousMessage>;
}

async function conversation<T>(
  line: CoordinatorLine,
  receiveTimeout: number,
  talk: (talk: Talk) => Promise<T>,
): Promise<T> {
  const endpoint = endpointOf(line.masterAddr, line.masterPort);
  const socket = guestSocket(line, receiveTimeout);
  try {
    socket.connect(endpoint);
    return await talk({
      send: message => socket.send(toText(message)),
      receive: () => receiveFrom(socket, line.rank, endpoint),
    });
  } finally {
    closed(socket);
    socket.close();
  }
}

async function receiveFrom(socket: Dealer, rank: number, endpoint: string): Promise<RendezvousMessage> {
  let parts: Buffer[];
  try {
    parts = await socket.receive();
  } catch (cause) {
    const words = `Rank ${rank} got no answer from the launcher at ${endpoint}. Is GRADRING_ENCRYPTION the same for both?`;
    throw new GradringError('ERR_RENDEZVOUS_TIMEOUT', words, {}, { cause });
  }
  const message = fromText(parts[0]!);
  if (message.kind === 'refuse') throw new GradringError(message.code as ErrorCode, message.message);
  return message;
}

function isRoster({ members, hostIds, publicKeys }: RendezvousMessage & { kind: 'roster' }): boolean {
  return (
    members.length === hostIds.length &&
    members.length === publicKeys.length &&
    members.every((member, rank) => rank === 0 || member > members[rank - 1]!)
  );
}
