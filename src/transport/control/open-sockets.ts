import { GradringError } from '../../errors';

/** A socket, or what goes with one. */
interface Closable {
  close(): void | Promise<void>;
}

/**
 * What this thread has open. Node aborts the whole process when a thread ends that still awaits a ZeroMQ socket or its
 * events (an exception in zeromq's clean-up), so whoever ends the thread closes them all before.
 */
const open = new Set<Closable>();
let ending = false;

/**
 * Remembers something to be closed by {@link closeAllSockets}, unless it is {@link closed} before.
 *
 * @throws GradringError `ERR_CLOSED`, and closes it, if the thread was told to end: whoever was about to use it stops
 *   there.
 */
export function opened<T extends Closable>(closable: T): T {
  if (ending) {
    void closable.close();
    throw new GradringError('ERR_CLOSED', 'The communicator was closed.');
  }
  open.add(closable);
  return closable;
}

/** Forgets it. */
export function closed(closable: Closable): void {
  open.delete(closable);
}

/** Closes all that is open, and settles when it is gone. What was awaited fails. */
export async function closeAllSockets(): Promise<void> {
  ending = true;
  await Promise.allSettled([...open].map(async closable => closable.close()));
  open.clear();
}

/**
 * Binds at once: a bind that goes on in another thread, as zeromq's other one does, would outlive the end of this one,
 * and abort the process.
 */
export function bind(socket: { bindSync(endpoint: string): void }, endpoint: string): void {
  socket.bindSync(endpoint);
}
