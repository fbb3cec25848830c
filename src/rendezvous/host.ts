import { randomBytes } from 'node:crypto';
import { Router } from 'zeromq';
import { type ErrorCode, GradringError } from '../errors';
import { isKey } from '../transport/control/curve';
import { bind, closed, opened } from '../transport/control/open-sockets';
import { PROTOCOL_VERSION } from '../wire/frame';
import type { RendezvousMessage } from '../wire/rendezvous-message';
import { prefersTree } from './algorithm';
import { isLoopback } from './host-identity';
import { endpointOf, type RendezvousOptions } from './rendezvous-options';
import { fromText, toText } from './text-message';

/** Joins and endpoints are short; who sends more is cut off. */
const MAX_MESSAGE_BYTES = 65_536;

/** Rank 0's second role: collects who joins, tells all of all, and refuses whoever does not fit. */
export class Host {
  private readonly joined = new Map<number, { routing: Buffer; hostId: string; publicKey: string }>();
  private readonly listening = new Map<number, string>();
  /** Why ranks were refused, by rank: perhaps the one that all wait for. */
  private readonly refused = new Map<number, string>();
  private readonly deadline: NodeJS.Timeout;
  private finished = false;
  private readonly served: Promise<void>;

  private constructor(
    private readonly socket: Router,
    private readonly options: RendezvousOptions,
  ) {
    this.deadline = setTimeout(() => void this.giveUp(), options.timeoutMs);
    this.served = this.serve();
  }

  static open(options: RendezvousOptions): Host {
    return new Host(bindHost(options), options);
  }

  async close(): Promise<void> {
    clearTimeout(this.deadline);
    this.finished = true;
    closed(this.socket);
    this.socket.close();
    await this.served;
  }

  private async serve(): Promise<void> {
    while (!this.finished) {
      let parts: Buffer[];
      try {
        parts = await this.socket.receive();
      } catch {
        return; // closed
      }
      try {
        const [routing, bytes] = parts;
        if (routing === undefined || bytes === undefined) continue;
        await this.answer(routing, fromText(bytes));
      } catch {
        continue; // a stranger's bytes, or a rank that is gone again: no reason to stop
      }
    }
  }

  private async answer(routing: Buffer, message: RendezvousMessage): Promise<void> {
    if (message.kind === 'join') {
      const refusal = this.refusalOf(message);
      if (refusal !== undefined) {
        if (message.rank < this.options.worldSize) this.refused.set(message.rank, refusal.message);
        await this.send(routing, { kind: 'refuse', ...refusal });
        return;
      }
      this.joined.set(message.rank, { routing, hostId: message.hostId, publicKey: message.publicKey });
      if (this.joined.size === this.options.worldSize) {
        const all = this.ranks().map(rank => this.joined.get(rank)!);
        const hostIds = all.map(({ hostId }) => hostId);
        const publicKeys = all.map(({ publicKey }) => publicKey);
        const tree = prefersTree(this.options.algorithm, hostIds);
        await this.tellAll({ kind: 'roster', hostIds, publicKeys, members: this.ranks(), generation: 0, tree });
      }
    } else if (message.kind === 'listening' && this.joined.get(message.rank)?.routing.equals(routing)) {
      this.listening.set(message.rank, message.endpoint);
      if (this.listening.size === this.options.worldSize) {
        const endpoints = this.ranks().map(rank => this.listening.get(rank)!);
        await this.tellAll({ kind: 'start', ringId: randomBytes(8).readBigUInt64LE(), endpoints });
      }
    } else if (message.kind === 'refuse' && [...this.joined.values()].some(rank => rank.routing.equals(routing))) {
      await this.tellAll(message); // a rank that can go no further
    }
  }

  private refusalOf(join: RendezvousMessage & { kind: 'join' }): { code: ErrorCode; message: string } | undefined {
    const { worldSize, runId, encryption, security } = this.options;
    const refused = (message: string) => ({ code: 'ERR_RENDEZVOUS_REFUSED' as const, message });
    if (join.protocolVersion !== PROTOCOL_VERSION) {
      return refused(
        `Rank ${join.rank} speaks protocol version ${join.protocolVersion}, rank 0 version ${PROTOCOL_VERSION}: install the same gradring everywhere.`,
      );
    }
    if (join.runId !== runId) {
      return refused(`Rank ${join.rank} belongs to run '${join.runId}', rank 0 to '${runId}': two runs share a port.`);
    }
    if (join.worldSize !== worldSize) {
      return refused(`Rank ${join.rank} has WORLD_SIZE ${join.worldSize}, rank 0 has ${worldSize}.`);
    }
    if (join.encryption !== encryption) {
      return refused(`Rank ${join.rank} has encryption '${join.encryption}', rank 0 '${encryption}'.`);
    }
    if (security !== undefined && !isKey(join.publicKey)) return refused(`Rank ${join.rank} gave no key.`);
    if (join.rank >= worldSize) return refused(`Rank ${join.rank} is out of range: WORLD_SIZE is ${worldSize}.`);
    if (this.joined.has(join.rank)) {
      const words = `Two processes claim rank ${join.rank} of ${worldSize}; the second was refused. Give each process its own RANK.`;
      return { code: 'ERR_RANK_TAKEN', message: words };
    }
    return undefined;
  }

  private async giveUp(): Promise<void> {
    const there = this.joined.size === this.options.worldSize ? this.listening : this.joined;
    const missing = this.ranks().filter(rank => !there.has(rank));
    const reasons = missing.slice(0, 8).flatMap(rank => this.refused.get(rank) ?? []);
    const message = `Of ${this.options.worldSize} ranks, ${missing.length === 1 ? 'rank' : 'ranks'} ${missing.join(', ')} did not come to the rendezvous within ${this.options.timeoutMs} ms.${this.options.security === undefined ? '' : ' (Without the run token of rank 0 they cannot.)'}${reasons.map(words => ` Refused: ${words}`).join('')}`;
    await this.tellAll({ kind: 'refuse', code: 'ERR_RENDEZVOUS_TIMEOUT', message });
  }

  private async tellAll(message: RendezvousMessage): Promise<void> {
    for (const { routing } of this.joined.values()) await this.send(routing, message);
  }

  private async send(routing: Buffer, message: RendezvousMessage): Promise<void> {
    await this.socket.send([routing, toText(message)]);
  }

  private ranks(): number[] {
    return Array.from({ length: this.options.worldSize }, (_, rank) => rank);
  }
}

/**
 * The socket of whoever holds a rendezvous.
 *
 * @throws GradringError `ERR_ADDRESS_IN_USE`
 */
export function bindHost({
  masterAddr,
  masterPort,
  security,
}: Pick<RendezvousOptions, 'masterAddr' | 'masterPort' | 'security'>): Router {
  const curve = security?.gate.serve(security.host, security.guest.publicKey);
  const socket = opened(new Router({ ipv6: true, linger: 2_000, maxMessageSize: MAX_MESSAGE_BYTES, ...curve }));
  const endpoint = isLoopback(masterAddr) ? endpointOf(masterAddr, masterPort) : `tcp://*:${masterPort}`;
  try {
    bind(socket, endpoint);
    return socket;
  } catch (error) {
    closed(socket);
    socket.close();
    const words =
      (error as { code?: string }).code === 'EADDRINUSE'
        ? `Port ${masterPort} is in use: another run may hold it. Choose another MASTER_PORT, on every rank.`
        : `Rank 0 cannot hold the rendezvous at ${endpoint}: ${(error as Error).message}.`;
    throw new GradringError('ERR_ADDRESS_IN_USE', words, {}, { cause: error });
  }
}
