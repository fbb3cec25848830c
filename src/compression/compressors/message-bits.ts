import { malformed } from '../bit-stream';

/** Writes bits, the lowest first, to bytes that grow. */
export class MessageWriter {
  private bytes = new Uint8Array(256);
  private length = 0;
  /** Bits that are not in {@link bytes} yet, fewer than 8. */
  private pending = 0;
  private pendingCount = 0;

  /** Writes the lowest `count` bits of a number, at most 24. */
  bits(value: number, count: number): void {
    this.pending |= (value & ((1 << count) - 1)) << this.pendingCount;
    this.pendingCount += count;
    while (this.pendingCount >= 8) {
      this.byte(this.pending & 255);
      this.pending >>>= 8;
      this.pendingCount -= 8;
    }
  }

  float32(value: number): void {
    FLOAT[0] = value;
    this.bits(WORD[0]! & 0xffff, 16);
    this.bits(WORD[0]! >>> 16, 16);
  }

  /** Rice code: the quotient by 2^p in ones and a zero, then p bits. */
  rice(value: number, p: number): void {
    for (let quotient = value >>> p; quotient > 0; quotient--) this.bits(1, 1);
    this.bits(0, 1);
    this.bits(value, p);
  }

  /** Elias's omega code of a number of at least 1 (Elias 1975; Alistarh et al. 2017, appendix A.2). */
  elias(value: number): void {
    const groups: [value: number, bits: number][] = [];
    for (let rest = value; rest > 1;) {
      const bits = 32 - Math.clz32(rest);
      groups.push([rest, bits]);
      rest = bits - 1;
    }
    // The highest bit of a group comes first: it is 1, and tells the group from the 0 at the end.
    for (const [group, bits] of groups.reverse()) {
      for (let bit = bits - 1; bit >= 0; bit--) this.bits(group >>> bit, 1);
    }
    this.bits(0, 1);
  }

  get bitCount(): number {
    return 8 * this.length + this.pendingCount;
  }

  /** Writes what another writer has. */
  append(other: MessageWriter): void {
    for (const byte of other.bytes.subarray(0, other.length)) this.bits(byte, 8);
    this.bits(other.pending, other.pendingCount);
  }

  /** All that was written, padded with zeros to a byte. */
  finish(): Uint8Array {
    if (this.pendingCount > 0) this.byte(this.pending);
    return this.bytes.slice(0, this.length);
  }

  private byte(value: number): void {
    if (this.length === this.bytes.length) {
      const grown = new Uint8Array(2 * this.length);
      grown.set(this.bytes);
      this.bytes = grown;
    }
    this.bytes[this.length++] = value;
  }
}

/** Reads what a {@link MessageWriter} wrote. Every method throws `ERR_PROTOCOL` at the end of the message. */
export class MessageReader {
  private at = 0;
  private pending = 0;
  private pendingCount = 0;

  constructor(private readonly bytes: Uint8Array) {}

  /** The next `count` bits, at most 24. */
  bits(count: number): number {
    while (this.pendingCount < count) {
      if (this.at === this.bytes.length) throw malformed('holds a message that is cut short');
      this.pending |= this.bytes[this.at++]! << this.pendingCount;
      this.pendingCount += 8;
    }
    const value = this.pending & ((1 << count) - 1);
    this.pending >>>= count;
    this.pendingCount -= count;
    return value;
  }

  /** @throws GradringError `ERR_PROTOCOL` also for NaN and infinity. */
  float32(): number {
    const low = this.bits(16);
    WORD[0] = low | (this.bits(16) << 16);
    const value = FLOAT[0]!;
    if (!Number.isFinite(value)) throw malformed('holds a number that is not finite');
    return value;
  }

  rice(p: number): number {
    let quotient = 0;
    while (this.bits(1) === 1) quotient++;
    return quotient * 2 ** p + this.bits(p);
  }

  elias(): number {
    let value = 1;
    while (this.bits(1) === 1) {
      if (value > 31) throw malformed('holds a number that is too large');
      let group = 1;
      for (let bit = 0; bit < value; bit++) group = group * 2 + this.bits(1);
      value = group;
    }
    return value;
  }

  /** Checks that only padding is left. */
  finish(): void {
    if (this.at < this.bytes.length || this.pending !== 0) throw malformed('holds a message that is too long');
  }
}

const FLOAT = new Float32Array(1);
const WORD = new Uint32Array(FLOAT.buffer);
