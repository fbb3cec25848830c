import fc from 'fast-check';
import { GradientCodec } from '../../src/compression/gradient-codec';
import {
  type CodedTensor,
  type GradientStreams,
  joinSections,
  sectionsOf,
} from '../../src/compression/gradient-streams';
import { VALUE_FORMATS, type ValueFormat } from '../../src/compression/value-format';
import { instantiateKernels } from '../../src/kernels/wasm-kernels';
import { normalNumbers, Pieces, randomNumbers, sharedMemory } from '../kernels/shared-memory';
import { casesOf, isSlow } from '../support/cases';

/** Entries of a tensor as a test holds them. */
interface Entries {
  readonly elementCount: number;
  readonly indices: Uint32Array;
  readonly values: Float32Array;
}

const { fround } = Math;

const memory = sharedMemory(64);
const kernels = instantiateKernels(memory);

/** A codec, and tensors in its memory. */
function place(format: ValueFormat, tensors: readonly Entries[]) {
  const pieces = new Pieces(memory);
  const codec = new GradientCodec(kernels, memory, format, pieces.bytes(GradientCodec.workspaceBytes));
  const placed = tensors.map(({ elementCount, indices, values }) => ({
    elementCount,
    count: values.length,
    indices: pieces.uint32(indices),
    values: pieces.float32(values),
  }));
  return { codec, placed };
}

/** Encodes, and decodes again: the streams, what the sender thinks was sent, and what the receiver has. */
function roundTrip(format: ValueFormat, tensors: readonly Entries[]) {
  const { codec, placed } = place(format, tensors);
  const streams = codec.encode(placed);
  const sent = placed.map(({ values, count }) => new Float32Array(memory.buffer, values, count).slice());
  return { codec, placed, streams, sent, received: decoded(codec, streams, placed) };
}

/** Decoded entries, in the form that they were encoded from. */
function decoded(codec: GradientCodec, streams: GradientStreams, tensors: readonly CodedTensor[]): Entries[] {
  const results = tensors.map(({ elementCount, count }) => ({
    elementCount,
    indices: new Uint32Array(count),
    values: new Float32Array(count),
    length: 0,
  }));
  codec.decode(streams, tensors, ({ tensor, count, first, indices, values }) => {
    const result = results[tensor]!;
    // An expect() for each of the many pieces would take most of the time of these tests.
    if (result.length !== first) throw new Error(`Entry ${first} came where ${result.length} was due.`);
    if (indices !== undefined) result.indices.set(new Uint32Array(memory.buffer, indices, count), first);
    else for (let i = first; i < first + count; i++) result.indices[i] = i;
    result.values.set(new Float32Array(memory.buffer, values, count), first);
    result.length += count;
  });
  return results.map(({ elementCount, indices, values, length }) => {
    expect(length).toBe(values.length);
    return { elementCount, indices, values };
  });
}

/** Bit for bit; toEqual takes seconds for arrays of these lengths. */
function expectSame(actual: ArrayBufferView, expected: ArrayBufferView): void {
  const bytes = ({ buffer, byteOffset, byteLength }: ArrayBufferView) => Buffer.from(buffer, byteOffset, byteLength);
  expect(bytes(actual).equals(bytes(expected))).toBe(true);
}

/** The code of the error that it throws, or what it throws without one, or 'none'. */
function codeOf(call: () => unknown): unknown {
  try {
    call();
    return 'none';
  } catch (error) {
    return (error as { code?: string }).code ?? error;
  }
}

function uniformSubset(count: number, elementCount: number, random: () => number): Uint32Array {
  if (count > elementCount / 16) {
    const indices = new Uint32Array(count);
    let found = 0;
    for (let i = 0; found < count; i++) if (random() * (elementCount - i) < count - found) indices[found++] = i;
    return indices;
  }
  const chosen = new Set<number>();
  while (chosen.size < count) chosen.add(Math.floor(random() * elementCount));
  return Uint32Array.from(chosen).sort();
}

/** The normal values that DGC sends: the tail beyond a threshold. */
function tail(count: number, random: () => number): Float32Array {
  return Float32Array.from({ length: count }, () => (random() < 0.5 ? -1 : 1) * (3.3 - Math.log(1 - random()) / 3.3));
}

function sparse(count: number, elementCount: number, seed: number): Entries {
  const random = randomNumbers(seed);
  return { elementCount, indices: uniformSubset(count, elementCount, random), values: tail(count, random) };
}

function dense(values: Float32Array): Entries {
  return { elementCount: values.length, indices: Uint32Array.from(values, (_, i) => i), values };
}

function log2Choose(n: number, k: number): number {
  let bits = 0;
  for (let i = 1; i <= k; i++) bits += Math.log2((n - k + i) / i);
  return bits;
}

describe.each(VALUE_FORMATS)('%s', format => {
  it('brings indices and values over, of tensors of all sizes', () => {
    const normal = normalNumbers(1);
    const tensors = [
      sparse(1, 2000, 1),
      sparse(16, 2000, 2),
      sparse(17, 2000, 3),
      dense(Float32Array.from({ length: 64 }, normal)),
      sparse(512, 10_000, 4),
      sparse(513, 10_000, 5),
      sparse(5000, 20_000, 6),
      sparse(19_990, 20_000, 7),
      sparse(0, 100, 8),
      dense(Float32Array.from({ length: 3000 }, normal)),
      dense(new Float32Array(100)),
      sparse(1024, 2 ** 20, 9),
      sparse(1025, 2 ** 20, 10),
      sparse(1, 1, 11),
      dense(Float32Array.of(-0.1)),
    ];
    const { sent, received } = roundTrip(format, tensors);
    received.forEach(({ indices, values }, t) => {
      expectSame(indices, tensors[t]!.indices);
      expectSame(values, sent[t]!);
      if (format === 'float32') expectSame(values, tensors[t]!.values);
    });
  });

  it('encodes sections one after the other, or each by itself, and refuses other sections', () => {
    const tensors = [
      sparse(9, 2000, 1),
      sparse(7000, 1_100_000, 2),
      dense(tail(70, randomNumbers(3))),
      sparse(0, 2 ** 20, 4), // a section without entries
      sparse(50, 700_000, 5),
      sparse(0, 0, 6),
      sparse(1, 600_000, 7),
      sparse(1, 1, 8),
    ];
    const sections = sectionsOf(tensors);
    expect(sections.map(({ from, until }) => [from, until])).toEqual([[0, 2], [2, 4], [4, 8]]); // prettier-ignore
    const { codec, placed, streams, sent, received } = roundTrip(format, tensors);
    received.forEach(({ indices, values }, t) => {
      expectSame(indices, tensors[t]!.indices);
      expectSame(values, sent[t]!);
    });
    const { sectionEnds } = streams;
    expect(sectionEnds).toHaveLength(4);
    expect(sectionEnds.slice(0, 2).every(end => end > 0)).toBe(true);
    const [indices, values] = [streams.indices.slice(), streams.values.slice()];
    const again = place(format, tensors);
    const own = sections.map(({ from, until }) => again.codec.encodeSection(again.placed.slice(from, until)));
    const joined = joinSections(own);
    expectSame(joined.indices, indices);
    expectSame(joined.values, values);
    expect(joined.sectionEnds).toEqual(sectionEnds);
    for (const [words, ends] of [
      ['has other sections than its tensors', []],
      ['has other sections than its tensors', sectionEnds.slice(0, 2)],
      ['has other sections than its tensors', [...sectionEnds, ...sectionEnds.slice(0, 2)]],
      ['has a section that ends where it cannot', sectionEnds.with(0, indices.length + 1)],
      ['has a section that ends where it cannot', sectionEnds.with(3, 0)],
      ['', sectionEnds.with(0, sectionEnds[0]! - 1)],
      ['', sectionEnds.with(3, sectionEnds[3]! + 1)],
    ] as const) {
      const changed = { indices, values, sectionEnds: ends };
      expect(() => codec.decode(changed, placed, () => undefined)).toThrow(
        expect.objectContaining({ code: 'ERR_PROTOCOL', message: expect.stringContaining(words) as string }),
      );
    }
  });

  it('sends something near the value', () => {
    const worst = { float32: 0, float16: 2 ** -11, bfloat16: 2 ** -8, int8: 0.5 / 127, log4: 1 / 3 }[format];
    const normal = normalNumbers(2);
    const values = Float32Array.from({ length: 5000 }, normal);
    const largest = values.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
    const [sent] = roundTrip(format, [dense(values)]).sent as [Float32Array];
    const tooFar = values.filter((value, i) => {
      const scale =
        format === 'int8' ? largest : format === 'log4' ? Math.max(Math.abs(value), largest / 32) : Math.abs(value);
      return !(Math.abs(sent[i]! - value) <= worst * scale * (1 + 1e-6));
    });
    expect([...tooFar]).toEqual([]);
  });

  it('loses nothing: what was sent and what is kept is the value, exactly, in float32', () => {
    const anyFloat32 = fc.float({ noNaN: true, noDefaultInfinity: true });
    const alike = fc
      .tuple(
        fc.integer({ min: -126, max: 100 }),
        fc.array(fc.float({ min: -2, max: 2, noNaN: true }), { minLength: 1, maxLength: 50 }),
      )
      .map(([exponent, mantissas]) => mantissas.map(mantissa => fround(mantissa * 2 ** exponent)));
    fc.assert(
      fc.property(fc.oneof(fc.array(anyFloat32, { minLength: 1, maxLength: 50 }), alike), numbers => {
        const values = Float32Array.from(numbers);
        const { sent, received } = roundTrip(format, [dense(values)]);
        expectSame(received[0]!.values, sent[0]!);
        const wrong = values.filter((value, i) => {
          const kept = fround(value - sent[0]![i]!);
          // Exact in float64 too, as the three are near each other.
          const isExact = kept === value - sent[0]![i]! && kept + sent[0]![i]! === value;
          return !(isExact && Math.abs(kept) <= Math.abs(value));
        });
        expect([...wrong]).toEqual([]);
      }),
      { numRuns: isSlow ? 500 : 150, seed: 7 },
    );
  });

  it('refuses every truncation, and bytes behind the end', () => {
    const tensors = [sparse(40, 3000, 1), dense(tail(70, randomNumbers(2))), sparse(600, 9000, 3)];
    const { codec, placed, streams } = roundTrip(format, tensors);
    for (const stream of ['indices', 'values'] as const) {
      const codes = Array.from({ length: streams[stream].length }, (_, length) => {
        const cut = { ...streams, [stream]: streams[stream].subarray(0, length) };
        return codeOf(() => decoded(codec, cut, placed));
      });
      expect(new Set(codes)).toEqual(new Set(['ERR_PROTOCOL']));
      const longer = { ...streams, [stream]: Buffer.concat([streams[stream], Buffer.alloc(1)]) };
      expect(() => decoded(codec, longer, placed)).toThrow(/more than it should/);
    }
  });
});

it.each(VALUE_FORMATS)('uses the largest magnitude if the caller gives it: %s', format => {
  const pieces = new Pieces(memory);
  const codec = new GradientCodec(kernels, memory, format, pieces.bytes(GradientCodec.workspaceBytes));
  const tensor = sparse(3000, 30_000, 5);
  const place = () => ({
    ...tensor,
    count: 3000,
    indices: pieces.uint32(tensor.indices),
    values: pieces.float32(tensor.values),
  });
  const unknown = Buffer.from(codec.encode([place()]).values);
  const placed = place();
  const largest = kernels.largestMagnitude(placed.values, 3000);
  expect(Buffer.from(codec.encode([{ ...placed, largest }]).values)).toEqual(unknown);
});

it('makes one stream after the other, long and short', () => {
  const pieces = new Pieces(memory);
  const codec = new GradientCodec(kernels, memory, 'float16', pieces.bytes(GradientCodec.workspaceBytes));
  for (const count of [60_000, 10, 30_000, 1]) {
    const tensor = sparse(count, 10 * count, count);
    const alone = roundTrip('float16', [tensor]).streams;
    const placed = { ...tensor, count, indices: pieces.uint32(tensor.indices), values: pieces.float32(tensor.values) };
    const again = codec.encode([placed]);
    for (const stream of ['indices', 'values'] as const) {
      expect(Buffer.from(again[stream]).equals(Buffer.from(alone[stream]))).toBe(true);
    }
  }
});

it('reads streams longer than its window from any place of a message', () => {
  const tensor = sparse(60_000, 600_000, 1);
  const { codec, placed, streams, sent } = roundTrip('float16', [tensor]);
  for (let offset = 0; offset < 8; offset++) {
    const moved = (stream: Uint8Array, by: number) => {
      const message = new Uint8Array(by + stream.length);
      message.set(stream, by);
      return message.subarray(by);
    };
    const again = { ...streams, indices: moved(streams.indices, offset), values: moved(streams.values, 7 - offset) };
    const [received] = decoded(codec, again, placed) as [Entries];
    expectSame(received.indices, tensor.indices);
    expectSame(received.values, sent[0]!);
  }
});

describe('the size', () => {
  const bitsPerIndex = (tensors: Entries[]): number => {
    const { streams, placed } = roundTrip('int8', tensors);
    return (8 * streams.indices.length) / placed.reduce((sum, { count }) => sum + count, 0);
  };

  it.each(casesOf([2000, 100_000], [5000, 20_000, 1_000_000]))(
    'of uniformly placed indices is within 2 %% of the entropy, in tensors of %i elements',
    elementCount => {
      for (const density of [0.25, 0.0625, 0.015625, 0.004, 0.001, 0.0001]) {
        const count = Math.max(1, Math.ceil(elementCount * density));
        // Many tensors, so that neither chance nor the filling of the last byte matters.
        const tensors = Array.from({ length: Math.ceil(12_000 / count) }, (_, i) => sparse(count, elementCount, i));
        expect(bitsPerIndex(tensors)).toBeLessThan((1.02 * log2Choose(elementCount, count)) / count);
      }
    },
    60_000,
  );

  it.each([
    [20_000, 50],
    [1_000_000, 1000],
    [1_000_000, 100_000],
  ])('of clustered indices is less than that of uniform ones: of %i elements %i', (elementCount, count) => {
    const random = randomNumbers(4);
    const uniform = bitsPerIndex([sparse(count, elementCount, 1)]);
    for (const run of [3, 10, 100]) {
      // Runs of neighbours at uniform places.
      const starts = uniformSubset(Math.ceil(count / run), Math.floor(elementCount / run), random);
      const runs = Uint32Array.from({ length: count }, (_, i) => starts[Math.floor(i / run)]! * run + (i % run));
      expect(bitsPerIndex([{ elementCount, indices: runs, values: tail(count, random) }])).toBeLessThan(uniform);
    }
    // All in a twentieth, or a fifth, of the tensor.
    for (const part of [elementCount / 5, Math.max(elementCount / 20, count)]) {
      const indices = uniformSubset(count, part, random).map(index => index + 11);
      expect(bitsPerIndex([{ elementCount, indices, values: tail(count, random) }])).toBeLessThan(uniform);
    }
  });

  it('of a bitmap is a bit a place where most are sent, and nothing where all are', () => {
    expect(bitsPerIndex([sparse(75_000, 100_000, 1)])).toBeLessThan(1.36);
    expect(bitsPerIndex([dense(tail(1000, randomNumbers(1)))])).toBe(0);
  });

  it('of values falls with their precision, and below their plain width', () => {
    const bits = VALUE_FORMATS.map(format => {
      const { streams } = roundTrip(format, [sparse(20_000, 10 ** 6, 1)]);
      return (8 * streams.values.length) / 20_000;
    });
    const [float32, float16, bfloat16, int8, log4] = bits as [number, number, number, number, number];
    expect(float32).toBeLessThan(23.5);
    expect(float16).toBeLessThan(10.5);
    expect(bfloat16).toBeLessThan(7.5);
    expect(int8).toBeLessThan(7);
    expect(log4).toBeLessThan(4);
  });
});
