import { readFileSync } from 'node:fs';
import path from 'node:path';
import {
  type FloatType,
  GATHER_BLOCK,
  HISTOGRAM_BYTES,
  type IndexedValues,
  type Kernels,
  type ReducedType,
  PACK_TABLE_BYTES,
  type ReduceOperation,
} from '../../src/kernels/kernels';
import { INFINITE_MAGNITUDE } from '../../src/kernels/pointer';
import { instantiateKernels } from '../../src/kernels/wasm-kernels';
import { nearestHalf, referenceKernels, valueOfHalf } from './reference-kernels';
import {
  float32At,
  float32From,
  IMPLEMENTATIONS,
  normalNumbers,
  Pieces,
  randomNumbers,
  sharedMemory,
  uint32At,
} from './shared-memory';

const LENGTHS = [0, 1, 3, 4, 5, 15, 16, 17, 1023];

/** More than four pages of 4 KiB twice, and something behind them. */
const SEVERAL_PAGES = 9001;
const OPERATIONS: ReduceOperation[] = ['sum', 'product', 'min', 'max'];
const ELEMENT_BYTES: Record<ReducedType, number> = {
  ...{ float32: 4, float64: 8, float16: 2, bfloat16: 2 },
  ...{ int32: 4, int64: 8, uint64: 8, uint8: 1 },
};
const TYPES = Object.keys(ELEMENT_BYTES) as ReducedType[];
const FLOATS: readonly FloatType[] = ['float32', 'float64', 'float16', 'bfloat16'];

/** Awkward float32 among ordinary ones. */
function awkwardNumbers(seed: number): () => number {
  const random = randomNumbers(seed);
  const normal = normalNumbers(seed + 1);
  const special = [0, -0, 1e-45, -1e-45, 1e-39, 3.4028234663852886e38, -3.4028234663852886e38, 1, -1];
  return () => (random() < 0.3 ? special[Math.floor(random() * special.length)]! : normal());
}

/** Runs the same on both implementations, each in a memory of its own, and returns the bytes that each left behind. */
function onBoth(run: (kernels: Kernels, pieces: Pieces) => unknown): { wasm: unknown[]; reference: unknown[] } {
  const [wasm, reference] = [instantiateKernels, referenceKernels].map(make => {
    const memory = sharedMemory(2);
    const result = run(make(memory), new Pieces(memory));
    return [result, Buffer.from(new Uint8Array(memory.buffer)).toString('latin1')];
  });
  return { wasm: wasm!, reference: reference! };
}

/** Words of memory as a string, which Jest compares at once where it takes seconds for large arrays. */
function bitsAt(memory: WebAssembly.Memory, at: number, words: number): string {
  return Buffer.from(new Uint8Array(memory.buffer, at, 4 * words)).toString('latin1');
}

/** One accumulation by both implementations, gathering in two places of these capacities. */
function expectSameAccumulation(
  count: number,
  nesterov: boolean,
  lowest: number,
  [firstCapacity, secondCapacity]: [number, number],
): void {
  const [wasm, reference] = [instantiateKernels, referenceKernels].map(make => {
    const memory = sharedMemory(6);
    const pieces = new Pieces(memory);
    const [gradient, momentum, residual] = [6, 7, 8].map(seed =>
      pieces.float32(float32From(awkwardNumbers(seed), count)),
    );
    const place = (capacity: number) => {
      const bytes = capacity < 0 ? 0 : 4 * (capacity + GATHER_BLOCK + 4);
      return { capacity, bytes, indices: pieces.bytes(bytes), values: pieces.bytes(bytes) };
    };
    const [first, second] = [place(firstCapacity), place(secondCapacity)];
    const packTable = pieces.bytes(PACK_TABLE_BYTES);
    const gathered = make(memory).accumulate(
      {
        gradient: gradient!,
        momentum: momentum!,
        residual: residual!,
        elementCount: count,
        gradientScale: 0.7,
        momentumFactor: 0.9,
        nesterov,
      },
      { lowest, first, second, packTable },
    );
    const entries = (place: IndexedValues, stored: number) =>
      [place.indices, place.values].map(at => bitsAt(memory, at, stored));
    return {
      gathered,
      // With a gap behind the last, so that a write past the end shows; but not the scratch.
      tensors: [gradient, momentum, residual].map(at => bitsAt(memory, at!, count + 4)),
      first: entries(first, gathered.inFirst),
      second: gathered.inSecond <= secondCapacity && entries(second, gathered.inSecond),
      gaps: [first, second].flatMap(({ indices, values, bytes }) =>
        [indices, values].map(at => bitsAt(memory, at + bytes, 4)),
      ),
    };
  });
  expect(wasm).toEqual(reference);
}

describe('the wasm module', () => {
  const module = new WebAssembly.Module(readFileSync(path.join(__dirname, '../../dist/kernels/kernels.wasm')));

  it('imports nothing but the memory, so it can neither allocate nor abort', () => {
    expect(WebAssembly.Module.imports(module)).toEqual([{ module: 'env', name: 'memory', kind: 'memory' }]);
  });

  it('leaves a memory as it finds it when it is instantiated', () => {
    const memory = sharedMemory(2);
    new Uint8Array(memory.buffer).fill(0xa5);
    instantiateKernels(memory);
    expect(new Uint8Array(memory.buffer).every(byte => byte === 0xa5)).toBe(true);
  });

  it('sees a memory that grew', () => {
    const memory = sharedMemory(1);
    const kernels = instantiateKernels(memory);
    memory.grow(1);
    const values = new Pieces(memory, 65536 + 64).float32([3, 4]);
    expect(kernels.sumOfSquares(values, 2)).toBe(25);
  });
});

describe.each(LENGTHS)('wasm and reference agree on %i elements:', count => {
  it.each(TYPES)('reduce %s', type => {
    const { wasm, reference } = onBoth((kernels, pieces) => {
      const { buffer } = pieces.memory;
      const byteCount = count * ELEMENT_BYTES[type];
      const reduced = OPERATIONS.map(operation => {
        const [into, from] = [1, 2].map(seed => {
          const at = pieces.bytes(byteCount);
          const random = randomNumbers(seed);
          const awkward = awkwardNumbers(seed);
          if (type === 'float32') new Float32Array(buffer, at, count).forEach((_, i, all) => (all[i] = awkward()));
          else if (type === 'float64') new Float64Array(buffer, at, count).forEach((_, i, all) => (all[i] = awkward()));
          else new Uint8Array(buffer, at, byteCount).forEach((_, i, all) => (all[i] = random() * 256));
          return at;
        });
        kernels.reduce(operation, type, into!, from!, count);
        return [operation, Buffer.from(new Uint8Array(buffer, into, byteCount)).toString('hex')];
      });
      return Object.fromEntries(reduced) as unknown;
    });
    expect(wasm).toEqual(reference);
  });

  it.each(FLOATS)('scale %s', type => {
    const { wasm, reference } = onBoth((kernels, pieces) => {
      const data = pieces.bytes(count * ELEMENT_BYTES[type]);
      const Typed = { float32: Float32Array, float64: Float64Array, float16: Uint16Array, bfloat16: Uint16Array }[type];
      const numbers = Array.from({ length: count }, awkwardNumbers(3));
      const isHalf = type === 'float16' || type === 'bfloat16';
      new Typed(pieces.memory.buffer, data, count).set(isHalf ? numbers.map(x => nearestHalf(type, x)) : numbers);
      return kernels.scale(type, data, 0.3, count);
    });
    expect(wasm).toEqual(reference);
  });

  it.each([false, true])('applyMomentum, nesterov %s', nesterov => {
    const { wasm, reference } = onBoth((kernels, pieces) => {
      const gradient = pieces.float32(float32From(normalNumbers(4), count));
      const momentum = pieces.float32(float32From(normalNumbers(5), count));
      for (let step = 0; step < 3; step++) kernels.applyMomentum(gradient, momentum, count, 0.9, nesterov);
    });
    expect(wasm).toEqual(reference);
  });

  it.each([false, true])('accumulate, nesterov %s, whatever is gathered', nesterov => {
    for (const lowest of [1, 0x3f800000, INFINITE_MAGNITUDE])
      expectSameAccumulation(count, nesterov, lowest, [0, count]);
  });

  it('allFinite, wherever a value is not', () => {
    const { wasm, reference } = onBoth((kernels, pieces) => {
      const values = float32From(awkwardNumbers(9), count);
      const data = pieces.float32(values);
      const view = float32At(pieces.memory, data, count);
      const found = [kernels.allFinite(data, count)];
      for (const [i, bad] of [NaN, Infinity, -Infinity].entries()) {
        const at = Math.floor((count * (i + 1)) / 4);
        if (at < count) view[at] = bad;
        found.push(kernels.allFinite(data, count));
        view.set(values);
      }
      return found;
    });
    expect(wasm).toEqual(reference);
  });

  it('clear', () => {
    const { wasm, reference } = onBoth((kernels, pieces) => {
      kernels.clear(pieces.float32(float32From(awkwardNumbers(3), count)), count);
    });
    expect(wasm).toEqual(reference);
  });

  it('sumOfSquares, but for the rounding', () => {
    const { wasm, reference } = onBoth((kernels, pieces) =>
      kernels.sumOfSquares(pieces.float32(float32From(normalNumbers(10), count)), count),
    );
    expect(Math.abs(Number(wasm[0]) - Number(reference[0]))).toBeLessThanOrEqual(1e-12 * Number(reference[0]));
  });

  it('scatterAdd, indices twice included', () => {
    const { wasm, reference } = onBoth((kernels, pieces) => {
      const random = randomNumbers(11);
      const indices = pieces.uint32(Array.from({ length: count }, () => Math.floor(random() * 500)));
      const into = pieces.float32(float32From(normalNumbers(12), 500));
      kernels.scatterAdd(into, indices, pieces.float32(float32From(normalNumbers(13), count)), count);
    });
    expect(wasm).toEqual(reference);
  });

  it('addEntries', () => {
    const { wasm, reference } = onBoth((kernels, pieces) => {
      const random = randomNumbers(14);
      const listFrom = (start: number, entries: number) => {
        const indices = Array.from({ length: 2 * entries }, (_, i) => start + i).filter(() => random() < 0.5);
        const values = pieces.float32(float32From(awkwardNumbers(indices.length), indices.length));
        return { indices: pieces.uint32(indices), values, count: indices.length };
      };
      const sizes = [[0, count], [count, 5], [count, count]] as const; // prettier-ignore
      return sizes.map(([ofA, ofB]) => {
        const [a, b] = [listFrom(0, ofA), listFrom(1000, ofB)];
        const bytes = 4 * (a.count + b.count);
        return kernels.addEntries(a, b, 1000, { indices: pieces.bytes(bytes), values: pieces.bytes(bytes) });
      });
    });
    expect(wasm).toEqual(reference);
  });

  it('settle', () => {
    const { wasm, reference } = onBoth((kernels, pieces) => {
      const [momentum, residual, values] = [11, 12, 13].map(seed =>
        pieces.float32(float32From(awkwardNumbers(seed), 3 * count)),
      );
      const indices = Array.from({ length: count }, (_, i) => 3 * i + (i % 3));
      const [u, v, sent] = [momentum!, residual!, values!].map(at => float32At(pieces.memory, at, 3 * count));
      const before = u!.slice();
      kernels.settle(momentum!, residual!, pieces.uint32(indices), values!, count);
      // What was rounded to zero was not sent, and keeps its momentum.
      expect(indices.every((i, j) => Object.is(u![i], sent![j] === 0 ? before[i] : 0))).toBe(true);
      // The same once more leaves +0, whatever its sign was.
      const kept = pieces.float32(indices.map(i => v![i]!));
      kernels.settle(momentum!, residual!, pieces.uint32(indices), kept, count);
      expect(indices.every(i => Object.is(v![i], 0))).toBe(true);
    });
    expect(wasm).toEqual(reference);
  });

  it('settleApplied', () => {
    const { wasm, reference } = onBoth((kernels, pieces) => {
      const [momentum, residual, update, values] = [11, 12, 13, 14].map(seed =>
        pieces.float32(float32From(awkwardNumbers(seed), 3 * count)),
      );
      const indices = Array.from({ length: count }, (_, i) => 3 * i + (i % 3));
      const before = float32At(pieces.memory, momentum!, 3 * count).slice();
      kernels.settleApplied(momentum!, residual!, update!, pieces.uint32(indices), values!, count);
      const [u, applied] = [momentum!, update!].map(at => float32At(pieces.memory, at, 3 * count));
      expect(indices.every(i => Object.is(u![i], applied![i] === 0 ? before[i] : 0))).toBe(true);
    });
    expect(wasm).toEqual(reference);
  });

  const needsBlock = count < 16 ? undefined : it; // it samples blocks of 16 elements
  needsBlock?.('sampleAccumulation', () => {
    for (const nesterov of [false, true]) {
      const { wasm, reference } = onBoth((kernels, pieces) => {
        const [gradient, momentum, residual] = [14, 15, 16].map(seed =>
          pieces.float32(float32From(normalNumbers(seed), count)),
        );
        const blockCount = Math.ceil(count / 64);
        kernels.sampleAccumulation(
          {
            gradient: gradient!,
            momentum: momentum!,
            residual: residual!,
            elementCount: count,
            gradientScale: 0.7,
            momentumFactor: 0.9,
            nesterov,
          },
          blockCount,
          pieces.bytes(64 * blockCount),
        );
      });
      expect(wasm).toEqual(reference);
    }
  });

  it('magnitudeOfRank, countAbove and takeLargest at every rank', () => {
    const run = (
      make: (memory: WebAssembly.Memory) => Kernels,
      rank: number,
      source: () => number,
      listed: boolean,
    ) => {
      const memory = sharedMemory(2);
      const pieces = new Pieces(memory);
      const kernels = make(memory);
      const values = pieces.float32(float32From(source, count));
      const indices = listed ? pieces.uint32(Array.from({ length: count }, (_, i) => 7 * i + 2)) : undefined;
      const histogram = pieces.bytes(HISTOGRAM_BYTES);
      const into = { indices: pieces.bytes(4 * rank), values: pieces.bytes(4 * rank) };
      const packTable = pieces.bytes(PACK_TABLE_BYTES);
      const threshold = kernels.magnitudeOfRank(values, count, rank, 0, INFINITE_MAGNITUDE, histogram);
      const larger = kernels.countAbove(values, count, threshold);
      const taking = { threshold, ties: rank - larger, count: rank, into, packTable };
      const taken = kernels.takeLargest(values, indices, count, taking);
      // Four more than were to be written, to see that they were not.
      const written = [into.indices, into.values].map(at => uint32At(memory, at, rank + 4).slice());
      return { threshold, larger, taken, written };
    };
    for (let rank = 1; rank <= count; rank += count > 17 ? 73 : 1) {
      for (const listed of [false, true]) {
        for (const source of [normalNumbers, awkwardNumbers]) {
          const wasm = run(instantiateKernels, rank, source(17), listed);
          expect(wasm).toEqual(run(referenceKernels, rank, source(17), listed));
          expect(wasm.taken.entries).toBe(rank);
        }
      }
    }
  });
});

describe('wasm and reference agree:', () => {
  it.each([2 * GATHER_BLOCK + 500, 5 * GATHER_BLOCK])('accumulate gathers %i elements in two places', count => {
    // None, one block, two, all in the first place; the second has room for the rest, or overflows.
    for (const firstCapacity of [-5, 0, GATHER_BLOCK, count]) {
      for (const secondCapacity of [0, 700, count]) {
        for (const lowest of [1, 0x3f800000, 0x40600000]) {
          expectSameAccumulation(count, lowest === 1, lowest, [firstCapacity, secondCapacity]);
        }
      }
    }
  });

  it.each([awkwardNumbers, normalNumbers])('magnitudeOfRank among those of a range of %p', numbers => {
    const answers = [instantiateKernels, referenceKernels].map(make => {
      const memory = sharedMemory(2);
      const pieces = new Pieces(memory);
      const kernels = make(memory);
      const values = pieces.float32(float32From(numbers(18), 1023));
      const histogram = pieces.bytes(HISTOGRAM_BYTES);
      const magnitudes = uint32At(memory, values, 1023).map(bits => bits & 0x7fffffff);
      const sorted = magnitudes.slice().sort();
      const ranges = [
        [0, 0],
        [0, 1],
        [1, 0x3f800000],
        [0x3f7fffff, 0x3f800000],
        [0x3f000000, 0x3f3fffff],
        [0x3f000001, 0x3f0fffff],
        [0x3f800001, 0x7f7fffff],
        // Those above a range may lie in the same bucket as its highest.
        ...[1022, 1000, 900, 500].map(i => [0, sorted[i]! - 1]),
        ...[1000, 900, 500].map(i => [sorted[i - 100]! + 1, sorted[i]!]),
      ] as [number, number][];
      return ranges.map(([lowest, highest]) => {
        const inside = magnitudes.filter(magnitude => lowest <= magnitude && magnitude <= highest).length;
        // Every seventh rank and the last: the twin sorts all for each.
        const ranks = Array.from({ length: inside }, (_, i) => i + 1).filter(rank => rank % 7 === 1 || rank === inside);
        return ranks.map(rank => kernels.magnitudeOfRank(values, 1023, rank, lowest, highest, histogram));
      });
    });
    expect(answers[0]).toEqual(answers[1]);
    expect(answers[0]!.filter(({ length }) => length > 0).length).toBeGreaterThan(8);
  });

  it.each([0, 1, 3, 4, 15, 16, 17, 100])('copyUpTo of %i values', count => {
    for (const highest of [0, 0x3f800000, INFINITE_MAGNITUDE]) {
      for (const capacity of [0, 1, 2, 50, count]) {
        const answers = [instantiateKernels, referenceKernels].map(make => {
          const memory = sharedMemory(2);
          const pieces = new Pieces(memory);
          const values = pieces.float32(float32From(awkwardNumbers(19), count));
          const into = pieces.bytes(4 * (capacity + 4));
          const packTable = pieces.bytes(PACK_TABLE_BYTES);
          const found = make(memory).copyUpTo(values, count, highest, into, capacity, packTable);
          return {
            found,
            copied: found <= capacity && uint32At(memory, into, found).slice().sort(),
            gap: uint32At(memory, into + 4 * (capacity + 4), 4).slice(),
          };
        });
        expect(answers[0]).toEqual(answers[1]);
      }
    }
  });

  it.each([0, 1, 16, 40, 200])('takeLargest to where the list is, %i of it', count => {
    const elements = float32From(awkwardNumbers(20), 200);
    const sorted = [...elements].map(Math.abs).sort((a, b) => b - a);
    const [threshold, largest] = new Uint32Array(Float32Array.of(sorted[Math.max(0, count - 1)]!, sorted[0]!).buffer);
    const answers = [instantiateKernels, referenceKernels].map(make => {
      const memory = sharedMemory(2);
      const pieces = new Pieces(memory);
      const values = pieces.float32(elements);
      const indices = pieces.uint32(Array.from({ length: 200 }, (_, i) => 3 * i));
      const packTable = pieces.bytes(PACK_TABLE_BYTES);
      const kernels = make(memory);
      const ties = count - kernels.countAbove(values, 200, threshold);
      const taking = { threshold, ties, count, into: { indices, values }, packTable };
      const taken = kernels.takeLargest(values, indices, 200, taking);
      expect(taken).toEqual({ entries: count, ties, largest: count === 0 ? 0 : largest });
      return [indices, values].map(at => uint32At(memory, at, count).slice());
    });
    expect(answers[0]).toEqual(answers[1]);
  });
});

it('sums the squares of several pages, and finds what is not finite in any of them', () => {
  const values = float32From(normalNumbers(14), SEVERAL_PAGES);
  const { wasm, reference } = onBoth((kernels, pieces) => {
    const data = pieces.float32(values);
    const view = float32At(pieces.memory, data, SEVERAL_PAGES);
    const found = [];
    for (const place of [0, 1023, 1024, 5000, 8191, 8192, SEVERAL_PAGES - 1]) {
      view[place] = NaN;
      expect(kernels.allFinite(data, SEVERAL_PAGES)).toBe(false);
      expect(kernels.sumOfSquares(data, SEVERAL_PAGES)).toBe(NaN);
      view[place] = values[place]!;
      found.push(kernels.allFinite(data, SEVERAL_PAGES));
    }
    return found;
  });
  expect(wasm).toEqual(reference);
  const memory = sharedMemory(2);
  const sum = instantiateKernels(memory).sumOfSquares(new Pieces(memory).float32(values), SEVERAL_PAGES);
  const exact = values.reduce((total, x) => total + x * x, 0);
  expect(Math.abs(sum - exact)).toBeLessThanOrEqual(1e-12 * exact);
});

describe.each(IMPLEMENTATIONS)('%s kernels', (_, make) => {
  const memory = sharedMemory(2);
  const kernels = make(memory);
  const pieces = () => new Pieces(memory);

  it.each(['min', 'max'] as const)('propagate NaN from either side in the %s of floats', operation => {
    for (const [type, Typed] of [
      ['float32', Float32Array],
      ['float64', Float64Array],
    ] as const) {
      const at = pieces();
      const [into, from] = [at.bytes(80), at.bytes(80)];
      const target = new Typed(memory.buffer, into, 7).fill(1);
      const source = new Typed(memory.buffer, from, 7).fill(1);
      target[1] = target[6] = NaN;
      source[2] = source[5] = NaN;
      kernels.reduce(operation, type, into, from, 7);
      expect([...target]).toEqual([1, NaN, NaN, 1, 1, NaN, NaN]);
    }
  });

  it('order the zeros', () => {
    const at = pieces();
    const [into, from] = [at.float32([0, -0, 0, -0, 0]), at.float32([-0, 0, -0, 0, -0])];
    kernels.reduce('min', 'float32', into, from, 5);
    expect([...float32At(memory, into, 5)]).toEqual([-0, -0, -0, -0, -0]);
  });

  it('wrap integer sums', () => {
    const at = pieces();
    const [into, from] = [at.bytes(20), at.bytes(20)];
    const target = new Int32Array(memory.buffer, into, 5).fill(0x7fffffff);
    new Int32Array(memory.buffer, from, 5).fill(2);
    kernels.reduce('sum', 'int32', into, from, 5);
    expect([...target]).toEqual(Array(5).fill(-0x7fffffff));

    const bytes = new Uint8Array(memory.buffer, into, 17).fill(250);
    new Uint8Array(memory.buffer, from, 17).fill(10);
    kernels.reduce('sum', 'uint8', into, from, 17);
    expect([...bytes]).toEqual(Array(17).fill(4));
  });

  it('wrap integer products, and those of 64 bits', () => {
    const at = pieces();
    const [into, from] = [at.bytes(20), at.bytes(20)];
    const bytes = new Uint8Array(memory.buffer, into, 17).fill(100);
    new Uint8Array(memory.buffer, from, 17).fill(100);
    kernels.reduce('product', 'uint8', into, from, 17);
    expect([...bytes]).toEqual(Array(17).fill(10_000 % 256));

    const longs = new BigInt64Array(memory.buffer, into, 2).fill(2n ** 62n + 1n);
    new BigInt64Array(memory.buffer, from, 2).fill(3n);
    kernels.reduce('product', 'int64', into, from, 2);
    expect([...longs]).toEqual(Array(2).fill(3n - 2n ** 62n));
    kernels.reduce('min', 'int64', into, from, 2);
    expect([...longs]).toEqual(Array(2).fill(3n - 2n ** 62n));
    kernels.reduce('min', 'uint64', into, from, 2);
    expect([...longs]).toEqual([3n, 3n]);
  });

  it.each(['float16', 'bfloat16'] as const)('round %s to the nearest, halves to even, once', type => {
    const at = pieces();
    const [into, from] = [at.bytes(80), at.bytes(80)];
    const target = new Uint16Array(memory.buffer, into, 40);
    const source = new Uint16Array(memory.buffer, from, 40);
    const step = type === 'float16' ? 2 ** -10 : 2 ** -7; // the last bit of 1
    const largest = type === 'float16' ? 65_504 : (2 - 2 ** -7) * 2 ** 127;
    const sums = [
      [1, step / 2, 1],
      [1 + step, step / 2, 1 + 2 * step],
      [1, (step / 2) * (1 + step), 1 + step],
      [largest, largest, Infinity],
      [-largest, -largest * 2 ** -14, type === 'float16' ? -65_504 : -largest],
      [Infinity, -Infinity, NaN],
      [-0, -0, -0],
    ];
    sums.forEach(([a, b], i) => {
      target[i] = nearestHalf(type, a!);
      source[i] = nearestHalf(type, b!);
    });
    kernels.reduce('sum', type, into, from, sums.length);
    expect(Array.from(target.subarray(0, sums.length), bits => valueOfHalf(type, bits))).toEqual(
      sums.map(([, , sum]) => sum),
    );
  });

  it('compare uint8 without a sign and int32 with one', () => {
    const at = pieces();
    const [into, from] = [at.bytes(20), at.bytes(20)];
    const bytes = new Uint8Array(memory.buffer, into, 17).fill(200);
    new Uint8Array(memory.buffer, from, 17).fill(100);
    kernels.reduce('max', 'uint8', into, from, 17);
    expect([...bytes]).toEqual(Array(17).fill(200));

    const integers = new Int32Array(memory.buffer, into, 5).fill(-1);
    new Int32Array(memory.buffer, from, 5).fill(1);
    kernels.reduce('max', 'int32', into, from, 5);
    expect([...integers]).toEqual(Array(5).fill(1));
  });

  it('sum squares beyond the range of float32, and tell NaN and infinity', () => {
    const largest = 3.4028234663852886e38;
    const data = pieces().float32(Array(9).fill(largest));
    expect(kernels.sumOfSquares(data, 9)).toBeCloseTo(9 * largest * largest, -70);
    for (const bad of [NaN, Infinity, -Infinity]) {
      for (const i of [0, 1, 2, 3, 7, 8]) {
        const view = float32At(memory, data, 9).fill(1);
        view[i] = bad;
        expect(Number.isFinite(kernels.sumOfSquares(data, 9))).toBe(false);
        expect(kernels.allFinite(data, 9)).toBe(false);
      }
    }
  });

  it.each(['float32', 'float64'] as const)('tell whether all are finite once they are scaled: %s', type => {
    const data = pieces().bytes(41 * ELEMENT_BYTES[type]);
    const view = new (type === 'float32' ? Float32Array : Float64Array)(memory.buffer, data, 41);
    const largest = type === 'float32' ? 3.4028234663852886e38 : Number.MAX_VALUE;
    for (let i = 0; i < view.length; i++) {
      view.fill(-1);
      view[i] = largest;
      expect(kernels.scale(type, data, 1, 41)).toBe(true);
      expect(kernels.scale(type, data, 1.01, 41)).toBe(false); // it overflows
      expect(kernels.scale(type, data, 0.01, 41)).toBe(false);
      view.fill(-0)[i] = NaN;
      expect(kernels.scale(type, data, 0.5, 41)).toBe(false);
    }
  });

  it('apply momentum as TensorFlow.js does', () => {
    const at = pieces();
    const [gradient, momentum] = [at.float32([1, 2]), at.float32([10, 20])];
    kernels.applyMomentum(gradient, momentum, 2, 0.5, false);
    expect([...float32At(memory, gradient, 2)]).toEqual([6, 12]);
    expect([...float32At(memory, momentum, 2)]).toEqual([6, 12]);
    float32At(memory, gradient, 2).set([1, 2]);
    kernels.applyMomentum(gradient, momentum, 2, 0.5, true);
    expect([...float32At(memory, momentum, 2)]).toEqual([3.5, 7]);
    expect([...float32At(memory, gradient, 2)]).toEqual([4.5, 9]);
  });
});

describe('beyond 2 GiB', () => {
  it('the kernels work as they do below', () => {
    const memory = sharedMemory(1);
    // Pages that are never touched cost nothing.
    memory.grow(35_500);
    const start = 2 ** 31 - 65536;
    const answers = IMPLEMENTATIONS.map(([, make]) => {
      const kernels = make(memory);
      const pieces = new Pieces(memory, start);
      const count = 20_003;
      const into = pieces.float32(float32From(normalNumbers(1), count));
      const from = pieces.float32(float32From(normalNumbers(2), count));
      expect(into).toBeLessThan(2 ** 31);
      expect(from).toBeGreaterThan(2 ** 31);
      kernels.reduce('sum', 'float32', into, from, count);
      kernels.reduce('min', 'float32', from, into, count);
      kernels.scale('float32', into, 0.5, count);
      kernels.applyMomentum(into, from, count, 0.9, true);
      const residual = pieces.float32(float32From(normalNumbers(3), count));
      const accumulation = {
        gradient: into,
        momentum: from,
        residual,
        elementCount: count,
        gradientScale: 1,
        momentumFactor: 0.9,
        nesterov: false,
      };
      const place = (capacity: number) => {
        const bytes = 4 * (capacity + GATHER_BLOCK + 4);
        return { capacity, indices: pieces.bytes(bytes), values: pieces.bytes(bytes) };
      };
      const [first, second] = [place(0), place(count)];
      const histogram = pieces.bytes(HISTOGRAM_BYTES);
      const packTable = pieces.bytes(PACK_TABLE_BYTES);
      const sample = pieces.bytes(6400);
      kernels.sampleAccumulation(accumulation, 100, sample);
      const found = kernels.accumulate(accumulation, { lowest: 0x40000000, first, second, packTable });
      const inBand = pieces.bytes(4 * (count + 4));
      const copied = kernels.copyUpTo(residual, count, 0x40000000, inBand, count, packTable);
      const largest = { indices: pieces.bytes(400), values: pieces.bytes(400) };
      const threshold = kernels.magnitudeOfRank(residual, count, 100, 0, INFINITE_MAGNITUDE, histogram);
      const larger = kernels.countAbove(residual, count, threshold);
      const taking = { threshold, ties: 100 - larger, count: 100, into: largest, packTable };
      const inFirst = kernels.takeLargest(first.values, first.indices, found.inFirst, taking);
      const taken = kernels.takeLargest(residual, undefined, count, taking).entries;
      kernels.settle(from, residual, largest.indices, largest.values, taken);
      kernels.scatterAdd(residual, largest.indices, largest.values, taken >> 1);
      const sum = { indices: pieces.bytes(800), values: pieces.bytes(800) };
      const summed = kernels.addEntries({ ...largest, count: taken }, { ...largest, count: taken }, 0, sum);
      float32At(memory, into, count)[count - 1] = NaN;
      return {
        found,
        threshold,
        inFirst,
        copied,
        taken,
        isFinite: kernels.allFinite(into, count),
        bits: [into, from, residual].map(at => uint32At(memory, at, count).slice()),
        largest: [largest.indices, largest.values].map(at => uint32At(memory, at, 100).slice()),
        sums: [sum.indices, sum.values].map(at => uint32At(memory, at, summed).slice()),
        sample: uint32At(memory, sample, 1600).slice(),
        inBand: uint32At(memory, inBand, copied).slice().sort(),
      };
    });
    expect(answers[0]!.taken).toBe(100);
    expect(answers[0]!.isFinite).toBe(false);
    expect(answers[0]).toEqual(answers[1]);
  });
});
