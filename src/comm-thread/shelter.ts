import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { type MessagePort, parentPort } from 'node:worker_threads';
import { makeSocketFolder } from '../rendezvous/socket-folder';

/** How often the comm thread asks the sentry. */
const ASK_MS = 100;

/** This many questions without an answer mean that the sentry has ended. It has nothing to do but to answer. */
const MOST_UNANSWERED = 10;

/**
 * Lets a comm thread close its sockets if the rank is itself a worker, and is terminated. Node gives such a worker no
 * time for that, and terminates the threads that it has started, too. If a thread is terminated while zeromq waits for
 * a message, or is called, zeromq throws an exception that nobody can catch, and the process aborts.
 *
 * So two more threads stand between: the rank starts the sentry, which starts the door, which starts the comm thread.
 * Node ends them in this order, and each must have ended before the one that has started it. The sentry's end tells the
 * comm thread that the rank is being terminated. The door sleeps in a system call, which termination does not
 * interrupt, until the comm thread leaves. So nothing terminates the comm thread before.
 *
 * Questions are counted, not seconds: when a process that was suspended goes on, the sentry has not ended.
 */
export class Shelter {
  private unanswered = 0;
  private readonly timer = setInterval(() => this.ask(), ASK_MS);

  private constructor(
    private readonly door: Socket,
    private readonly sentry: MessagePort,
    private readonly onTerminated: () => void,
  ) {
    sentry.on('message', () => (this.unanswered = 0));
  }

  /**
   * Settles when the door sleeps.
   *
   * @param sentry Answers each message.
   * @param onTerminated The rank is being terminated: close everything, then {@link leave}.
   */
  static async enter(sentry: MessagePort, onTerminated: () => void): Promise<Shelter> {
    const folder = makeSocketFolder(process.env['GRADRING_SOCKET_FOLDER'] || undefined);
    const server = createServer().listen(join(folder, 'door'));
    await once(server, 'listening');
    parentPort!.postMessage(server.address());
    const [door] = (await once(server, 'connection')) as [Socket];
    server.close();
    rmSync(folder, { recursive: true });
    await once(door, 'data');
    return new Shelter(door, sentry, onTerminated);
  }

  /** From now on the thread may be terminated. */
  leave(): void {
    clearInterval(this.timer);
    this.sentry.close();
    this.door.destroy(); // which wakes the door
  }

  private ask(): void {
    if (this.unanswered++ === MOST_UNANSWERED) this.onTerminated();
    this.sentry.postMessage(undefined);
  }
}
