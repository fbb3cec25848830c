/** A socket, or what closes one. */
interface Closable {
  close(): void | Promise<void>;
}

/**
 * What this thread has open. Node aborts the whole process when a thread ends that still awaits a ZeroMQ socket or its
 * events (an exception in zeromq's clean-up), so whoever ends the thread closes them all before.
 */
const open = new Set<Closable>();
let ending = false;

/** Remembers something to be closed by {@link closeAllSockets}, unless it is {@link closed} before. */
export function opened<T extends Closable>(closable: T): T {
  if (ending) void closable.close(); // the thread was told to end while this was being opened
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
  await Promise.all([...open].map(closable => closable.close()));
  open.clear();
}
