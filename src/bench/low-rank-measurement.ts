import { lowRankCodes } from '../compression/compressors/low-rank';
import type { ValueFormat } from '../compression/value-format';
import type { SharedHeap } from '../memory/shared-heap';
import type { Pointer } from '../kernels/pointer';
import { measureCompression } from './compress-measurement';
import { measureDecoding } from './decode-measurement';
import { GradientSource } from './gradient-source';
import { Places } from './heap-block';
import { uniformNumbers } from './random';
import { rounded } from './statistics';
import { type MeasuredKernels, type TimesBesideFloor, timesBesideFloor } from './stream-floor';

/** What is measured: the time that a rank computes in a step, for one matrix. */
export interface LowRankCase {
  readonly rows: number;
  readonly columns: number;
  readonly rank: number;
  /** How many ranks send a message. */
  readonly ranks: number;
  /** What DGC sends, to compare with. */
  readonly density: number;
  readonly iterations: number;
  readonly seed: number;
}

/** How long a rank takes to encode its own gradient, and to decode those of all; and the same of DGC. */
export interface LowRankTimes extends TimesBesideFloor {
  readonly messageBytes: number;
  /** The median for each element, in nanoseconds. */
  readonly nsPerElement: number;
  readonly dgcMs: number;
  /** How many times DGC it takes, each in units of the floor that was run beside it. */
  readonly timesDgc: number;
}

const STEP = 0.7;
const FORMAT: ValueFormat = 'float16';
/** Steps that are not timed: V8 optimizes the kernels, the system maps pages. */
const WARM_UP = 5;

/** Places the arrays of the floor. */
function layOut(elements: number, start: Pointer) {
  const places = new Places(start);
  const next = () => places.next(4 * elements);
  return { gradient: next(), momentum: next(), residual: next(), bytes: places.bytes };
}

/**
 * Times low rank beside DGC. Floor and step take turns, so that both meet the same load of the machine.
 *
 * @throws ERR_OUT_OF_MEMORY
 */
export async function measureLowRank(
  heap: SharedHeap,
  kernels: MeasuredKernels,
  measured: LowRankCase,
): Promise<LowRankTimes> {
  const { rows, columns, ranks, density, iterations, seed } = measured;
  const elements = rows * columns;
  const source = new GradientSource('normal', elements, seed);
  const { messageBytes, stepTimes, floorTimes } = timeSteps(heap, kernels, source, measured);
  const own = timesBesideFloor(stepTimes, floorTimes);
  const common = { elements, density, format: FORMAT, iterations };
  const compression = measureCompression(heap, kernels, source, { ...common, clipNorm: undefined });
  const decoding = measureDecoding(heap, kernels, { ...common, ranks, seed });
  return {
    ...own,
    messageBytes,
    nsPerElement: rounded((own.timeMs.p50 * 1e6) / elements, 3),
    dgcMs: rounded(compression.timeMs.p50 + decoding.timeMs.p50, 6),
    timesDgc: rounded(own.timesFloor / (compression.timesFloor + decoding.timesFloor), 3),
  };
}

function timeSteps(heap: SharedHeap, kernels: MeasuredKernels, source: GradientSource, measured: LowRankCase) {
  const { rows, columns, rank, ranks, iterations, seed } = measured;
  const elements = rows * columns;
  const codes = lowRankCodes({ rank, step: STEP });
  const [values, mean, sent] = [0, 1, 2].map(() => new Float32Array(elements)) as [Float32Array, Float32Array, Float32Array]; // prettier-ignore
  const random = uniformNumbers(seed);
  let messageBytes = 0;
  const runStep = (): void => {
    const code = codes.code([rows, columns], false);
    const message = code.encode(values, random);
    messageBytes = message.length;
    code.clear();
    code.add(message);
    code.take(sent, 1);
    code.clear();
    // All ranks have the same message: how long it takes to add it does not depend on its numbers.
    for (let from = 0; from < ranks; from++) code.add(message);
    code.take(mean, 1 / ranks);
  };
  const floorTimes: number[] = [];
  const stepTimes: number[] = [];
  const places = heap.allocate(layOut(elements, 0).bytes);
  try {
    const floor = layOut(elements, places);
    new Uint8Array(heap.memory.buffer, floor.gradient, floor.bytes).fill(0);
    for (let iteration = -WARM_UP; iteration < iterations; iteration++) {
      source.write(values, source.next());
      const floorStarted = performance.now();
      kernels.streamFloor(floor.gradient, floor.momentum, floor.residual, elements);
      const started = performance.now();
      runStep();
      const ended = performance.now();
      if (iteration < 0) continue;
      floorTimes.push(started - floorStarted);
      stepTimes.push(ended - started);
    }
  } finally {
    heap.release(places, layOut(elements, 0).bytes);
  }
  return { messageBytes, stepTimes, floorTimes };
}
