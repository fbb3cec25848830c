import { randomBytes } from 'node:crypto';
import { Dealer, Router } from 'zeromq';
import { type ErrorCode, GradringError } from '../errors';
import { isLoopback } from './host-identity';
import { closed, opened } from '../transport/open-sockets';
import { PROTOCOL_VERSION } from '../wire/frame';
import { decodeRendezvousMessage, encodeRendezvousMessage, type RendezvousMessage } from '../wire/rendezvous-message';

/** What a rank must know to find the others. */
export interface RendezvousOptions {
  readonly rank: number;
  readonly worldSize: number;
  readonly masterAddr: string;
  readonly masterPort: number;
  /** Ranks with another run id are refused, so that two runs at one port do not mix. */
  readonly runId: string;
  readonly hostId: string;
  /** How long to wait for the others, in ms. */
  readonly timeoutMs: number;
}

/** What everybody knows after the rendezvous. */
export interface RendezvousResult {
  readonly ringId: bigint;
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
  listen: (hostIds: readonly string[]) => Promise<string>,
): Promise<RendezvousResult> {
  const host = options.rank === 0 ? await Host.open(options) : undefined;
  try {
    return await join(options, listen);
  } finally {
    await host?.close(); // what it still has to say to the others leaves while the socket lingers
  }
}

/** Every rank's part, rank 0's too: says who it is, where it listens, and hears the same of all. */
async function join(
  options: RendezvousOptions,
  listen: (hostIds: readonly string[]) => Promise<string>,
): Promise<RendezvousResult> {
  const { rank, worldSize, masterAddr, masterPort, runId, hostId, timeoutMs } = options;
  const endpoint = endpointOf(masterAddr, masterPort);
  const socket = opened(
    new Dealer({
      ipv6: true,
      linger: 400,
      // Rank 0's other half tells who is missing, to rank 0 too; only if there is no rank 0, the time runs out here.
      receiveTimeout: Math.min(timeoutMs + 2_000, 2 ** 31 - 1),
      reconnectInterval: 50,
      reconnectMaxInterval: 1_000,
    }),
  );
  const receive = async (): Promise<RendezvousMessage> => {
    const message = decodeRendezvousMessage(
      await socket.receive().then(
        parts => parts[0]!,
        () => {
          const words = `Rank ${rank} got no answer from rank 0 at ${endpoint} within ${timeoutMs} ms. Is rank 0 running, and do MASTER_ADDR and MASTER_PORT name its host and port?`;
          throw new GradringError('ERR_RENDEZVOUS_TIMEOUT', words, { rank: 0 });
        },
      ),
    );
    if (message.kind === 'refuse') throw new GradringError(message.code as ErrorCode, message.message);
    return message;
  };
  try {
    socket.connect(endpoint);
    const send = (message: RendezvousMessage) => socket.send(encodeRendezvousMessage(message));
    await send({ kind: 'join', protocolVersion: PROTOCOL_VERSION, runId, worldSize, rank, hostId });
    const roster = await receive();
    if (roster.kind !== 'roster' || roster.hostIds.length !== worldSize) throw unexpected(roster);
    await send({ kind: 'listening', rank, endpoint: await listen(roster.hostIds) });
    const start = await receive();
    if (start.kind !== 'start' || start.endpoints.length !== worldSize) throw unexpected(start);
    return { ringId: start.ringId, endpoints: start.endpoints };
  } finally {
    close(socket);
  }
}

/** Rank 0's second role: collects who joins, tells all of all, and refuses whoever does not fit. */
class Host {
  private readonly joined = new Map<number, { routing: Buffer; hostId: string }>();
  private readonly listening = new Map<number, string>();
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

  static async open(options: RendezvousOptions): Promise<Host> {
    const { masterAddr, masterPort } = options;
    const socket = opened(new Router({ ipv6: true, linger: 2_000, maxMessageSize: 65_536 }));
    const endpoint = isLoopback(masterAddr) ? endpointOf(masterAddr, masterPort) : `tcp://*:${masterPort}`;
    try {
      await socket.bind(endpoint);
    } catch (error) {
      close(socket);
      const words =
        (error as { code?: string }).code === 'EADDRINUSE'
          ? `Port ${masterPort} is in use: another run may hold it. Choose another MASTER_PORT, on every rank.`
          : `Rank 0 cannot hold the rendezvous at ${endpoint}: ${(error as Error).message}.`;
      throw new GradringError('ERR_ADDRESS_IN_USE', words, {}, { cause: error });
    }
    return new Host(socket, options);
  }

  async close(): Promise<void> {
    clearTimeout(this.deadline);
    this.finished = true;
    close(this.socket);
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
        await this.answer(routing, decodeRendezvousMessage(bytes));
      } catch {
        continue; // a stranger's bytes, or a rank that is gone again: no reason to stop
      }
    }
  }

  private async answer(routing: Buffer, message: RendezvousMessage): Promise<void> {
    if (message.kind === 'join') {
      const refusal = this.refusalOf(message);
      if (refusal !== undefined) {
        await this.send(routing, { kind: 'refuse', ...refusal });
        return;
      }
      this.joined.set(message.rank, { routing, hostId: message.hostId });
      if (this.joined.size === this.options.worldSize) {
        await this.tellAll({ kind: 'roster', hostIds: this.ranks().map(rank => this.joined.get(rank)!.hostId) });
      }
    } else if (message.kind === 'listening' && this.joined.get(message.rank)?.routing.equals(routing)) {
      this.listening.set(message.rank, message.endpoint);
      if (this.listening.size === this.options.worldSize) {
        const endpoints = this.ranks().map(rank => this.listening.get(rank)!);
        await this.tellAll({ kind: 'start', ringId: randomBytes(8).readBigUInt64LE(), endpoints });
      }
    }
  }

  private refusalOf(join: RendezvousMessage & { kind: 'join' }): { code: ErrorCode; message: string } | undefined {
    const { worldSize, runId } = this.options;
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
    const message = `Of ${this.options.worldSize} ranks, ${missing.length === 1 ? 'rank' : 'ranks'} ${missing.join(', ')} did not come to the rendezvous within ${this.options.timeoutMs} ms.`;
    await this.tellAll({ kind: 'refuse', code: 'ERR_RENDEZVOUS_TIMEOUT', message });
  }

  private async tellAll(message: RendezvousMessage): Promise<void> {
    for (const { routing } of this.joined.values()) await this.send(routing, message);
  }

  private async send(routing: Buffer, message: RendezvousMessage): Promise<void> {
    await this.socket.send([routing, encodeRendezvousMessage(message)]);
  }

  private ranks(): number[] {
    return Array.from({ length: this.options.worldSize }, (_, rank) => rank);
  }
}

function close(socket: Dealer | Router): void {
  closed(socket);
  socket.close();
}

function endpointOf(address: string, port: number): string {
  const host = address === 'localhost' ? '127.0.0.1' : address;
  return `tcp://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function unexpected(message: RendezvousMessage): GradringError {
  return new GradringError('ERR_PROTOCOL', `Rank 0 answered the rendezvous with '${message.kind}' out of turn.`);
}
