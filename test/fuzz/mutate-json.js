// Damage to values of JSON: what is well written, and means something else.

const VALUES = [
  0,
  1,
  -1,
  0.5,
  2 ** 31,
  2 ** 53,
  -(2 ** 53),
  1e300,
  null,
  true,
  '',
  'F32',
  'BOOL',
  '../x',
  [],
  [0],
  [0, 4],
  {},
];

/**
 * An object with one to three damages to what it holds. It stays as it was.
 *
 * @param {import('./random').Random} random
 * @param {object} value
 */
function mutateJson(random, value) {
  const mutant = structuredClone(value);
  for (let left = 1 + random.below(3); left > 0; left--) {
    const keys = Object.keys(mutant);
    if (keys.length > 0) damage(random, mutant, random.of(keys));
  }
  return mutant;
}

/** Damages something within what `parent` has under the key. */
function damage(random, parent, key) {
  const node = parent[key];
  const keys = typeof node === 'object' && node !== null ? Object.keys(node) : [];
  // Leaves more often than all that hangs on a branch, or little would be left to find out.
  if (keys.length > 0 && random.below(10) > 0) return damage(random, node, random.of(keys));
  if (typeof node === 'number' && random.below(2) === 0) set(parent, key, node + random.of([1, -1, 4, -4, 0.5]));
  else if (random.below(4) === 0) delete parent[key];
  else
    set(
      parent,
      random.below(4) === 0 ? random.of(Object.keys(parent)) : key,
      structuredClone(random.of([...VALUES, node])),
    );
}

/** An assignment to `__proto__` would not be one to a key of that name. */
function set(parent, key, value) {
  Object.defineProperty(parent, key, { value, writable: true, enumerable: true, configurable: true });
}

module.exports = { mutateJson };
