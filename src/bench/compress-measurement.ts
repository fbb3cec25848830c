import { clipFactor } from '../compression/clip-factor';
import { GradientCodec } from '../compression/gradient-codec';
import { sentCount } from '../compression/sparsity-schedule';
import { TensorCompressor } from '../compression/tensor-compressor';
import type { ValueFormat } from '../compression/value-format';
import type { SharedHeap } from '../memory/shared-heap';
import type { Pointer } from '../kernels/pointer';
import type { GradientSource } from './gradient-source';
import { percentile, rounded, type Timings, timingsOf } from './statistics';
import type { MeasuredKernels } from './stream-floor';

/** What is measured: the compression of one tensor, as in a training with one rank. */
export interface CompressCase {
  readonly elements: number;
  /** The fraction of the elements that is sent. */
  readonly density: number;
  /** How the values are encoded. */
  readonly format: ValueFormat;
  /** How many steps are timed. */
  readonly iterations: number;
  /** Undefined for no clipping, as in `dgc()`. */
  readonly clipNorm: number | undefined;
}

/** The parts of a step, in their order. */
type PhaseName = 'norm' | 'compress' | 'encode' | 'settle';

/** The result of one {@link CompressCase}. Times are of one step, over all iterations. */
export interface CompressTimes {
  /** The whole step: all its phases. */
  readonly timeMs: Timings;
  /** The median of {@link MeasuredKernels.streamFloor} over memory as large and as cold, run before each step. */
  readonly floorMs: number;
  /** The step's median in units of the floor's. */
  readonly timesFloor: number;
  /** The medians of the phases that were run. */
  readonly phaseMs: { readonly [Name in PhaseName as `${Name}Ms`]?: number };
}

const ALIGNMENT = 64;
const MOMENTUM_FACTOR = 0.9;

/** Steps that are not timed: the kernels are compiled in earnest, pages are mapped, u and v find their sizes. */
const WARM_UP = { minIterations: 5, maxIterations: 1000, elements: 50_000_000 };

/** Where everything lies, from the start of one block. */
function layOut({ elements, density }: Pick<CompressCase, 'elements' | 'density'>) {
  const count = sentCount(elements, density);
  let bytes = 0;
  const place = (size: number): Pointer => {
    const at = bytes;
    bytes += ALIGNMENT * Math.ceil(size / ALIGNMENT);
    return at;
  };
  const tensor = 4 * elements;
  return {
    gradient: place(tensor),
    momentum: place(tensor),
    residual: place(tensor),
    floorMomentum: place(tensor),
    floorResidual: place(tensor),
    indices: place(4 * count),
    values: place(4 * count),
    workspace: place(Math.max(GradientCodec.workspaceBytes, TensorCompressor.workspaceBytes(elements))),
    bytes,
  };
}

/** How much of a WebAssembly memory a case takes: about 20 bytes an element, and 8 for each that is sent. */
export function memoryBytes(measured: Pick<CompressCase, 'elements' | 'density'>): number {
  return layOut(measured).bytes;
}

/**
 * Times the compression of one tensor, in a block of the heap that it gives back.
 *
 * u and v start at zero and live through all steps as in training, so the selection meets residuals that grew over
 * several steps and were cleared where they were sent. That they are young matters little: at 2.56 M elements the
 * ratios over 3000 steps were lower than those over 15 at three densities of the warm-up, and 2 and 6 % higher at two.
 *
 * Each step has a new gradient. Floor and step take turns, so that both meet the same load of the machine; the gradient
 * is written anew before either, so that both find it in the same caches.
 *
 * @param source As long as the case has elements.
 * @throws ERR_OUT_OF_MEMORY
 */
export function measureCompression(
  heap: SharedHeap,
  kernels: MeasuredKernels,
  source: GradientSource,
  measured: CompressCase,
): CompressTimes {
  const { bytes, ...offsets } = layOut(measured);
  const block = heap.allocate(bytes);
  try {
    new Uint8Array(heap.memory.buffer, block, bytes).fill(0);
    const at = Object.fromEntries(Object.entries(offsets).map(([name, offset]) => [name, block + offset]));
    return timeSteps(heap.memory, kernels, source, measured, at as typeof offsets);
  } finally {
    heap.release(block, bytes);
  }
}

function timeSteps(
  memory: WebAssembly.Memory,
  kernels: MeasuredKernels,
  source: GradientSource,
  { elements, density, format, iterations, clipNorm }: CompressCase,
  at: Omit<ReturnType<typeof layOut>, 'bytes'>,
): CompressTimes {
  const { gradient, momentum, residual, indices, values } = at;
  const count = sentCount(elements, density);
  const compressor = new TensorCompressor(
    kernels,
    { elementCount: elements, gradient, momentum, residual },
    at.workspace,
  );
  const codec = new GradientCodec(kernels, memory, format, at.workspace);
  const accumulation = { count, momentumFactor: MOMENTUM_FACTOR, nesterov: false, indices, values };
  let gradientScale = 1;
  let largest = 0;
  const clip = (): void => {
    gradientScale = clipFactor({ sumOfSquares: kernels.sumOfSquares(gradient, elements), clipNorm, worldSize: 1 });
  };
  const phases: readonly (readonly [PhaseName, () => void])[] = [
    ...(clipNorm === undefined ? [] : [['norm', clip] as const]),
    ['compress', () => (largest = compressor.compress({ ...accumulation, gradientScale }))],
    ['encode', () => codec.encode([{ elementCount: elements, count, indices, values, largest }])],
    ['settle', () => compressor.settle(indices, values, count)],
  ];

  const gradientView = new Float32Array(memory.buffer, gradient, elements);
  const floorTimes: number[] = [];
  const stepTimes: number[] = [];
  const phaseTimes = phases.map((): number[] => []);
  const { minIterations, maxIterations } = WARM_UP;
  const warmUp = Math.max(minIterations, Math.min(maxIterations, Math.ceil(WARM_UP.elements / elements)));
  for (let iteration = -warmUp; iteration < iterations; iteration++) {
    const start = source.next();
    source.write(gradientView, start);
    const floorStarted = performance.now();
    kernels.streamFloor(gradient, at.floorMomentum, at.floorResidual, elements);
    const floorEnded = performance.now();

    source.write(gradientView, start);
    const stepStarted = performance.now();
    const ends = phases.map(([, run]) => {
      run();
      return performance.now();
    });
    if (iteration < 0) continue;
    floorTimes.push(floorEnded - floorStarted);
    stepTimes.push(ends.at(-1)! - stepStarted);
    ends.forEach((ended, i) => phaseTimes[i]!.push(ended - (ends[i - 1] ?? stepStarted)));
  }

  const { min, p50, p99 } = timingsOf(stepTimes);
  const floorP50 = percentile(floorTimes, 50);
  return {
    timeMs: { min: rounded(min, 6), p50: rounded(p50, 6), p99: rounded(p99, 6) },
    floorMs: rounded(floorP50, 6),
    timesFloor: rounded(p50 / floorP50, 3),
    phaseMs: Object.fromEntries(phases.map(([name], i) => [`${name}Ms`, rounded(percentile(phaseTimes[i]!, 50), 6)])),
  };
}
