import type { Router } from 'zeromq';
import { closed } from '../transport/control/open-sockets';
import type { RendezvousMessage } from '../wire/rendezvous-message';
import type { Coordinator } from './coordinator';
import { bindHost } from './host';
import type { RendezvousOptions } from './rendezvous-options';
import { type Encryption, type RunSecurity, securityOf } from './run-security';
import { fromText, toText } from './text-message';

/** Where a run's members meet, and what they must prove. */
export interface CoordinatorPlace extends Pick<RendezvousOptions, 'masterAddr' | 'masterPort'> {
  readonly encryption: Encryption;
  readonly runToken: string | undefined;
}

/**
 * Carries what members and the {@link Coordinator} say to each other, in the launcher's process, for as long as the run
 * lasts.
 */
export class CoordinatorSocket {
  private readonly served: Promise<void>;
  private sending: Promise<void> = Promise.resolve();
  private isClosed = false;

  private constructor(
    private readonly socket: Router,
    private readonly security: RunSecurity | undefined,
    private readonly coordinator: Coordinator,
  ) {
    this.served = this.serve();
  }

  /** @throws GradringError `ERR_ADDRESS_IN_USE` */
  static open(place: CoordinatorPlace, coordinator: Coordinator): CoordinatorSocket {
    const security = securityOf(place);
    try {
      return new CoordinatorSocket(bindHost({ ...place, security }), security, coordinator);
    } catch (error) {
      security?.gate.closeDesk();
      throw error;
    }
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.coordinator.close();
    closed(this.socket);
    this.socket.close();
    this.security?.gate.closeDesk();
    await this.served;
  }

  private async serve(): Promise<void> {
    while (!this.isClosed) {
      let parts: Buffer[];
      try {
        parts = await this.socket.receive();
      } catch {
        return; // closed
      }
      const [routing, bytes] = parts;
      if (routing === undefined || bytes === undefined) continue;
      try {
        const tell = (message: RendezvousMessage) => this.send(routing, message);
        this.coordinator.hear(fromText(bytes), { id: routing.toString('hex'), tell });
      } catch {
        continue; // a stranger's bytes: no reason to stop
      }
    }
  }

  /** One at a time; who is gone again gets nothing. */
  private send(routing: Buffer, message: RendezvousMessage): void {
    this.sending = this.sending.then(() => this.socket.send([routing, toText(message)])).catch(() => undefined);
  }
}
