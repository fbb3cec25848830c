// Streams that no encoder writes, made bit by bit, where a decoder could go wrong: at the ends of ranges, of blocks and
// of windows. What must hold of those that are accepted, and of memory, is told in test/fuzz/payload-checker.ts.
import type { CodedTensor } from '../../src/compression/gradient-streams';
import type { ValueFormat } from '../../src/compression/value-format';
import { encodeGradientPayload } from '../../src/wire/gradient-payload';
import { PayloadChecker } from '../fuzz/payload-checker';

type Field = readonly [value: number, width: number];

/** Codes as they are written: two bits, after one that says that it is not Subset where that may be. */
const [RICE, CLUSTERS, BITMAP, FIXED] = [0, 1, 2, 3] as const;
const [RISING, FALLING, VALUES_FIXED, PLAIN] = [0, 1, 2, 3] as const;

const checker = new PayloadChecker();

/** A stream of fields, lowest bit first, filled up with zeros. */
function bits(...fields: Field[]): Uint8Array {
  const bytes = new Uint8Array(Math.ceil(fields.reduce((sum, [, width]) => sum + width, 0) / 8));
  let at = 0;
  for (const [value, width] of fields) {
    for (let i = 0; i < width; i++, at++) bytes[at >> 3]! |= ((value >>> i) & 1) << (at & 7);
  }
  return bytes;
}

const repeated = (count: number, ...fields: Field[]): Field[] => Array.from({ length: count }, () => fields).flat();

function outcome(format: ValueFormat, tensors: CodedTensor[], indices: Uint8Array, values: Uint8Array): string {
  const message = encodeGradientPayload({ format, counts: undefined, streams: { indices, values, sectionEnds: [] } });
  return checker.check(message, format, tensors).outcome;
}

/** The values of that many float32 as a block, all of them 0: a Fixed block of no bits a value. */
const zeros = (count: number): Field[] => repeated(Math.ceil(count / 1024), [VALUES_FIXED, 2], [0, 31], [0, 6]);

/** The outcome of a stream of indices, with correct values. */
function outcomeOfIndices(elementCount: number, count: number, ...fields: Field[]): string {
  return outcome('float32', [{ elementCount, count }], bits(...fields), bits(...zeros(count)));
}

describe('indices', () => {
  const LARGEST = 2 ** 30 - 1;
  const PAST_THE_END = 'The payload holds an index past the end of its tensor.';
  const ENDS_EARLY = 'The payload ends early.';

  it('by Rice with the largest parameter and quotient, which together reach 2³²', () => {
    const noGaps = repeated(599, [0, 31], [0, 1]);
    expect(outcomeOfIndices(5000, 600, [RICE, 2], [31, 5], [0, 31], [0, 1], ...noGaps)).toBe('accepted');
    // 2³¹ is past the end, 2 · 2³¹ counts as 0.
    expect(outcomeOfIndices(5000, 600, [RICE, 2], [31, 5], [0, 31], [1, 2], ...noGaps)).toBe(PAST_THE_END);
    expect(outcomeOfIndices(5000, 600, [RICE, 2], [31, 5], [0, 31], [3, 3], ...noGaps)).toBe('accepted');
    expect(outcomeOfIndices(5000, 600, [RICE, 2], [31, 5], [0, 31], [0xfffff, 20], [1, 1], ...noGaps)).toBe(
      PAST_THE_END,
    );
    expect(
      outcomeOfIndices(5000, 600, [RICE, 2], [0, 5], [0xfffff, 20], [0xffffffff, 32], ...repeated(599, [0, 1])),
    ).toBe(PAST_THE_END);
  });

  it('by Clusters with the largest parameters', () => {
    const near = repeated(599, [0, 1], [0, 31]);
    expect(outcomeOfIndices(5000, 600, [CLUSTERS, 2], [31, 5], [31, 5], [0, 1], [0, 31], ...near)).toBe('accepted');
    expect(outcomeOfIndices(5000, 600, [CLUSTERS, 2], [31, 5], [31, 5], [1, 1], [0, 31], [0, 1], ...near)).toBe(
      PAST_THE_END,
    );
    expect(outcomeOfIndices(5000, 600, [CLUSTERS, 2], [31, 5], [31, 5], [0, 1], [0, 31])).toBe(ENDS_EARLY);
    expect(outcomeOfIndices(5000, 600, [CLUSTERS, 2], [31, 5], [31, 5], [1, 1])).toBe(ENDS_EARLY);
  });

  it('by Bitmap of any span are looked at no further than the stream goes', () => {
    const ones = repeated(600, [1, 1]);
    expect(outcomeOfIndices(5000, 600, [BITMAP, 2], [600, 32], ...ones)).toBe('accepted');
    for (const span of [0xffffffff, 0x80000000, 8 * 32768, 8 * 32768 + 1, 700]) {
      expect(outcomeOfIndices(5000, 600, [BITMAP, 2], [span, 32], ...ones)).toBe(ENDS_EARLY);
    }
    expect(outcomeOfIndices(5000, 600, [BITMAP, 2], [599, 32], ...ones)).toMatch(/bitmap with another number/);
    expect(outcomeOfIndices(5000, 600, [BITMAP, 2], [601, 32], ...ones, [1, 1])).toMatch(/bitmap with another number/);
    expect(outcomeOfIndices(5000, 600, [BITMAP, 2], [0, 32])).toMatch(/bitmap with another number/);
  });

  it('by Fixed of up to 32 bits', () => {
    expect(outcomeOfIndices(5000, 600, [FIXED, 2], [32, 6], ...repeated(600, [0, 32]))).toBe('accepted');
    expect(outcomeOfIndices(5000, 600, [FIXED, 2], [32, 6], [0xffffffff, 32], ...repeated(599, [0, 32]))).toBe(
      PAST_THE_END,
    );
    expect(outcomeOfIndices(LARGEST, 600, [FIXED, 2], [32, 6], ...repeated(600, [0xffffffff, 32]))).toBe(PAST_THE_END);
    for (const width of [33, 63]) {
      expect(outcomeOfIndices(5000, 600, [FIXED, 2], [width, 6], ...repeated(600, [0, 32], [0, 31]))).toMatch(
        /more than #/,
      );
    }
  });

  it('by Subset that skip all that they can', () => {
    const skipping = (elementCount: number, count: number) =>
      outcome('float32', [{ elementCount, count }], new Uint8Array(8192).fill(0xff), bits(...zeros(count)));
    for (const count of [1, 2, 16, 512]) expect(skipping(LARGEST, count)).toMatch(/more than it should/);
    expect(outcome('float32', [{ elementCount: LARGEST, count: 512 }], bits([1, 1]), bits(...zeros(512)))).toBe(
      ENDS_EARLY,
    );
  });

  it('take no bits from where all places are left, be it in the middle of a tensor', () => {
    // The first block ends where exactly 976 places are left for 976 indices.
    const skip = (places: number) => [[FIXED, 2], [32, 6], [places, 32], ...repeated(1023, [0, 32])] as Field[];
    expect(outcomeOfIndices(3000, 2000, ...skip(1000))).toBe('accepted');
    expect(outcomeOfIndices(3000, 2000, ...skip(1001))).toBe(PAST_THE_END);
    expect(outcomeOfIndices(3000, 2000, ...skip(1000), [0, 8])).toMatch(/more than it should/);
    expect(outcomeOfIndices(3000, 2000, ...skip(999))).toBe(ENDS_EARLY);
  });
});

describe('tensors', () => {
  it('without elements or entries take no bits', () => {
    const none = [0, 5].map(elementCount => ({ elementCount, count: 0 }));
    const nothing = new Uint8Array(0);
    expect(outcome('log4', none, nothing, nothing)).toBe('accepted');
    expect(outcome('log4', none, bits([0, 8]), nothing)).toMatch(/more than it should/);
    expect(outcome('log4', none, nothing, bits([0, 8]))).toMatch(/more than it should/);
    expect(outcome('float32', [...none, { elementCount: 3, count: 3 }, ...none], nothing, bits(...zeros(3)))).toBe(
      'accepted',
    );
  });
});

describe('values', () => {
  const four = [{ elementCount: 4, count: 4 }];
  const outcomeOf = (format: ValueFormat, ...fields: Field[]) =>
    outcome(format, four, new Uint8Array(0), bits(...fields));
  const OUT_OF_RANGE = /scale out of range/;

  it('of int8 are finite at any scale, which is itself finite, positive and normal', () => {
    const largest = [[PLAIN, 2], ...repeated(4, [0xff, 8])] as Field[];
    for (const scale of [0x00800000, 0x7f7fffff]) expect(outcomeOf('int8', [scale, 32], ...largest)).toBe('accepted');
    for (const scale of [0, 1, 0x007fffff, 0x7f800000, 0x7fc00000, 0x80000000, 0xbf800000, 0xffffffff]) {
      expect(outcomeOf('int8', [scale, 32], ...largest)).toMatch(OUT_OF_RANGE);
    }
  });

  it('of float16 are finite at both ends of the exponents', () => {
    const plain = (symbol: number) => [[PLAIN, 2], ...repeated(4, [symbol, 16])] as Field[];
    const [largest, tooLarge, infinity] = [0x77ff, 0x7800, 0x7c00].map(magnitude => plain(2 * magnitude + 1));
    for (const exponent of [-113, 126]) {
      expect(outcomeOf('float16', [exponent + 128, 8], ...largest!)).toBe('accepted');
      expect(outcomeOf('float16', [exponent + 128, 8], ...plain(2))).toBe('accepted');
      expect(outcomeOf('float16', [exponent + 128, 8], ...tooLarge!)).toMatch(/value out of range/);
      expect(outcomeOf('float16', [exponent + 128, 8], ...infinity!)).toMatch(/value out of range/);
    }
    for (const exponent of [-128, -114, 127]) {
      expect(outcomeOf('float16', [exponent + 128, 8], ...largest!)).toMatch(OUT_OF_RANGE);
    }
  });

  it('of log4 are finite at any scale, which is itself finite and not negative', () => {
    const plain = [
      [PLAIN, 2],
      [15, 4],
      [1, 4],
      [14, 4],
      [0, 4],
    ] as Field[];
    for (const density of [0, 3]) {
      for (const scale of [0, 1, 0x007fffff, 0x7f7fffff]) {
        expect(outcomeOf('log4', [scale, 32], [density, 2], ...plain)).toBe('accepted');
      }
      for (const scale of [0x7f800000, 0x7fc00000, 0x80000000, 0xffffffff]) {
        expect(outcomeOf('log4', [scale, 32], [density, 2], ...plain)).toMatch(OUT_OF_RANGE);
      }
    }
  });

  it.each([
    ['float32', 31],
    ['bfloat16', 15],
  ] as const)('of %s are no NaN and no infinity, in any code', (format, baseBits) => {
    const infinity = baseBits === 31 ? 0x7f800000 : 0x7f80;
    const rice = repeated(4, [0, 1]);
    for (const code of [RISING, FALLING]) {
      expect(outcomeOf(format, [code, 2], [infinity - 1, baseBits], [0, 5], ...rice)).toBe('accepted');
      expect(outcomeOf(format, [code, 2], [infinity, baseBits], [0, 5], ...rice)).toMatch(/value out of range/);
    }
    // Upwards from the largest, and downwards from zero.
    const twos = repeated(4, [3, 3]);
    expect(outcomeOf(format, [RISING, 2], [infinity - 1, baseBits], [0, 5], ...twos)).toMatch(/value out of range/);
    expect(outcomeOf(format, [FALLING, 2], [0, baseBits], [0, 5], ...twos)).toMatch(/value out of range/);
    expect(outcomeOf(format, [VALUES_FIXED, 2], [infinity - 1, baseBits], [1, 6], ...repeated(4, [1, 1]))).toBe(
      'accepted',
    );
    expect(outcomeOf(format, [VALUES_FIXED, 2], [infinity - 1, baseBits], [2, 6], ...repeated(4, [2, 2]))).toMatch(
      /value out of range/,
    );
    expect(outcomeOf(format, [VALUES_FIXED, 2], [0, baseBits], [33, 6], ...repeated(8, [0, 32]))).toMatch(
      /more than #/,
    );
    expect(outcomeOf(format, [PLAIN, 2], ...repeated(4, [2 * infinity, baseBits + 1]))).toMatch(/value out of range/);
  });
});

describe('streams of several windows', () => {
  const count = 40_000;
  /** Plain float32: 33,792 bits a block, so that windows end within blocks. */
  const values = bits(
    ...Array.from({ length: Math.ceil(count / 1024) }, (_, block) => [
      [PLAIN, 2] as Field,
      ...repeated(Math.min(1024, count - 1024 * block), [0x3f800000, 32]),
    ]).flat(),
  );
  const tensors = [{ elementCount: count, count }];
  const nothing = new Uint8Array(0);

  it('are refused if they are cut short anywhere near the end of a window, or go on behind the last', () => {
    expect(outcome('float32', tensors, nothing, values)).toBe('accepted');
    for (let window = 32_768; window < values.length; window += 32_768) {
      for (let off = -3; off <= 3; off++) {
        expect(outcome('float32', tensors, nothing, values.subarray(0, window + off))).toBe('The payload ends early.');
      }
    }
    const longer = Buffer.concat([values, Buffer.alloc(70_000)]);
    for (const more of [1, 7, 8192, 32_768, 70_000]) {
      const cut = longer.subarray(0, values.length + more);
      expect(outcome('float32', tensors, nothing, cut)).toBe('The payload holds more than it should.');
    }
  });
});
