import { Context, Reply } from 'zeromq';
import { type CurveServer, encodeKey, type KeyPair } from './curve';
import { bind, unregister, register } from './open-sockets';

/** Where ZeroMQ asks whether a peer that has proved its key may connect (ZeroMQ RFC 27). */
const ADDRESS = 'inproc://zeromq.zap.01';

/** Shared by successive rings of this thread, because ZeroMQ ends a context only with the process. */
let authenticator: Authenticator | undefined;

/**
 * Decides who may connect to this rank's encrypted sockets of a ring: to each, the holder of one key. ZeroMQ asks when
 * a peer has proved that it holds a key. Its own threads refuse a peer that holds none.
 */
export class Gate {
  private readonly names: string[] = [];

  private constructor(private readonly authenticator: Authenticator) {}

  static open(): Gate {
    authenticator ??= Authenticator.open();
    return new Gate(authenticator);
  }

  /**
   * Options for a socket that will be bound.
   *
   * @param clientKey The public key of the only peer that may connect.
   */
  serve({ secretKey }: KeyPair, clientKey: string): CurveServer {
    const { context } = this.authenticator;
    const name = this.authenticator.admit(clientKey);
    this.names.push(name);
    // Enforced, because without an authenticator ZeroMQ would let every peer in.
    return { context, curveServer: true, curveSecretKey: secretKey, zapDomain: name, zapEnforceDomain: true };
  }

  /** From now on this gate lets no peer in. Existing connections continue. */
  close(): void {
    for (const name of this.names) this.authenticator.withdraw(name);
  }

  /**
   * Closes the gate, and the authenticator if no other gate of this thread needs it. An open one would keep the process
   * alive.
   */
  closeAuthenticator(): void {
    this.close();
    if (this.authenticator.closeUnused()) authenticator = undefined;
  }
}

/** Answers ZeroMQ's questions until the thread's sockets are closed. */
class Authenticator {
  private readonly admitted = new Map<string, string>();
  private count = 0;

  private constructor(
    /** Belongs to this thread: a context has room for one authenticator, and a process may have several. */
    readonly context: Context,
    private readonly socket: Reply,
  ) {
    void this.answer();
  }

  static open(): Authenticator {
    const context = new Context();
    const socket = register(new Reply({ context, linger: 0 }));
    bind(socket, ADDRESS);
    return new Authenticator(context, socket);
  }

  /** Returns the ZAP domain of the sockets that the holder of a key may connect to. */
  admit(clientKey: string): string {
    const name = `link ${this.count++}`;
    this.admitted.set(name, clientKey);
    return name;
  }

  withdraw(name: string): void {
    this.admitted.delete(name);
  }

  /** Closes if no key is admitted any more. Returns whether it did. */
  closeUnused(): boolean {
    if (this.admitted.size > 0) return false;
    unregister(this.socket);
    this.socket.close();
    return true;
  }

  private async answer(): Promise<void> {
    for (;;) {
      try {
        const [version, request, name, , , mechanism, key] = await this.socket.receive();
        const isAdmitted = String(mechanism) === 'CURVE' && encodeKey(key!) === this.admitted.get(String(name));
        const verdict = isAdmitted ? ['200', 'OK'] : ['400', 'Not of this ring'];
        await this.socket.send([version!, request!, ...verdict, '', '']);
      } catch {
        return; // closed
      }
    }
  }
}
