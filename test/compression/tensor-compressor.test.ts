import fc from 'fast-check';
import { TensorCompressor } from '../../src/compression/tensor-compressor';
import type { Kernels, Pointer } from '../../src/kernels/kernels';
import { instantiateKernels } from '../../src/kernels/wasm-kernels';
import {
  float32At,
  float32From,
  IMPLEMENTATIONS,
  normalNumbers,
  Pieces,
  randomNumbers,
  sharedMemory,
  uint32At,
} from '../kernels/shared-memory';
import { casesWhere } from '../support/cases';

const { fround } = Math;

interface Step {
  readonly count: number;
  readonly momentumFactor: number;
  readonly nesterov: boolean;
  readonly gradientScale: number;
}

/** DGC of one tensor, as plain as possible, and without any code of the library. */
class SlowCompressor {
  readonly momentum: Float32Array;
  readonly residual: Float32Array;

  constructor(elementCount: number) {
    this.momentum = new Float32Array(elementCount);
    this.residual = new Float32Array(elementCount);
  }

  compress(gradient: Float32Array, step: Step): { indices: Uint32Array; values: Float32Array } {
    const m = fround(step.momentumFactor);
    const scale = fround(step.gradientScale);
    gradient.forEach((element, i) => {
      const g = fround(element * scale);
      if (step.nesterov) {
        const u = fround(m * fround(this.momentum[i]! + g));
        this.momentum[i] = u;
        this.residual[i] = fround(fround(this.residual[i]! + u) + g);
      } else {
        const u = fround(fround(m * this.momentum[i]!) + g);
        this.momentum[i] = u;
        this.residual[i] = fround(this.residual[i]! + u);
      }
    });
    const v = this.residual;
    const magnitudes = v.map(Math.abs);
    const order = Array.from(v.keys()).sort((a, b) => magnitudes[b]! - magnitudes[a]! || a - b);
    const indices = Uint32Array.from(order.slice(0, step.count)).sort();
    return { indices, values: Float32Array.from(indices, i => v[i]!) };
  }

  settle(indices: Uint32Array, values: Float32Array, masks = true): void {
    indices.forEach((index, i) => {
      if (masks && values[i] !== 0) this.momentum[index] = 0; // what was rounded to zero was not sent
      this.residual[index]! -= values[i]!;
    });
  }
}

/** A compressor with a memory of its own, and 64 bytes behind each of its arrays that it must leave alone. */
class Bench {
  readonly compressor: TensorCompressor;
  private readonly gradient: Pointer;
  private readonly momentum: Pointer;
  private readonly residual: Pointer;
  private readonly indices: Pointer;
  private readonly values: Pointer;
  private readonly fences: Pointer[] = [];
  private readonly memory: WebAssembly.Memory;

  constructor(
    makeKernels: (memory: WebAssembly.Memory) => Kernels,
    readonly elementCount: number,
  ) {
    const workspaceBytes = TensorCompressor.workspaceBytes(elementCount);
    this.memory = sharedMemory(Math.ceil((20 * elementCount + workspaceBytes + 1024) / 65536));
    const pieces = new Pieces(this.memory);
    const fenced = (bytes: number) => {
      const at = pieces.bytes(bytes);
      pieces.bytes(48);
      this.fences.push(at + bytes);
      return at;
    };
    this.gradient = fenced(4 * elementCount);
    this.momentum = fenced(4 * elementCount);
    this.residual = fenced(4 * elementCount);
    this.indices = fenced(4 * elementCount);
    this.values = fenced(4 * elementCount);
    const workspace = fenced(workspaceBytes);
    this.state.momentum.fill(0);
    this.state.residual.fill(0);
    const { gradient, momentum, residual } = this;
    const kernels = makeKernels(this.memory);
    this.compressor = new TensorCompressor(kernels, { elementCount, gradient, momentum, residual }, workspace);
  }

  get state() {
    return {
      momentum: float32At(this.memory, this.momentum, this.elementCount),
      residual: float32At(this.memory, this.residual, this.elementCount),
    };
  }

  compress(gradient: Float32Array, step: Step): { indices: Uint32Array; values: Float32Array } {
    float32At(this.memory, this.gradient, this.elementCount).set(gradient);
    // The bytes behind the last entry must not change either.
    uint32At(this.memory, this.indices, this.elementCount).fill(0xa5a5a5a5);
    uint32At(this.memory, this.values, this.elementCount).fill(0xa5a5a5a5);
    return this.written(
      step,
      this.compressor.compress({ ...step, indices: this.indices, values: this.values }),
      gradient,
    );
  }

  /** Nothing of the step before may be left where the entries go. */
  selectAgain(gradient: Float32Array, step: Step): { indices: Uint32Array; values: Float32Array } {
    uint32At(this.memory, this.indices, this.elementCount).fill(0xa5a5a5a5);
    uint32At(this.memory, this.values, this.elementCount).fill(0xa5a5a5a5);
    const { count } = step;
    const largest = this.compressor.selectAgain({ count, indices: this.indices, values: this.values });
    return this.written(step, largest, gradient);
  }

  private written(step: Step, largest: number, gradient: Float32Array) {
    const magnitudes = uint32At(this.memory, this.values, step.count).map(bits => bits & 0x7fffffff);
    expect(largest).toBe(magnitudes.reduce((a, b) => Math.max(a, b), 0));
    expectSame(float32At(this.memory, this.gradient, this.elementCount), gradient);
    const isWhole = (fence: Pointer) => new Uint8Array(this.memory.buffer, fence, 48).every(byte => byte === 0xa5);
    expect(this.fences.filter(fence => !isWhole(fence))).toEqual([]);
    for (const array of [this.indices, this.values]) {
      const rest = uint32At(this.memory, array + 4 * step.count, this.elementCount - step.count);
      expect(rest.findIndex(word => word !== 0xa5a5a5a5)).toBe(-1);
    }
    return {
      indices: uint32At(this.memory, this.indices, step.count).slice(),
      values: float32At(this.memory, this.values, step.count).slice(),
    };
  }

  /** `lossy` makes of each value what its receivers got. */
  settle(count: number, lossy = (value: number) => value, masks = true): void {
    const values = float32At(this.memory, this.values, count);
    values.set(values.map(lossy));
    this.compressor.settle(this.indices, this.values, count, masks);
  }
}

/** Bit by bit, so that −0 is not 0; and without Jest's own comparison, which takes seconds for large arrays. */
function expectSame(actual: Float32Array | Uint32Array, expected: Float32Array | Uint32Array): void {
  expect(actual.length).toBe(expected.length);
  const [a, b] = [actual, expected].map(array => new Uint32Array(array.buffer, array.byteOffset, array.length));
  const i = a!.findIndex((word, at) => word !== b![at]);
  if (i >= 0) expect({ i, element: actual[i] }).toEqual({ i, element: `${expected[i]}, bit for bit` });
}

/** Runs the steps on both the compressor and its slow twin, settling after each, and compares all there is. */
function expectSteps(bench: Bench, gradients: Iterable<Float32Array>, steps: (index: number) => Step): void {
  const slow = new SlowCompressor(bench.elementCount);
  let index = 0;
  for (const gradient of gradients) {
    const step = steps(index++);
    const expected = slow.compress(gradient, step);
    const sent = bench.compress(gradient, step);
    expectSame(sent.indices, expected.indices);
    expectSame(sent.values, expected.values);
    const again = bench.selectAgain(gradient, step);
    expectSame(again.indices, expected.indices);
    expectSame(again.values, expected.values);
    expectSame(bench.state.momentum, slow.momentum);
    expectSame(bench.state.residual, slow.residual);
    slow.settle(expected.indices, expected.values);
    bench.settle(step.count);
    expectSame(bench.state.momentum, slow.momentum);
    expectSame(bench.state.residual, slow.residual);
  }
}

type Distribution = (elementCount: number, step: number) => Float32Array;

const DISTRIBUTIONS: Record<string, Distribution> = {
  normal: (n, step) => float32From(normalNumbers(step), n),
  Laplace: (n, step) => {
    const random = randomNumbers(step);
    return float32From(() => Math.log(1 - random()) * (random() < 0.5 ? 1 : -1), n);
  },
  'all equal': n => new Float32Array(n).fill(0.25),
  'equal but for the sign': n => Float32Array.from({ length: n }, (_, i) => (i % 3 ? 0.25 : -0.25)),
  'all zero': n => new Float32Array(n),
  'zeros of either sign': n => Float32Array.from({ length: n }, (_, i) => (i % 2 ? 0 : -0)),
  'one huge': (n, step) => {
    const gradient = new Float32Array(n);
    gradient[Math.floor(n / 2) + step] = 3e37;
    return gradient;
  },
  'one huge among normal': (n, step) => {
    const gradient = float32From(normalNumbers(step), n);
    gradient[n - 1 - step] = -3e37;
    return gradient;
  },
  denormals: (n, step) => {
    const random = randomNumbers(step);
    return float32From(() => (random() - 0.5) * 1e-39, n);
  },
  ascending: n => Float32Array.from({ length: n }, (_, i) => i - n / 3),
  descending: n => Float32Array.from({ length: n }, (_, i) => n - i),
  '99 % zeros': (n, step) => {
    const random = randomNumbers(step);
    const normal = normalNumbers(step);
    return float32From(() => (random() < 0.99 ? 0 : normal()), n);
  },
  'all that is not zero in one place': (n, step) => {
    const gradient = new Float32Array(n);
    gradient.set(float32From(normalNumbers(step), Math.ceil(n / 50)), Math.floor(n / 2));
    return gradient;
  },
  'a scale that moves 100× from step to step': (n, step) =>
    float32From(normalNumbers(step), n).map(x => x * [1, 100, 0.01, 1][step % 4]!),
  'few different values': (n, step) => {
    const random = randomNumbers(step);
    return float32From(() => Math.floor(random() * 5) - 2, n);
  },
};

function gradientsOf(distribution: Distribution, elementCount: number, steps: number): Float32Array[] {
  return Array.from({ length: steps }, (_, step) => distribution(elementCount, step));
}

describe.each(casesWhere(([name]) => name === 'wasm', IMPLEMENTATIONS))(
  'TensorCompressor on %s kernels',
  (_, makeKernels) => {
    describe.each(Object.keys(DISTRIBUTIONS))('%s:', name => {
      const distribution = DISTRIBUTIONS[name]!;

      it.each([
        ['plain', false],
        ['Nesterov', true],
      ])('%s, at all densities', (__, nesterov) => {
        const elementCount = 2003;
        const bench = new Bench(makeKernels, elementCount);
        const counts = [3, 501, 1, 0, 33, 1500, elementCount - 1, elementCount, 21];
        expectSteps(bench, gradientsOf(distribution, elementCount, counts.length), index => ({
          count: counts[index]!,
          momentumFactor: 0.9,
          nesterov,
          gradientScale: index % 2 ? 0.3 : 1,
        }));
      });
    });

    it.each([1, 2, 3, 4, 5, 15, 16, 17, 31, 256, 257, 260])(
      'does every count of a tensor of %i elements',
      elementCount => {
        const bench = new Bench(makeKernels, elementCount);
        const step = Math.max(1, Math.floor(elementCount / 40));
        const counts = Array.from({ length: Math.floor(elementCount / step) + 1 }, (__, i) => i * step);
        expectSteps(bench, gradientsOf(DISTRIBUTIONS['few different values']!, elementCount, counts.length), index => ({
          count: counts[index]!,
          momentumFactor: 0.5,
          nesterov: index % 2 === 0,
          gradientScale: 1,
        }));
      },
    );

    it('takes an empty tensor', () => {
      const bench = new Bench(makeKernels, 0);
      const step = { count: 0, momentumFactor: 0.9, nesterov: false, gradientScale: 1 };
      expect(bench.compress(new Float32Array(0), step).indices).toHaveLength(0);
    });

    it('loses nothing when a step is not settled, as after a failed exchange', () => {
      const bench = new Bench(makeKernels, 100);
      const gradient = new Float32Array(100).fill(1);
      const step = { count: 10, momentumFactor: 0, nesterov: false, gradientScale: 1 };
      bench.compress(gradient, step);
      const sent = bench.compress(gradient, step);
      expect([...sent.values]).toEqual(Array(10).fill(2));
      expect([...bench.state.residual]).toEqual(Array(100).fill(2));
    });

    it.each([
      ['and forgets the momentum of what was sent', true],
      ['without masking, and keeps all momentum', false],
    ])('keeps in the residual what a lossy encoding lost, %s', (_, masks) => {
      const lossy = (value: number) => fround(Math.round(value * 8) / 8);
      const bench = new Bench(makeKernels, 3000);
      const slow = new SlowCompressor(3000);
      for (const seed of [1, 2, 3]) {
        const gradient = float32From(normalNumbers(seed), 3000);
        const step = { count: 700, momentumFactor: 0.9, nesterov: false, gradientScale: 1 };
        const { indices, values } = slow.compress(gradient, step);
        expectSame(bench.compress(gradient, step).indices, indices);
        bench.settle(step.count, lossy, masks);
        slow.settle(indices, values.map(lossy), masks);
        expect(indices.every(i => (slow.momentum[i] === 0) === masks)).toBe(true);
        expect(indices.some(i => slow.residual[i] !== 0)).toBe(true);
        expectSame(bench.state.momentum, slow.momentum);
        expectSame(bench.state.residual, slow.residual);
      }
    });

    it.each([-1, 101, 1.5, NaN])('refuses to send %d of 100 elements, and changes nothing', count => {
      const bench = new Bench(makeKernels, 100);
      const input = { momentumFactor: 0.9, nesterov: false, gradientScale: 1, indices: 0, values: 0 };
      expect(() => bench.compressor.compress({ ...input, count })).toThrow(
        expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringContaining('100 elements') }),
      );
      expect(bench.state.momentum.every(x => x === 0)).toBe(true);
    });

    it.each([1, 5, 100, 1999, 2000])('writes %i valid entries even of a gradient with NaN', count => {
      const bench = new Bench(makeKernels, 2000);
      const gradient = float32From(normalNumbers(1), 2000).map((x, i) => (i % 20 ? x : NaN));
      const sent = bench.compress(gradient, { count, momentumFactor: 0.9, nesterov: false, gradientScale: 1 });
      expect(sent.indices.every((index, i) => index < 2000 && (i === 0 || index > sent.indices[i - 1]!))).toBe(true);
    });

    const float32 = fc.oneof(
      { weight: 3, arbitrary: fc.constantFrom(0, -0, 1, -1, 2, -2, 0.5) },
      {
        weight: 1,
        arbitrary: fc.float({ noNaN: true, noDefaultInfinity: true, min: fround(-1e30), max: fround(1e30) }),
      },
    );

    it('keeps its promises for any gradients', () => {
      const steps = fc.integer({ min: 1, max: 700 }).chain(elementCount =>
        fc.tuple(
          fc.boolean(),
          fc.constantFrom(0, 0.5, 0.9),
          fc.array(
            fc.record({
              gradient: fc.float32Array({ minLength: 0, maxLength: 40, noNaN: true, noDefaultInfinity: true }),
              pattern: fc.array(float32, { minLength: 1, maxLength: 50 }),
              count: fc.integer({ min: 0, max: elementCount }),
            }),
            { minLength: 1, maxLength: 3 },
          ),
          fc.constant(elementCount),
        ),
      );
      fc.assert(
        fc.property(steps, ([nesterov, momentumFactor, records, elementCount]) => {
          const bench = new Bench(makeKernels, elementCount);
          const slow = new SlowCompressor(elementCount);
          for (const { gradient: some, pattern, count } of records) {
            const gradient = Float32Array.from({ length: elementCount }, (__, i) => pattern[i % pattern.length]!);
            gradient.set(some.subarray(0, elementCount).map(x => x * fround(1e-10)));
            const step = { count, momentumFactor, nesterov, gradientScale: 1 };
            slow.compress(gradient, step);
            const { indices, values } = bench.compress(gradient, step);
            const accumulated = slow.residual.slice();
            const isSent = new Uint8Array(elementCount);
            for (const i of indices) isSent[i] = 1;

            // Ascending and distinct.
            expect(indices.every((index, i) => i === 0 || index > indices[i - 1]!)).toBe(true);
            // The largest; of equals the first.
            const magnitude = accumulated.map(Math.abs);
            const smallest = Math.min(...Array.from(indices, i => magnitude[i]!));
            const lastTie = indices.findLast(i => magnitude[i] === smallest)!;
            const wronglyKept = magnitude.findIndex(
              (kept, i) => count > 0 && !isSent[i] && !(kept < smallest || (kept === smallest && i > lastTie)),
            );
            expect(wronglyKept).toBe(-1);
            // Sent + kept = accumulated.
            bench.settle(count);
            const together = bench.state.residual.slice();
            expect(indices.every(i => bench.state.residual[i] === 0)).toBe(true);
            expect(indices.every((index, i) => bench.state.momentum[index] === 0 || values[i] === 0)).toBe(true);
            indices.forEach((index, i) => (together[index] = values[i]!));
            expectSame(together, accumulated);
            slow.settle(indices, values);
            expectSame(bench.state.momentum, slow.momentum);
          }
        }),
        { numRuns: 100 },
      );
    });
  },
);

/** More elements than the workspace has room for candidates, so that all ways to the threshold are gone. */
describe('TensorCompressor on a large tensor', () => {
  const elementCount = 70_001;
  const LARGE_COMMON = ['normal', 'all equal', 'one huge among normal', '99 % zeros', 'few different values'];

  it.each(casesWhere(name => LARGE_COMMON.includes(name), Object.keys(DISTRIBUTIONS)))('%s', name => {
    const counts = [70, 18_000, 45_000, elementCount - 1];
    const gradients = gradientsOf(DISTRIBUTIONS[name]!, elementCount, counts.length);
    expectSteps(new Bench(instantiateKernels, elementCount), gradients, index => ({
      count: counts[index]!,
      momentumFactor: 0.9,
      nesterov: false,
      gradientScale: 1,
    }));
  });

  it.each([1, 70, 4000, 20_000, 45_000, 70_000])('sends the right %i whatever the sample says', count => {
    const gradient = float32From(normalNumbers(3), elementCount);
    const step = { count, momentumFactor: 0.9, nesterov: false, gradientScale: 1 };
    const expected = new SlowCompressor(elementCount).compress(gradient, step);
    const least = expected.values.reduce((least, value) => Math.min(least, Math.abs(value)), Infinity);
    let sampled: number[] = [];
    const misled = (memory: WebAssembly.Memory): Kernels => ({
      ...instantiateKernels(memory),
      sampleAccumulation: (_, blockCount, into) =>
        float32At(memory, into, 16 * blockCount).forEach((__, i, all) => (all[i] = sampled[i % sampled.length]!)),
    });
    const bench = new Bench(misled, elementCount);
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(0, 1e-30, 0.1, 0.7, 1, 2, 3.5, 1e30, 0.99 * least, 1.01 * least), {
          minLength: 1,
          maxLength: 4,
        }),
        lie => {
          sampled = lie;
          bench.state.momentum.fill(0);
          bench.state.residual.fill(0);
          const sent = bench.compress(gradient, step);
          expectSame(sent.indices, expected.indices);
          expectSame(sent.values, expected.values);
        },
      ),
      { numRuns: 30 },
    );
  });
});

describe('TensorCompressor where nearly all elements are gathered, many times what the workspace has room for', () => {
  it.each([100, 5000, 150_000])('sends %i and writes nothing outside', count => {
    const bench = new Bench(instantiateKernels, 300_000);
    expectSteps(bench, gradientsOf(DISTRIBUTIONS['equal but for the sign']!, 300_000, 2), () => ({
      count,
      momentumFactor: 0.9,
      nesterov: false,
      gradientScale: 1,
    }));
  });
});

describe('the workspace', () => {
  it('is about half a byte an element for large tensors, and never less for more elements', () => {
    expect(TensorCompressor.workspaceBytes(25_600_000)).toBeLessThan(25_600_000 * 0.51);
    let last = 0;
    for (let elementCount = 0; elementCount < 3_000_000; elementCount += 997) {
      const bytes = TensorCompressor.workspaceBytes(elementCount);
      expect(bytes).toBeGreaterThanOrEqual(last);
      last = bytes;
    }
  });

  it('may be shared, and may hold anything before a call', () => {
    const counts = [5000, 300, 20];
    const memory = sharedMemory(32);
    const pieces = new Pieces(memory);
    const kernels = instantiateKernels(memory);
    const workspaceBytes = TensorCompressor.workspaceBytes(Math.max(...counts));
    const workspace = pieces.bytes(workspaceBytes);
    const tensors = counts.map(elementCount => {
      const [momentum, residual] = [0, 1].map(() => pieces.float32(new Float32Array(elementCount)));
      const gradient = pieces.float32(float32From(normalNumbers(elementCount), elementCount));
      const segment = { elementCount, gradient, momentum: momentum!, residual: residual! };
      return {
        gradient,
        elementCount,
        compressor: new TensorCompressor(kernels, segment, workspace),
        slow: new SlowCompressor(elementCount),
      };
    });
    const [indices, values] = [pieces.bytes(4000), pieces.bytes(4000)];
    for (let round = 0; round < 3; round++) {
      for (const { gradient, elementCount, compressor, slow } of tensors) {
        const step = { count: Math.ceil(elementCount / 10), momentumFactor: 0.9, nesterov: false, gradientScale: 1 };
        new Uint8Array(memory.buffer, workspace, workspaceBytes).fill(0xff * round);
        compressor.compress({ ...step, indices, values });
        const expected = slow.compress(float32At(memory, gradient, elementCount), step);
        expectSame(uint32At(memory, indices, step.count), expected.indices);
        expectSame(float32At(memory, values, step.count), expected.values);
        compressor.settle(indices, values, step.count);
        slow.settle(expected.indices, expected.values);
      }
    }
  });
});
