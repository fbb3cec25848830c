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
    if (value < SHORT_COUNT) {
      const { bits, count } = codeTable().codes[value]!;
      this.bits(bits, count);
    } else for (const bit of omegaBits(value)) this.bits(bit, 1);
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

/** How many bits {@link MessageWriter.elias} writes. */
export function eliasBits(value: number): number {
  return value < SHORT_COUNT ? codeTable().codes[value]!.count : omegaBits(value).length;
}

/** The bits of Elias's omega code, in their order. */
function omegaBits(value: number): number[] {
  const bits = [0];
  for (let rest = value; rest > 1;) {
    // The highest bit of a group comes first: it is 1, and tells the group from the 0 at the end.
    const group = [...rest.toString(2)].map(Number);
    bits.unshift(...group);
    rest = group.length - 1;
  }
  return bits;
}

/** A code: the lowest `count` of its bits. */
interface ShortCode {
  readonly bits: number;
  readonly count: number;
}

/** As {@link omegaBits}, for small numbers. */
function shortCode(value: number): ShortCode {
  let [bits, count] = [0, 1];
  for (let rest = value; rest > 1;) {
    const length = 32 - Math.clz32(rest);
    for (let bit = 0; bit < length; bit++) bits = (bits << 1) | ((rest >>> bit) & 1);
    count += length;
    rest = length - 1;
  }
  return { bits, count };
}

/** How many numbers, from 0, have a code in the table. */
const SHORT_COUNT = 4096;
/** How many bits of a message are looked up at once. */
const LOOKED_AT = 10;

/** The codes of small numbers. */
interface CodeTable {
  /** By the number. */
  readonly codes: readonly ShortCode[];
  /** By the next bits of a message: the number whose code they begin with, and the length of that code. */
  readonly starts: readonly { readonly value: number; readonly count: number }[];
}

let table: CodeTable | undefined;

/** Made when it is needed first: most processes and threads need none, and it takes some ms. */
function codeTable(): CodeTable {
  if (table !== undefined) return table;
  const codes = Array.from({ length: SHORT_COUNT }, (_, value) => shortCode(value));
  const starts = Array.from({ length: 1 << LOOKED_AT }, () => ({ value: -1, count: 0 }));
  codes.forEach(({ bits, count }, value) => {
    if (value === 0 || count > LOOKED_AT) return; // 0 has no code
    for (let next = bits; next < starts.length; next += 1 << count) starts[next] = { value, count };
  });
  return (table = { codes, starts });
}

/** Reads what a {@link MessageWriter} wrote. Every method throws `ERR_PROTOCOL` at the end of the message. */
export class MessageReader {
  private at = 0;
  private pending = 0;
  private pendingCount = 0;

  constructor(private readonly bytes: Uint8Array) {}

  /** The next `count` bits, at most 24. */
  bits(count: number): number {
    if (this.pendingCount < count) this.fill();
    const value = this.pending & ((1 << count) - 1);
    this.skip(count);
    return value;
  }

  private fill(): void {
    while (this.pendingCount < 24 && this.at < this.bytes.length) {
      this.pending |= this.bytes[this.at++]! << this.pendingCount;
      this.pendingCount += 8;
    }
  }

  private skip(count: number): void {
    if (this.pendingCount < count) throw malformed('holds a message that is cut short');
    this.pending >>>= count;
    this.pendingCount -= count;
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
    for (;;) {
      this.fill();
      const ones = 31 - Math.clz32(~this.pending & (this.pending + 1)); // behind the ones there is a 0
      this.skip(ones);
      quotient += ones;
      if (this.bits(1) === 0) return quotient * 2 ** p + this.bits(p);
      quotient++;
    }
  }

  elias(): number {
    this.fill();
    const short = codeTable().starts[this.pending & ((1 << LOOKED_AT) - 1)]!;
    if (short.count > 0) {
      this.skip(short.count);
      return short.value;
    }
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
