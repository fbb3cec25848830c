import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Frees the shared memories that this thread has dropped. A memory is gone when every thread that had it has done so.
 *
 * V8 does not count shared memory when it decides when to collect. So dropped gigabytes would stay as long as little
 * else is allocated: on the comm thread, for ever. Only the flag makes a collection possible. It collects this thread's
 * whole heap.
 */
export function collectGarbage(): void {
  collect ??= exposedCollector();
  collect();
}

let collect: (() => void) | undefined;

function exposedCollector(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
}
