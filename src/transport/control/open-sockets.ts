import { closedError } from '../../errors';

/**
 * How long a new connection has to prove that it is one of this run, in ms. Strangers hold a descriptor for so long,
 * and if they hold all, the peers wait.
 */
export const PROOF_MS = 10_000;

/** A socket, or its owner. */
interface Closable {
  close(): void | Promise<void>;
}

/**
 * What this thread has open. If a thread ends while it awaits a ZeroMQ socket or its events, Node aborts the process
 * (an exception in zeromq's clean-up). So all are closed before the thread ends.
 */
const open = new Set<Closable>();
let ending = false;

/**
 * Registers something that {@link closeAllSockets} must close, unless it is closed before.
 *
 * @throws GradringError `ERR_CLOSED` if the thread was told to end. It is then closed, and the caller must not use it.
 */
export function register<T extends Closable>(closable: T): T {
  if (ending) {
    void closable.close();
    throw closedError();
  }
  open.add(closable);
  return closable;
}

/** Removes something that its owner closes. */
export function unregister(closable: Closable): void {
  open.delete(closable);
}

/** Closes everything that is open. Settles when all of it is gone. Calls that wait for it fail. */
export async function closeAllSockets(): Promise<void> {
  ending = true;
  await Promise.allSettled([...open].map(async closable => closable.close()));
  open.clear();
}

/**
 * Binds synchronously. zeromq's asynchronous bind runs in another thread. If it outlived this thread, it would abort
 * the process.
 */
export function bind(socket: { bindSync(endpoint: string): void }, endpoint: string): void {
  socket.bindSync(endpoint);
}
