import util from 'node:util';

/** Functions of `util` that tfjs-node 4.22 calls and that Node removed (isNullOrUndefined, in 23) or deprecated. */
const USED_BY_TFJS_NODE = {
  isArray: Array.isArray,
  isNullOrUndefined: (value: unknown) => value === null || value === undefined,
};

/**
 * Adds to `util` the functions that tfjs-node calls and this Node does not have. tfjs-node looks them up at each call,
 * so they stay. Functions that Node has are not changed.
 */
export function restoreUtil(): void {
  for (const [name, value] of Object.entries(USED_BY_TFJS_NODE)) {
    if (!(name in util)) Object.defineProperty(util, name, { value, configurable: true, writable: true });
  }
}
