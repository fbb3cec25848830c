import type { Random } from './random';

/** Entries of one tensor, in two arrays of the same length. */
export interface TailEntries {
  /** Ascending. */
  readonly indices: Uint32Array;
  readonly values: Float32Array;
}

const SCALE = 0.01;

/**
 * Entries that a rank might send. All elements are equally likely. The values are those of a Laplace distribution above
 * the threshold that this many elements pass.
 *
 * @param count Less than elementCount. A count close to it takes long.
 */
export function tailEntries(elementCount: number, count: number, random: Random): TailEntries {
  const chosen = new Uint8Array(elementCount);
  for (let missing = count; missing > 0;) {
    const index = Math.floor(random() * elementCount);
    if (chosen[index] === 1) continue;
    chosen[index] = 1;
    missing--;
  }
  const indices = new Uint32Array(count);
  for (let found = 0, index = 0; found < count; index++) if (chosen[index] === 1) indices[found++] = index;
  const threshold = SCALE * Math.log(elementCount / count);
  const values = new Float32Array(count);
  for (let i = 0; i < count; i++) {
    const magnitude = threshold - SCALE * Math.log(1 - random());
    values[i] = random() < 0.5 ? -magnitude : magnitude;
  }
  return { indices, values };
}
