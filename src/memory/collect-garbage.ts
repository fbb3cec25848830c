import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Frees the shared memories that this thread holds no more; a memory is gone when every thread that had it has done so.
 *
 * V8 leaves shared memory out of the count that decides when to collect, so that gigabytes which were dropped would
 * stay for as long as little else is allocated: on the comm thread, for ever. There is no other way to ask than the
 * flag. Costs a full collection of this thread's heap.
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
