import { type Random, uniformNumbers } from './random';

/** Fills a gradient with finite values. */
type Fill = (into: Float32Array, random: Random) => void;

/** How the values of a synthetic gradient are distributed. */
interface Spread {
  readonly fill: Fill;
  /** Whether the order of the values matters, so that they must not be rotated. */
  readonly fixed?: boolean;
}

const SCALE = 0.01;

const SPREADS = {
  /** What is usually assumed for gradients. */
  normal: { fill: (into, random) => fillNormal(into, random, SCALE) },
  /** With heavier tails, like the gradients of deep networks. */
  laplace: {
    fill: (into, random) => {
      for (let i = 0; i < into.length; i++) {
        const uniform = random() - 0.5;
        into[i] = -SCALE * Math.sign(uniform) * Math.log(1 - 2 * Math.abs(uniform));
      }
    },
  },
  /** All elements are equal. */
  equal: { fill: into => into.fill(SCALE) },
  /** Fewer non-zero elements than a step sends. */
  zero: { fill: into => into.fill(0) },
  /** One element is far larger than all others. It stays at its place, so every step sends it. */
  'one-huge': {
    fill: (into, random) => {
      fillNormal(into, random, SCALE);
      into[Math.floor(random() * into.length)] = 1e30;
    },
    fixed: true,
  },
  /** Below the smallest normal float32: processors may be slow there. */
  denormal: { fill: (into, random) => fillNormal(into, random, 1e-40) },
  /** Ascending values: the largest magnitudes are together at both ends. */
  sorted: {
    fill: (into, random) => {
      fillNormal(into, random, SCALE);
      into.sort();
    },
    fixed: true,
  },
  /** One element in a hundred is not zero, like in the gradient of an embedding. */
  sparse: {
    fill: (into, random) => {
      fillNormal(into, random, SCALE);
      for (let i = 0; i < into.length; i++) if (random() >= 0.01) into[i] = 0;
    },
  },
} as const satisfies Record<string, Spread>;

/** How the elements of a synthetic gradient are distributed. */
export type Distribution = keyof typeof SPREADS;

export const DISTRIBUTIONS = Object.keys(SPREADS) as Distribution[];

/**
 * Random gradients for the steps of a training. The same seed gives the same gradients.
 *
 * Drawing millions of numbers takes far longer than compressing them. So they are drawn once, and each step gets them
 * rotated by another distance. Then the gradients of one element in different steps, which u and v add up, are
 * independent.
 */
export class GradientSource {
  private readonly values: Float32Array;
  private readonly random: Random;
  private readonly fixed: boolean;

  /** It holds 4 bytes for each element. */
  constructor(distribution: Distribution, elementCount: number, seed: number) {
    const spread: Spread = SPREADS[distribution];
    this.values = new Float32Array(elementCount);
    this.random = uniformNumbers(seed);
    this.fixed = spread.fixed === true;
    spread.fill(this.values, this.random);
  }

  /** Draws the position at which the gradient of the next step begins. */
  next(): number {
    return this.fixed ? 0 : Math.floor(this.random() * this.values.length);
  }

  /**
   * Writes the gradient that begins at a position, or as much of it as `into` holds.
   *
   * @param into At most as long as this source.
   */
  write(into: Float32Array, start: number): void {
    const beforeEnd = this.values.subarray(start, start + into.length);
    into.set(beforeEnd);
    into.set(this.values.subarray(0, into.length - beforeEnd.length), beforeEnd.length);
  }
}

/** Normal numbers by the method of Box and Muller, which gives two at a time. */
function fillNormal(into: Float32Array, random: Random, deviation: number): void {
  for (let i = 0; i < into.length; i += 2) {
    const radius = deviation * Math.sqrt(-2 * Math.log(1 - random()));
    const angle = 2 * Math.PI * random();
    into[i] = radius * Math.cos(angle);
    into[i + 1] = radius * Math.sin(angle); // A write past the end has no effect.
  }
}
