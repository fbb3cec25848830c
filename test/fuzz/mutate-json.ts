import type { Entry } from './fuzz';
import { mutateBytes } from './mutate-bytes';
import type { Random } from './random';

// Damage to values of JSON: what is well written, and means something else.

const VALUES = [
  0,
  1,
  -1,
  0.5,
  2 ** 31,
  2 ** 32 - 1,
  2 ** 32,
  2 ** 53,
  -(2 ** 53),
  1e300,
  null,
  true,
  '',
  'F32',
  'BOOL',
  '../x',
  '\x1b[2J',
  '\u202e',
  '\ud800',
  'x'.repeat(600),
  [],
  [0],
  [0, 4],
  {},
];

/**
 * An object with one to three damages to what it holds. It stays as it was.
 */
export function mutateJson(random: Random, value: object): object {
  const mutant = structuredClone(value) as Parent;
  for (let left = 1 + random.below(3); left > 0; left--) {
    const keys = Object.keys(mutant);
    if (keys.length > 0) damage(random, mutant, random.of(keys));
  }
  return mutant;
}

type Parent = Record<string, unknown>;

function isParent(node: unknown): node is Parent {
  return typeof node === 'object' && node !== null;
}

/** Damages something within what `parent` has under the key. */
function damage(random: Random, parent: Parent, key: string): void {
  const node = parent[key];
  const keys = isParent(node) ? Object.keys(node) : [];
  // Leaves more often than all that hangs on a branch, or little would be left to find out.
  if (isParent(node) && keys.length > 0 && random.below(10) > 0) return damage(random, node, random.of(keys));
  if (typeof node === 'number' && random.below(2) === 0) set(parent, key, node + random.of([1, -1, 4, -4, 0.5]));
  else if (random.below(4) === 0) delete parent[key];
  else
    set(
      parent,
      random.below(4) === 0 ? random.of([...Object.keys(parent), '__proto__']) : key,
      structuredClone(random.of([...VALUES, node])),
    );
}

/** An assignment to `__proto__` would not be one to a key of that name. */
function set(parent: Parent, key: string, value: unknown): void {
  Object.defineProperty(parent, key, { value, writable: true, enumerable: true, configurable: true });
}

/** Damages an object in JSON. One time in four, and where it is none any more, it is damaged as bytes. */
export function mutateJsonOrBytes(random: Random, { bytes }: Entry, other: Entry): Entry {
  const value = random.below(4) === 0 ? undefined : objectIn(bytes);
  if (value === undefined) return { bytes: mutateBytes(random, bytes, other.bytes) };
  return { bytes: Buffer.from(JSON.stringify(mutateJson(random, value))) };
}

function objectIn(bytes: Uint8Array): object | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(bytes).toString('utf8'));
    return isParent(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
