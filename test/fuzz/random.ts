// Looked up once: every look-up of a global is slow in Jest's realm.
const { floor, imul } = Math;

/** Seeded numbers, the same in every run: mulberry32. */
export class Random {
  private state: number;

  constructor(seed: number) {
    this.state = seed >>> 0;
  }

  uint32(): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let mixed = imul(this.state ^ (this.state >>> 15), this.state | 1);
    mixed ^= mixed + imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  }

  /** In [0, 1). */
  uniform(): number {
    return this.uint32() / 2 ** 32;
  }

  /** A whole number from 0 to n − 1; 0 if n is 0. */
  below(n: number): number {
    return floor(this.uniform() * n);
  }

  of<T>(list: readonly T[]): T {
    return list[this.below(list.length)];
  }

  bytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => this.uint32());
  }
}
