/** A command. If it fails, the caller is told when it waits for it, in one of the two ways. */
export interface Ticket<T> {
  /** Settles when it is over. */
  readonly promise: Promise<T>;
  /** Sleeps until it is over. */
  sleep(): T;
}

/**
 * What waits for commands, without saying how: it yields each ticket, and gets its result. So there is one text for
 * code that sleeps meanwhile ({@link asleep}) and for code that does not ({@link awake}).
 */
export type Work<T> = Generator<Ticket<unknown>, T, unknown>;

/** Waits within {@link Work}. */
export function* waitFor<T>(ticket: Ticket<T>): Work<T> {
  return (yield ticket) as T;
}

/** Waits within {@link Work} that is never run asleep. */
export function waitForPromise<T>(promise: Promise<T>): Work<T> {
  const sleep = () => {
    throw new Error('No thread can sleep until a promise settles.');
  };
  return waitFor({ promise, sleep });
}

/** Runs work. The thread sleeps while it waits. */
export function asleep<T>(work: Work<T>): T {
  let next = work.next();
  while (next.done !== true) {
    let result: unknown;
    try {
      result = next.value.sleep();
    } catch (error) {
      next = work.throw(error);
      continue;
    }
    next = work.next(result);
  }
  return next.value;
}

/** Runs work. The thread does other things while it waits. */
export async function awake<T>(work: Work<T>): Promise<T> {
  let next = work.next();
  while (next.done !== true) {
    let result: unknown;
    try {
      result = await next.value.promise;
    } catch (error) {
      next = work.throw(error);
      continue;
    }
    next = work.next(result);
  }
  return next.value;
}
