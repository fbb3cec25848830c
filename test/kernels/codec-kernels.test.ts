import type { BitAddress, Quantization, RiceStream } from '../../src/kernels/codec-kernels';
import type { Kernels, Pointer } from '../../src/kernels/kernels';
import { referenceKernels } from './reference-kernels';
import { instantiateKernels } from '../../src/kernels/wasm-kernels';
import {
  float32At,
  IMPLEMENTATIONS,
  normalNumbers,
  Pieces,
  randomNumbers,
  sharedMemory,
  uint32At,
} from './shared-memory';

const LENGTHS = [0, 1, 2, 3, 4, 5, 7, 8, 31, 1024];
const STREAM_BYTES = 16 * 1024;
const LARGEST = 3.4028234663852886e38;

/** Runs the same on both implementations, each in a memory of its own, and expects the same results. */
function expectAgreement(run: (kernels: Kernels, pieces: Pieces) => unknown): void {
  const [wasm, reference] = [instantiateKernels, referenceKernels].map(make => {
    const memory = sharedMemory(4);
    return run(make(memory), new Pieces(memory));
  });
  expect(wasm).toEqual(reference);
}

/** The bits between two addresses, as a string of ones and zeros. */
function bitsBetween(memory: WebAssembly.Memory, from: BitAddress, until: BitAddress): string {
  const bytes = new Uint8Array(memory.buffer);
  let bits = '';
  for (let at = from; at < until; at++) bits += (bytes[Math.floor(at / 8)]! >> (at % 8)) & 1;
  return bits;
}

/** Symbols as the codecs see them: near geometric, with a few far too large. */
function symbols(count: number, scale: number, seed: number): Uint32Array {
  const random = randomNumbers(seed);
  return Uint32Array.from({ length: count }, () =>
    random() < 0.03 ? random() * 2 ** 32 : Math.min(2 ** 32 - 1, -Math.log(1 - random()) * scale),
  );
}

/** Ascending distinct indices below `elementCount`. */
function subset(count: number, elementCount: number, seed: number): Uint32Array {
  const random = randomNumbers(seed);
  const chosen = new Set<number>();
  while (chosen.size < count) chosen.add(Math.floor(random() * elementCount));
  return Uint32Array.from(chosen).sort();
}

const QUANTIZATIONS: [string, (pieces: Pieces) => Quantization][] = [
  ['float32', () => ({ format: 'float32' })],
  ['bfloat16', () => ({ format: 'bfloat16' })],
  ['float16, 2^12', () => ({ format: 'float16', exponent: 12 })],
  ['float16, 2^-113', () => ({ format: 'float16', exponent: -113 })],
  ['float16, 2^126', () => ({ format: 'float16', exponent: 126 })],
  ['int8', () => ({ format: 'int8', scale: 0.03 })],
  ['int8, the smallest scale', () => ({ format: 'int8', scale: 2 ** -126 })],
  ['int8, the largest scale', () => ({ format: 'int8', scale: LARGEST })],
  ['log4', pieces => ({ format: 'log4', levels: pieces.float32([0, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4]) })],
];

/**
 * Values in every place where a format may round, saturate or vanish; none so large that float16 at `exponent` could
 * not say.
 */
function awkwardValues(quantization: Quantization, count: number): Float32Array {
  const random = randomNumbers(5);
  const normal = normalNumbers(6);
  const special = [
    0,
    -0,
    1e-45,
    -1e-45,
    1e-39,
    -1e-39,
    2 ** -126,
    LARGEST,
    -LARGEST,
    0.015,
    0.045,
    1.905,
    2 ** -24,
    1.5 * 2 ** -24,
  ];
  const most =
    quantization.format === 'float16' ? Math.min(LARGEST, 2 ** (15 - quantization.exponent) * (1 - 2 ** -24)) : LARGEST;
  return Float32Array.from({ length: count }, () => {
    const value =
      random() < 0.3 ? special[Math.floor(random() * special.length)]! : normal() * 2 ** (60 * (random() - 0.5));
    return Math.min(most, Math.max(-most, value));
  });
}

describe.each(LENGTHS)('wasm and reference agree on %i symbols:', count => {
  it.each([0, 1, 5, 12, 20, 27, 31])('Rice code with parameter %i', parameter => {
    const from = symbols(count, 2 ** (parameter + 0.5), parameter);
    expectAgreement((kernels, pieces) => {
      const input = pieces.uint32(from);
      const start = 8 * pieces.bytes(STREAM_BYTES) + 5;
      const end = kernels.riceEncode(input, count, parameter, start);
      const output = pieces.bytes(4 * count);
      const decodedTo = kernels.riceDecode(output, count, parameter, start, end);
      expect(decodedTo).toBe(end);
      expect(uint32At(pieces.memory, output, count)).toEqual(from);
      if (count > 0) expect(kernels.riceDecode(output, count, parameter, start, end - 1)).toBe(-1);
      return bitsBetween(pieces.memory, start - 5, end);
    });
  });

  it.each([0, 1, 5, 12, 20, 27, 31])('the parameter of symbols near 2^%i', exponent => {
    for (const search of ['near', 'far'] as const) {
      // A mean that misleads too, so that the search goes far either way.
      for (const mean of [0, 2 ** exponent, 2 ** 32 - 1]) {
        expectAgreement((kernels, pieces) => {
          const input = pieces.uint32(symbols(count, 2 ** (exponent + 0.5), exponent));
          return kernels.riceParameter(input, count, mean, search);
        });
      }
    }
  });

  it.each([
    ['rising', 300, 40, 0],
    ['falling', 300, 40, 1],
    ['alike', 5, 0, 0],
    ['uniform', 0, 2 ** 14, 0],
    ['all the magnitudes there are', 0, 2 ** 15 - 1, 0],
  ])('blocks of symbols: %s', (_, least, spread, mirrored) => {
    const random = randomNumbers(count + 3);
    const from = Uint32Array.from({ length: Math.max(1, count) }, () => {
      const distance = Math.floor(spread * (least === 0 ? random() : random() ** 6));
      return 2 * (least + (mirrored === 1 ? spread - distance : distance)) + (random() < 0.5 ? 1 : 0);
    });
    const range = { smallest: Math.min(...from), largest: Math.max(...from), sum: from.reduce((a, b) => a + b) };
    expectAgreement((kernels, pieces) => {
      const input = pieces.uint32(from);
      const start = 8 * pieces.bytes(STREAM_BYTES) + 3;
      const end = kernels.encodeSymbols(input, from.length, range, 15, start);
      return bitsBetween(pieces.memory, start - 3, end);
    });
  });

  it.each([
    [0, 9],
    [5, 20],
    [12, 12],
    [22, 5],
    [27, 28],
    [31, 1],
  ])('two streams in Rice code at once, with parameters %i and %i', (...parameters) => {
    const from = parameters.map(parameter => symbols(count, 2 ** (parameter + 0.5), parameter));
    expectAgreement((kernels, pieces) => {
      const streams = from.map((ofOne, i) => {
        const start = 8 * pieces.bytes(STREAM_BYTES) + 3 * i;
        const until = kernels.riceEncode(pieces.uint32(ofOne), count, parameters[i]!, start);
        return { symbols: pieces.bytes(4 * count), parameter: parameters[i]!, from: start, until };
      });
      const [a, b] = streams as [RiceStream, RiceStream];
      const behind = streams.map(stream => stream.symbols + 4 * count);
      const ends = kernels.riceDecodeBoth(count, a, b);
      expect(ends).toEqual([a.until, b.until]);
      streams.forEach((stream, i) => expect(uint32At(pieces.memory, stream.symbols, count)).toEqual(from[i]));
      for (const at of behind) {
        expect([...new Uint8Array(pieces.memory.buffer, at, 8)]).toEqual(new Array(8).fill(0xa5));
      }
      if (count > 0) {
        expect(kernels.riceDecodeBoth(count, { ...a, until: a.until - 1 }, b)).toBeUndefined();
        expect(kernels.riceDecodeBoth(count, a, { ...b, until: b.until - 1 })).toBeUndefined();
      }
      return ends;
    });
  });

  it.each([
    [0, 5],
    [1, 0],
    [4, 12],
    [20, 31],
    [31, 3],
  ])('clusters below 2^%i, and Rice code with parameter %i', (small, parameter) => {
    const near = symbols(count, 2 ** (small - 1), 1);
    const far = symbols(count, 2 ** (parameter + 1), 2);
    const from = near.map((symbol, i) => (i % 3 === 0 ? far[i]! : symbol));
    expectAgreement((kernels, pieces) => {
      const input = pieces.uint32(from);
      const start = 8 * pieces.bytes(STREAM_BYTES) + 6;
      const end = kernels.encodeClusters(input, count, small, parameter, start);
      const output = pieces.bytes(4 * count);
      expect(kernels.decodeClusters(output, count, small, parameter, start, end)).toBe(end);
      expect(uint32At(pieces.memory, output, count)).toEqual(from);
      if (count > 0) expect(kernels.decodeClusters(output, count, small, parameter, start, end - 1)).toBe(-1);
      return [kernels.countBelow(input, count, 2 ** small), bitsBetween(pieces.memory, start - 6, end)];
    });
  });

  it.each([0, 1, 7, 13, 31, 32])('packing in %i bits', width => {
    const random = randomNumbers(width);
    const from = Uint32Array.from({ length: count }, () => Math.floor(random() * 2 ** width));
    expectAgreement((kernels, pieces) => {
      const input = pieces.uint32(from);
      const start = 8 * pieces.bytes(STREAM_BYTES) + 3;
      const end = kernels.packBits(input, count, width, start);
      const output = pieces.bytes(4 * count);
      expect(kernels.unpackBits(output, count, width, start)).toBe(end);
      expect(uint32At(pieces.memory, output, count)).toEqual(from);
      return bitsBetween(pieces.memory, start - 3, end);
    });
  });

  it('gaps and indices', () => {
    const from = subset(count, 2 ** 20, count).map(index => index + 7);
    expectAgreement((kernels, pieces) => {
      const input = pieces.uint32(from);
      const [gaps, output] = [pieces.bytes(4 * count), pieces.bytes(4 * count)];
      const bits = kernels.gapsOf(input, count, 7, gaps);
      const next = count === 0 ? 7 : from[count - 1]! + 1;
      expect(kernels.indicesOf(gaps, count, 7, next, output)).toBe(next);
      expect(uint32At(pieces.memory, output, count)).toEqual(from);
      if (count > 0) expect(kernels.indicesOf(gaps, count, 7, next - 1, output)).toBe(-1);
      const found = [bits, [...uint32At(pieces.memory, gaps, count)]];
      expect(kernels.indicesOf(gaps, count, 7, next, gaps)).toBe(next);
      expect(uint32At(pieces.memory, gaps, count)).toEqual(from);
      return found;
    });
  });

  it('bitmaps', () => {
    const indices = subset(count, 4096, count);
    expectAgreement((kernels, pieces) => {
      const gaps = pieces.bytes(4 * count);
      kernels.gapsOf(pieces.uint32(indices), count, 0, gaps);
      const start = 8 * pieces.bytes(STREAM_BYTES) + 1;
      const end = kernels.encodeBitmap(gaps, count, start);
      const span = end - start;
      expect(span).toBe(count === 0 ? 0 : indices[count - 1]! + 1);
      const output = pieces.bytes(4 * (count + 1));
      expect(kernels.decodeBitmap(output, count, span, start)).toBe(end);
      expect(uint32At(pieces.memory, output, count)).toEqual(uint32At(pieces.memory, gaps, count));
      expect(kernels.decodeBitmap(output, count + 1, span, start)).toBe(-1);
      if (count > 0) expect(kernels.decodeBitmap(output, count - 1, span, start)).toBe(-1);
      return bitsBetween(pieces.memory, start - 1, end);
    });
  });

  it.each(QUANTIZATIONS)('%s', (_, make) => {
    expectAgreement((kernels, pieces) => {
      const quantization = make(pieces);
      const from = awkwardValues(quantization, count);
      const values = pieces.float32(from);
      const [into, output] = [pieces.bytes(4 * count), pieces.bytes(4 * count)];
      const range = kernels.quantize(values, count, quantization, into);
      expect(kernels.dequantize(into, count, quantization, output)).toBe(true);
      const sent = uint32At(pieces.memory, values, count);
      expect(uint32At(pieces.memory, output, count)).toEqual(sent);
      const behind = new Uint8Array(pieces.memory.buffer, output + 4 * count, 8);
      expect([...behind]).toEqual(new Array(8).fill(0xa5));
      const found = [range, [...uint32At(pieces.memory, into, count)], [...sent]];
      expect(kernels.dequantize(into, count, quantization, into)).toBe(true);
      expect(uint32At(pieces.memory, into, count)).toEqual(sent);
      return found;
    });
  });

  it('magnitudes, raised and mirrored', () => {
    const from = symbols(count, 1000, 3);
    expectAgreement((kernels, pieces) => {
      const at = pieces.uint32(from);
      const results = [kernels.largestMagnitude(at, count), kernels.smallestMagnitude(at, count)];
      kernels.raiseSymbols(at, count, -5);
      const raised = [...uint32At(pieces.memory, at, count)];
      kernels.raiseSymbols(at, count, 5);
      kernels.mirrorSymbols(at, count, 12345);
      const mirrored = [...uint32At(pieces.memory, at, count)];
      kernels.mirrorSymbols(at, count, 12345);
      expect(uint32At(pieces.memory, at, count)).toEqual(from);
      return [results, raised, mirrored];
    });
  });
});

it.each([0, 1, 2, 6, 9, 12, 13, 14, 16, 22, 27, 28, 31])(
  'Rice code with parameter %i is the same in wasm and reference where codes of all lengths meet',
  parameter => {
    const random = randomNumbers(parameter);
    const edges = [0, 2 ** 15 - 1, 2 ** 15, 2 ** 16 - 1, 2 ** 16, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];
    for (const [spread, often] of [
      [3, 0],
      [8, 0],
      [16, 0],
      [25, 0.02],
      [4, 0.05],
    ] as const) {
      const from = Uint32Array.from({ length: 700 }, () =>
        random() < often
          ? edges[Math.floor(random() * edges.length)]!
          : Math.min(2 ** 32 - 1, Math.floor(random() * spread * 2 ** parameter)),
      );
      expectAgreement((kernels, pieces) => {
        const input = pieces.uint32(from);
        const start = 8 * pieces.bytes(STREAM_BYTES) + 7;
        const end = kernels.riceEncode(input, from.length, parameter, start);
        const output = pieces.bytes(4 * from.length);
        expect(kernels.riceDecode(output, from.length, parameter, start, end)).toBe(end);
        expect(uint32At(pieces.memory, output, from.length)).toEqual(from);
        return bitsBetween(pieces.memory, start - 7, end);
      });
    }
  },
);

it('finds the largest magnitude wherever it is among several pages', () => {
  const count = 9001;
  const from = Float32Array.from({ length: count }, normalNumbers(4));
  for (const place of [0, 1023, 1024, 5000, 8191, 8192, count - 1]) {
    const values = from.map((value, i) => (i === place ? -100 : value));
    expectAgreement((kernels, pieces) => {
      const largest = kernels.largestMagnitude(pieces.float32(values), count);
      expect(largest).toBe(new Uint32Array(Float32Array.of(100).buffer)[0]);
      return largest;
    });
  }
});

describe('the code for small subsets', () => {
  it.each([
    [1, 1],
    [1, 2000],
    [2, 2000],
    [16, 16],
    [15, 16],
    [16, 17],
    [31, 2 ** 29],
    [125, 2000],
    [512, 100_000],
  ])('is the same in wasm and reference: %i of %i', (count, places) => {
    const uniform = subset(count, places, 1);
    const first = Uint32Array.from({ length: count }, (_, i) => i);
    const last = first.map(i => places - count + i);
    for (const indices of [uniform, first, last]) {
      expectAgreement((kernels, pieces) => {
        const gaps = pieces.bytes(4 * count);
        kernels.gapsOf(pieces.uint32(indices), count, 0, gaps);
        const start = 8 * pieces.bytes(STREAM_BYTES) + 2;
        const end = kernels.encodeSubset(gaps, count, places, start);
        const output = pieces.bytes(4 * count);
        expect(kernels.decodeSubset(output, count, places, start, end)).toBe(end);
        expect(uint32At(pieces.memory, output, count)).toEqual(uint32At(pieces.memory, gaps, count));
        if (end > start) expect(kernels.decodeSubset(output, count, places, start, end - 1)).toBe(-1);
        return bitsBetween(pieces.memory, start - 2, end);
      });
    }
  });

  it('never yields an index past the places, whatever the bits', () => {
    const random = randomNumbers(9);
    for (let trial = 0; trial < 300; trial++) {
      const places = 1 + Math.floor(random() * 3000);
      const count = 1 + Math.floor(random() * Math.min(places, 64));
      const noise = Uint32Array.from({ length: 512 }, () => random() * 2 ** 32);
      if (trial % 3 === 0) noise.fill(0xffffffff);
      expectAgreement((kernels, pieces) => {
        const start = 8 * pieces.uint32(noise);
        const [gaps, indices] = [pieces.bytes(4 * count), pieces.bytes(4 * count)];
        const end = kernels.decodeSubset(gaps, count, places, start, start + 8 * 2000);
        expect(end).toBeGreaterThanOrEqual(start);
        expect(kernels.indicesOf(gaps, count, 0, places, indices)).toBeGreaterThan(0);
        return [end, [...uint32At(pieces.memory, gaps, count)]];
      });
    }
  });
});

describe.each(IMPLEMENTATIONS)('%s', (_, make) => {
  const memory = sharedMemory(4);
  const kernels = make(memory);
  const pieces = new Pieces(memory);

  const sentOf = (quantization: Quantization, values: number[]): number[] => {
    const at: Pointer = pieces.float32(values);
    kernels.quantize(at, values.length, quantization, pieces.bytes(4 * values.length));
    return [...float32At(memory, at, values.length)];
  };

  it('rounds int8 to multiples of the scale, halves to even', () => {
    const sent = sentOf({ format: 'int8', scale: 0.5 }, [0.25, -0.26, 0.75, 1.25, -63.6, 1000]);
    expect(sent).toEqual([0, -0.5, 1, 1, -63.5, 63.5]);
  });

  it('rounds float16 to eleven bits', () => {
    expect(sentOf({ format: 'float16', exponent: 0 }, [1, 1 + 2 ** -11, 1 + 3 * 2 ** -11, 2049, 2051])).toEqual([
      1,
      1,
      1 + 2 ** -9,
      2048,
      2052,
    ]);
    expect(sentOf({ format: 'float16', exponent: 0 }, [2 ** -24, 2 ** -25, 1.5 * 2 ** -24])).toEqual([
      2 ** -24,
      0,
      2 ** -23,
    ]);
  });

  it('rounds bfloat16 to eight bits, and never to infinity', () => {
    const sent = sentOf({ format: 'bfloat16' }, [1 + 2 ** -8, 1 + 3 * 2 ** -8, LARGEST]);
    expect(sent).toEqual([1, 1 + 2 ** -6, 2 ** 128 * (1 - 2 ** -8)]);
  });

  it.each(['float32', 'bfloat16', 'float16', 'int8', 'log4'] as const)('refuses symbols that no %s has', format => {
    const first: Record<typeof format, number> = {
      float32: 0x7f800000,
      bfloat16: 0x7f80,
      float16: 0x7800,
      int8: 128,
      log4: 8,
    };
    const quantization: Quantization =
      format === 'float16'
        ? { format, exponent: -113 }
        : format === 'int8'
          ? { format, scale: LARGEST }
          : format === 'log4'
            ? { format, levels: pieces.float32([0, 1, 2, 3, 4, 5, 6, LARGEST]) }
            : { format };
    const into = pieces.bytes(40);
    const attempt = (magnitude: number) => {
      const all = Uint32Array.from({ length: 10 }, (_, i) => (i === 9 ? 2 * magnitude : i));
      return kernels.dequantize(pieces.uint32(all), 10, quantization, into);
    };
    expect(attempt(first[format])).toBe(false);
    expect(attempt(first[format] - 1)).toBe(true);
    expect(float32At(memory, into, 10).every(Number.isFinite)).toBe(true);
  });
});
