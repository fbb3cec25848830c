// Looked up once: every look-up of a global is slow in Jest's realm.
const { floor, imul } = Math;

/** Seeded numbers, the same in every run: mulberry32. */
class Random {
  /** @param {number} seed */
  constructor(seed) {
    this.state = seed >>> 0;
  }

  uint32() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let mixed = imul(this.state ^ (this.state >>> 15), this.state | 1);
    mixed ^= mixed + imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  }

  /** In [0, 1). */
  uniform() {
    return this.uint32() / 2 ** 32;
  }

  /** A whole number from 0 to n − 1; 0 if n is 0. */
  below(n) {
    return floor(this.uniform() * n);
  }

  of(list) {
    return list[this.below(list.length)];
  }

  bytes(count) {
    return Uint8Array.from({ length: count }, () => this.uint32());
  }
}

module.exports = { Random };
