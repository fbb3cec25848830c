import { Dealer } from 'zeromq';
import { GradringError } from '../errors';
import { curveClient } from '../transport/control/curve';
import { unregister, register } from '../transport/control/open-sockets';
import { WakingTimer } from '../waking-time';
import { decodeRendezvousMessage, encodeRendezvousMessage, type RendezvousMessage } from '../wire/rendezvous-message';
import { endpointOf, type MeetingPlace } from './rendezvous-options';

/** Rosters and starts of the largest rings have up to some 8 MB. */
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;

/**
 * After so long another attempt to connect begins, in ms. The system would try again only after 1, 3, 7, 15 s, and so
 * on, if strangers leave no room for the first packets.
 */
const CONNECT_MS = 2_000;

/** If a member is late, the launcher says so, or kills it. This is for a launcher that does not answer. */
export const NO_LAUNCHER_MS = 60_000;

/** How long a member that leaves waits for the launcher. */
const LEAVE_MS = 5_000;

/** What a member of an elastic run needs to talk to the launcher between two rings. */
export interface MemberPlace extends MeetingPlace {
  readonly rank: number;
}

/** A member's connection to the coordinator. */
export class CoordinatorLine {
  private readonly socket: Dealer;
  private readonly endpoint: string;

  /**
   * @param waitMs How long to wait for each answer.
   * @param noAnswer Makes the error if there is no answer, from the endpoint of the rendezvous.
   */
  constructor(
    { masterAddr, masterPort, security }: MeetingPlace,
    private readonly waitMs: number,
    private readonly noAnswer: (endpoint: string) => GradringError | Promise<GradringError>,
  ) {
    this.socket = register(
      new Dealer({
        ipv6: true,
        linger: 400,
        maxMessageSize: MAX_MESSAGE_BYTES,
        connectTimeout: CONNECT_MS,
        reconnectInterval: 50,
        reconnectMaxInterval: 1_000,
        // ZeroMQ gives a connection up if the other end speaks another protocol, such as one without encryption. Then
        // there is nobody to send to, and a send would wait for ever.
        sendTimeout: Math.min(waitMs, NO_LAUNCHER_MS),
        ...(security && curveClient(security.guest, security.host.publicKey)),
      }),
    );
    this.endpoint = endpointOf(masterAddr, masterPort);
    this.socket.connect(this.endpoint);
  }

  /** @throws GradringError `ERR_RENDEZVOUS_TIMEOUT` if there is nobody to send it to. */
  async send(message: RendezvousMessage): Promise<void> {
    await this.socket.send(encodeRendezvousMessage(message)).catch(async (error: NodeJS.ErrnoException) => {
      throw error.code === 'EAGAIN' ? await this.noAnswer(this.endpoint) : error;
    });
  }

  /** @throws GradringError The coordinator's refusal; `ERR_RENDEZVOUS_TIMEOUT`; `ERR_PROTOCOL`. */
  async receive<Kind extends RendezvousMessage['kind']>(kind: Kind): Promise<RendezvousMessage & { kind: Kind }> {
    const timer = new WakingTimer(() => this.close(), this.waitMs);
    const parts = await this.socket
      .receive()
      .finally(() => timer.cancel())
      .catch(async () => {
        throw await this.noAnswer(this.endpoint);
      });
    const message = this.messageIn(parts);
    if (message.kind === 'refuse') throw new GradringError(message.code, message.message);
    if (message.kind !== kind) throw this.outOfTurn(message);
    return message as RendezvousMessage & { kind: Kind };
  }

  /** The error for an answer that is not expected at this moment, or that cannot be true. */
  outOfTurn({ kind }: RendezvousMessage): GradringError {
    return this.broken(`it answered with '${kind}', which was not expected`);
  }

  private messageIn(parts: readonly Buffer[]): RendezvousMessage {
    try {
      return decodeRendezvousMessage(parts);
    } catch (error) {
      throw this.broken((error as Error).message);
    }
  }

  private broken(why: string): GradringError {
    const words = `The rendezvous at ${this.endpoint} broke the protocol: ${why.replace(/\.$/, '')}.`;
    return new GradringError('ERR_PROTOCOL', words);
  }

  close(): void {
    unregister(this.socket);
    this.socket.close();
  }
}

/** Asks the launcher how many newcomers wait to be let in. */
export async function askWaiting(place: MemberPlace): Promise<number> {
  const line = lineToLauncher(place, NO_LAUNCHER_MS);
  try {
    await line.send({ kind: 'ask', rank: place.rank });
    return (await line.receive('waiting')).count;
  } finally {
    line.close();
  }
}

/** Tells the launcher that this member will not come any more. Settles when the launcher has read it. */
export async function sayLeave(place: MemberPlace): Promise<void> {
  const line = lineToLauncher(place, LEAVE_MS);
  try {
    await line.send({ kind: 'leave', rank: place.rank });
    await line.send({ kind: 'ask', rank: place.rank }); // a send is done before there is a connection
    await line.receive('waiting');
  } finally {
    line.close();
  }
}

export function lineToLauncher(place: MemberPlace, waitMs: number): CoordinatorLine {
  return new CoordinatorLine(place, waitMs, endpoint => {
    const words = `Rank ${place.rank} got no answer from the launcher at ${endpoint}. Is GRADRING_ENCRYPTION the same for both?`;
    return new GradringError('ERR_RENDEZVOUS_TIMEOUT', words);
  });
}
