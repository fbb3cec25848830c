import { type Random, uniformNumbers } from './random';

/** Finite values for one gradient, in the order in which they lie in it. */
type Fill = (into: Float32Array, random: Random) => void;

/** How a synthetic gradient is spread, and whether its values may move from place to place. */
interface Spread {
  readonly fill: Fill;
  /** Whether the order is the point, so that a rotation would spoil it. */
  readonly fixed?: boolean;
}

const SCALE = 0.01;

const SPREADS = {
  /** What is usually assumed of gradients. */
  normal: { fill: (into, random) => fillNormal(into, random, SCALE) },
  /** With heavier tails, as gradients of deep networks have them. */
  laplace: {
    fill: (into, random) => {
      for (let i = 0; i < into.length; i++) {
        const uniform = random() - 0.5;
        into[i] = -SCALE * Math.sign(uniform) * Math.log(1 - 2 * Math.abs(uniform));
      }
    },
  },
  /** Every element ties with every other. */
  equal: { fill: into => into.fill(SCALE) },
  /** Fewer non-zero elements than are to be sent. */
  zero: { fill: into => into.fill(0) },
  /** One element far from all others. It stays where it is, and so is sent at every step. */
  'one-huge': {
    fill: (into, random) => {
      fillNormal(into, random, SCALE);
      into[Math.floor(random() * into.length)] = 1e30;
    },
    fixed: true,
  },
  /** Below the smallest normal float32, where processors may be slow. */
  denormal: { fill: (into, random) => fillNormal(into, random, 1e-40) },
  /** Ascending values: the largest magnitudes lie together at both ends. */
  sorted: {
    fill: (into, random) => {
      fillNormal(into, random, SCALE);
      into.sort();
    },
    fixed: true,
  },
  /** One element in a hundred is not zero, as in the gradient of an embedding. */
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
 * The gradients of a training's steps, made up: the same for the same seed.
 *
 * To draw millions of numbers takes far longer than to compress them. So they are drawn once, and each step sees them
 * rotated to another place: an element's gradients of different steps, which u and v add up, are then independent.
 */
export class GradientSource {
  private readonly values: Float32Array;
  private readonly random: Random;
  private readonly fixed: boolean;

  /** Holds 4 bytes an element. */
  constructor(distribution: Distribution, elementCount: number, seed: number) {
    const spread: Spread = SPREADS[distribution];
    this.values = new Float32Array(elementCount);
    this.random = uniformNumbers(seed);
    this.fixed = spread.fixed === true;
    spread.fill(this.values, this.random);
  }

  /** Draws where the next step's gradient begins. */
  next(): number {
    return this.fixed ? 0 : Math.floor(this.random() * this.values.length);
  }

  /**
   * Writes the gradient that begins there, or as much of it as `into` holds, which is at most as long as this source.
   */
  write(into: Float32Array, start: number): void {
    const beforeEnd = this.values.subarray(start, start + into.length);
    into.set(beforeEnd);
    into.set(this.values.subarray(0, into.length - beforeEnd.length), beforeEnd.length);
  }
}

/** Box and Muller's normal numbers, both of each pair. */
function fillNormal(into: Float32Array, random: Random, deviation: number): void {
  for (let i = 0; i < into.length; i += 2) {
    const radius = deviation * Math.sqrt(-2 * Math.log(1 - random()));
    const angle = 2 * Math.PI * random();
    into[i] = radius * Math.cos(angle);
    into[i + 1] = radius * Math.sin(angle); // Past the end it is dropped.
  }
}
