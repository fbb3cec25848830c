import { Router } from 'zeromq';
import { isLoopback } from '../environment/network';
import { GradringError } from '../errors';
import { Observer } from '../observer';
import { bind, PROOF_MS, unregister, register } from '../transport/control/open-sockets';
import { decodeRendezvousMessage, encodeRendezvousMessage, type RendezvousMessage } from '../wire/rendezvous-message';
import type { Coordinator } from './coordinator';
import { endpointOf, type MeetingPlace } from './rendezvous-options';

/** The messages of members are short. A peer that sends more is disconnected. */
const MAX_MESSAGE_BYTES = 65_536;

/** Carries messages between members and the {@link Coordinator}, in the process that holds the rendezvous. */
export class CoordinatorSocket {
  private readonly served: Promise<void>;
  private sending: Promise<void> = Promise.resolve();
  /** What all members are told is encoded once. */
  private last: { readonly message: RendezvousMessage; readonly text: string } | undefined;

  private constructor(
    private readonly socket: Router,
    private readonly coordinator: Coordinator,
    private readonly observer: Observer,
  ) {
    this.served = this.serve();
  }

  /**
   * @param observer Counts the messages.
   * @throws GradringError `ERR_ADDRESS_IN_USE`
   */
  static open(place: MeetingPlace, coordinator: Coordinator, observer = new Observer()): CoordinatorSocket {
    return new CoordinatorSocket(bindRouter(place), coordinator, observer);
  }

  /** Earlier messages are still sent, because the socket lingers. */
  async close(): Promise<void> {
    this.coordinator.stopWaiting();
    await this.sending;
    unregister(this.socket);
    this.socket.close();
    await this.served;
  }

  private async serve(): Promise<void> {
    for (;;) {
      let parts: Buffer[];
      try {
        parts = await this.socket.receive();
      } catch {
        return; // closed
      }
      const [routing, ...rest] = parts as [Buffer, ...Buffer[]];
      this.observer.count('rendezvousMessagesReceived');
      this.observer.count(
        'rendezvousBytesReceived',
        rest.reduce((sum, { length }) => sum + length, 0),
      );
      const line = { id: routing.toString('hex'), tell: (message: RendezvousMessage) => this.send(routing, message) };
      let message: RendezvousMessage;
      try {
        message = decodeRendezvousMessage(rest);
      } catch (error) {
        this.coordinator.hearBroken((error as Error).message, line);
        continue;
      }
      this.coordinator.hear(message, line);
    }
  }

  /** Sends one message at a time. A member that is gone gets nothing. */
  private send(routing: Buffer, message: RendezvousMessage): void {
    this.sending = this.sending
      .then(() => {
        if (this.last?.message !== message) this.last = { message, text: encodeRendezvousMessage(message) };
        const { text } = this.last;
        this.observer.count('rendezvousMessagesSent');
        this.observer.count('rendezvousBytesSent', Buffer.byteLength(text));
        return this.socket.send([routing, text]);
      })
      .catch(() => undefined);
  }
}

function bindRouter({ masterAddr, masterPort, security }: MeetingPlace): Router {
  const curve = security?.gate.serve(security.host, security.guest.publicKey);
  const limits = { linger: 2_000, maxMessageSize: MAX_MESSAGE_BYTES, handshakeInterval: PROOF_MS };
  const socket = register(new Router({ ipv6: true, ...limits, ...curve }));
  const endpoint = isLoopback(masterAddr) ? endpointOf(masterAddr, masterPort) : `tcp://*:${masterPort}`;
  try {
    bind(socket, endpoint);
    return socket;
  } catch (error) {
    unregister(socket);
    socket.close();
    const words =
      (error as { code?: string }).code === 'EADDRINUSE'
        ? `Port ${masterPort} is in use, perhaps by another run. Choose another MASTER_PORT, on every rank.`
        : `The rendezvous cannot listen at ${endpoint}: ${(error as Error).message}.`;
    throw new GradringError('ERR_ADDRESS_IN_USE', words, {}, { cause: error });
  }
}
