import { listed } from '../counted';
import { isLoopback, requireLoopback } from '../environment/network';
import { GradringError, serializeError } from '../errors';
import { isKey } from '../transport/control/curve';
import { wakingNow } from '../waking-time';
import { PROTOCOL_VERSION } from '../wire/frame';
import type { RendezvousMessage } from '../wire/rendezvous-message';
import { Coordinator, type MembershipPolicy } from './coordinator';
import { CoordinatorLine, lineToLauncher, NO_LAUNCHER_MS } from './coordinator-line';
import { CoordinatorSocket } from './coordinator-socket';
import { addressOf, addressToConnect } from './host-identity';
import type { RendezvousOptions } from './rendezvous-options';

/** Which ranks are in the ring. Lists are by rank. */
export type Roster = RendezvousMessage & { kind: 'roster' };

/** Where each rank listens for its left neighbour, and the id of the ring. */
export type Start = RendezvousMessage & { kind: 'start' };

/**
 * A rank's part in one attempt to form a ring. The coordinator may end the attempt at any time. Then the next call
 * fails with its error: `ERR_RENDEZVOUS_TIMEOUT`, `ERR_RENDEZVOUS_REFUSED`, `ERR_RANK_TAKEN`, or the error of another
 * rank; in an elastic run `ERR_PEER_LOST`, and the caller comes again.
 */
export class Rendezvous {
  private constructor(
    private readonly rank: number,
    private readonly line: CoordinatorLine,
    private readonly held: CoordinatorSocket | undefined,
    readonly roster: Roster,
  ) {}

  /**
   * Comes to the rendezvous, and settles when all have come. In a static run rank 0 holds it in its own process.
   *
   * @throws GradringError `ERR_RENDEZVOUS_TIMEOUT` naming the ranks that did not come, `ERR_RENDEZVOUS_REFUSED` or
   *   `ERR_RANK_TAKEN` in the coordinator's words, `ERR_ADDRESS_IN_USE` on rank 0 if the port cannot be bound,
   *   `ERR_LOOPBACK_DOWN`.
   */
  static async meet(options: RendezvousOptions): Promise<Rendezvous> {
    const { rank, worldSize, elastic } = options;
    const isHolder = elastic === undefined && rank === 0;
    if (isHolder || isLoopback(options.masterAddr)) requireLoopback();
    const held = isHolder ? hold(options) : undefined;
    const masterAddr = held === undefined ? await addressToConnect(options.masterAddr) : nearOf(options.masterAddr);
    const line = lineOf({ ...options, masterAddr });
    try {
      await line.send(joinMessage(options));
      const roster = await line.receive('roster');
      const isWhole = elastic !== undefined || roster.members.length === worldSize;
      if (!isWhole || !isSound(roster, options) || !roster.members.includes(rank)) throw line.outOfTurn(roster);
      return new Rendezvous(rank, line, held, roster);
    } catch (error) {
      line.close();
      await held?.close();
      throw error;
    }
  }

  /** Tells the others where this rank listens for its left neighbour. Settles when all listen. */
  async listen(endpoint: string): Promise<Start> {
    await this.line.send({ kind: 'listening', rank: this.rank, endpoint });
    const start = await this.line.receive('start');
    if (start.endpoints.length !== this.roster.members.length) throw this.line.outOfTurn(start);
    return start;
  }

  /**
   * Settles when the links of all ranks are connected, with whether all lanes of all ranks are open.
   *
   * @param lanes Settles when this rank's links are connected, with whether both its lanes are open.
   */
  async connected(lanes: Promise<boolean>): Promise<boolean> {
    const formed = this.line.receive('formed');
    const areOpen = await Promise.race([lanes, formed.then(message => Promise.reject(this.line.outOfTurn(message)))]);
    await this.line.send({ kind: 'connected', rank: this.rank, lanes: areOpen });
    return (await formed).lanes;
  }

  /** Tells all ranks that this one cannot continue, and throws the error. */
  async refuse(step: 'listen' | 'connect', error: unknown): Promise<never> {
    const { code, message } = serializeError(error, 'ERR_ADDRESS_IN_USE');
    const words = `Rank ${this.rank} cannot ${step}: ${message}`;
    const told = this.line.send({ kind: 'refuse', code, message: words }).then(() => this.line.receive('refuse'));
    await told.catch(() => undefined); // the answer shows that rank 0, which may be this one, has told the others
    throw error;
  }

  async close(): Promise<void> {
    this.line.close();
    await this.held?.close();
  }
}

/** Opens the coordinator of a static run, on rank 0. */
function hold(options: RendezvousOptions): CoordinatorSocket {
  const { worldSize, security, timeoutMs, observer } = options;
  const needsKeys = security !== undefined;
  const policy = staticPolicy(worldSize, timeoutMs, needsKeys);
  const coordinator = new Coordinator({ ...options, needsKeys, policy, stallReport: options });
  return CoordinatorSocket.open(options, coordinator, observer);
}

/**
 * The policy of a static run: all members form one ring in time, or no ring forms.
 *
 * @param timeoutMs How long all of them may take to come, from now on, and then to connect.
 * @param needsToken Whether only members that know the run token can come.
 */
export function staticPolicy(worldSize: number, timeoutMs: number, needsToken: boolean): MembershipPolicy {
  const deadline = wakingNow() + timeoutMs;
  return {
    holder: 'rank 0',
    isElastic: false,
    mayForm: () => true,
    waitMs: step => (step === 'connect' ? timeoutMs : Math.max(0, deadline - wakingNow())),
    onFormed: () => undefined,
    onUnconnected: () => undefined,
    onAbsent: (members, refusals) => {
      const token = needsToken ? ', with the run token of rank 0' : '';
      const hint = refusals.length > 0 ? '' : ` Do they run, and call connect()${token}?`;
      const reasons = refusals.slice(0, 8).map(words => ` Refused: ${words}`);
      return `Of ${worldSize} ranks, ${listed('rank', members)} did not come to the rendezvous within ${timeoutMs} ms.${hint}${reasons.join('')}`;
    },
  };
}

/** Rank 0 reaches its own rendezvous even where it does not reach its public address, as behind NAT. */
function nearOf(masterAddr: string): string {
  return isLoopback(masterAddr) ? masterAddr : '127.0.0.1';
}

function lineOf(options: RendezvousOptions): CoordinatorLine {
  const { rank, elastic, timeoutMs } = options;
  if (elastic !== undefined) return lineToLauncher(options, elastic.newcomer ? Infinity : timeoutMs + NO_LAUNCHER_MS);
  // Rank 0's coordinator tells all ranks, also rank 0, which are missing. This timeout matters only without a rank 0.
  return new CoordinatorLine(options, timeoutMs + 2_000, async endpoint => {
    const words = `Rank ${rank} got no answer from rank 0 at ${endpoint} within ${timeoutMs} ms. ${await whyNot(options)}`;
    return new GradringError('ERR_RENDEZVOUS_TIMEOUT', words, { rank: 0 });
  });
}

/** What may be wrong. An unknown name is reported only here, because the names of pods may appear late. */
async function whyNot({ masterAddr, tokenFrom }: RendezvousOptions): Promise<string> {
  const secret = tokenFrom === undefined ? 'GRADRING_RUN_TOKEN' : `${tokenFrom} on its host`;
  return addressOf(masterAddr).then(
    () =>
      `Is rank 0 running? Do MASTER_ADDR and MASTER_PORT name its host and port? Does it have the same ${secret} and GRADRING_ENCRYPTION?`,
    (error: Error) => error.message,
  );
}

/** What a rank says about itself when it comes. */
function joinMessage(options: RendezvousOptions): RendezvousMessage {
  const { rank, worldSize, runId, hostId, agreed, security, timeoutMs, elastic } = options;
  return {
    ...{ kind: 'join', protocolVersion: PROTOCOL_VERSION, runId, worldSize, rank, hostId, agreed },
    ...{ publicKey: security?.link.publicKey ?? '', patienceMs: timeoutMs },
    ...{ newcomer: elastic?.newcomer ?? false, admits: elastic?.admits ?? false },
  };
}

function isSound({ members, hostIds, publicKeys }: Roster, { worldSize, security }: RendezvousOptions): boolean {
  return (
    members.length === hostIds.length &&
    members.length === publicKeys.length &&
    members.every((member, rank) => member < worldSize && (rank === 0 || member > members[rank - 1]!)) &&
    (security === undefined || publicKeys.every(isKey))
  );
}
