import { clipFactor } from '../compression/clipping';
import { GradientCodec } from '../compression/gradient-codec';
import { sentCount } from '../compression/sparsity-schedule';
import { TensorCompressor } from '../compression/tensor-compressor';
import type { ValueFormat } from '../compression/value-format';
import type { SharedHeap } from '../memory/shared-heap';
import type { KernelMemory } from '../kernel-memory';
import type { Pointer } from '../kernels/pointer';
import type { GradientSource } from './gradient-source';
import { Places, withBlock } from './heap-block';
import { percentile, rounded } from './statistics';
import { type MeasuredKernels, timesBesideFloor, type TimesBesideFloor } from './stream-floor';

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

/** The times of one step, over all iterations: of all its phases together, and of each. */
export interface CompressTimes extends TimesBesideFloor {
  /** The medians of the phases that were run. */
  readonly phaseMs: { readonly [Name in PhaseName as `${Name}Ms`]?: number };
}

const MOMENTUM_FACTOR = 0.9;

/** Steps that are not timed: V8 optimizes the kernels, the system maps pages, u and v reach their usual size. */
const WARM_UP = { minIterations: 5, maxIterations: 1000, elements: 50_000_000 };

/** Places all arrays from an address on. */
function layOut({ elements, density }: Pick<CompressCase, 'elements' | 'density'>, start: Pointer) {
  const count = sentCount(elements, density);
  const places = new Places(start);
  const tensor = 4 * elements;
  return {
    gradient: places.next(tensor),
    momentum: places.next(tensor),
    residual: places.next(tensor),
    floorMomentum: places.next(tensor),
    floorResidual: places.next(tensor),
    indices: places.next(4 * count),
    values: places.next(4 * count),
    workspace: places.next(Math.max(GradientCodec.workspaceBytes, TensorCompressor.workspaceBytes(elements))),
    bytes: places.bytes,
  };
}

/** How much of a WebAssembly memory a case takes: about 20 bytes an element, and 8 for each element that is sent. */
export function memoryBytes(measured: Pick<CompressCase, 'elements' | 'density'>): number {
  return layOut(measured, 0).bytes;
}

/**
 * Times the compression of one tensor, in a block of the heap that is released afterwards.
 *
 * u and v start at zero and are kept through all steps, as in training. So the selection works on residuals that grew
 * over several steps and were cleared where they were sent. The number of steps matters little: at 2.56 M elements, the
 * ratios over 3000 steps were lower than those over 15 steps at three densities of the warm-up, and 2 % and 6 % higher
 * at two densities.
 *
 * Each step has a new gradient. Floor and step take turns, so that both meet the same load of the machine. The gradient
 * is written again before each of them, so that both find it in the same caches.
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
  return withBlock(
    heap,
    start => layOut(measured, start),
    at => {
      new Uint8Array(heap.memory.buffer, at.gradient, at.bytes).fill(0);
      return timeSteps(heap.memory, kernels, source, measured, at);
    },
  );
}

function timeSteps(
  memory: KernelMemory,
  kernels: MeasuredKernels,
  source: GradientSource,
  { elements, density, format, iterations, clipNorm }: CompressCase,
  at: ReturnType<typeof layOut>,
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

  return {
    ...timesBesideFloor(stepTimes, floorTimes),
    phaseMs: Object.fromEntries(phases.map(([name], i) => [`${name}Ms`, rounded(percentile(phaseTimes[i]!, 50), 6)])),
  };
}
