import { sumPayloads } from '../collectives/sum-payloads';
import type { SharedHeap } from '../memory/shared-heap';
import { GradientCodec } from '../compression/gradient-codec';
import { sentCount } from '../compression/sparsity-schedule';
import type { ValueFormat } from '../compression/value-format';
import type { Pointer } from '../kernels/pointer';
import { decodeGradientPayload, encodeGradientPayload, type ReceivedPayload } from '../wire/gradient-payload';
import { uniformNumbers } from './random';
import { percentile, rounded, type Timings, timingsOf } from './statistics';
import type { MeasuredKernels } from './stream-floor';
import { tailEntries } from './tail-entries';

/** What is measured: the sum of all ranks' payloads of one tensor. */
export interface DecodeCase {
  readonly elements: number;
  /** The fraction of the elements that each rank sends, less than 1. */
  readonly density: number;
  readonly ranks: number;
  /** How the values are encoded. */
  readonly format: ValueFormat;
  /** How many times it is timed. */
  readonly iterations: number;
  readonly seed: number;
}

/** The result of one {@link DecodeCase}. */
export interface DecodeTimes {
  /** From the payloads' bytes to the sums: zeroing them, decoding and adding. */
  readonly timeMs: Timings;
  /** The median of {@link MeasuredKernels.streamFloor} over tensors as large, run before each sum. */
  readonly floorMs: number;
  /** The median of the sum in units of the floor's. */
  readonly timesFloor: number;
  /** Mean over the ranks. */
  readonly payloadBytes: number;
}

const ALIGNMENT = 64;

/** As in the arena of a model of 25 million parameters. */
const ROOM_BYTES = 12.8e6;

/** Sums that are not timed: the kernels are compiled in earnest, pages are mapped. */
const WARM_UP = 2;

/** Where everything lies, from the start of one block. */
function layOut({ elements, density }: Pick<DecodeCase, 'elements' | 'density'>) {
  let bytes = 0;
  const place = (size: number): Pointer => {
    const at = bytes;
    bytes += ALIGNMENT * Math.ceil(size / ALIGNMENT);
    return at;
  };
  const entries = 4 * sentCount(elements, density);
  return {
    sum: place(4 * elements),
    floorGradient: place(4 * elements),
    floorMomentum: place(4 * elements),
    floorResidual: place(4 * elements),
    indices: place(entries),
    values: place(entries),
    workspace: place(GradientCodec.workspaceBytes),
    room: place(ROOM_BYTES),
    bytes,
  };
}

/**
 * How much of a WebAssembly memory a case takes: about 16 bytes an element, 8 for each that a rank sends, and 13 MB.
 */
export function memoryBytes(measured: Pick<DecodeCase, 'elements' | 'density'>): number {
  return layOut(measured).bytes;
}

/**
 * Times what a rank does in a step when the payloads of all have come, in a block of the heap that it gives back. The
 * payloads lie outside of it, as received ones do. Their checksums are not computed: a rank does so as each comes.
 *
 * Floor and sum take turns, so that both meet the same load of the machine, and neither finds its tensors in the cache.
 *
 * @throws ERR_OUT_OF_MEMORY
 */
export function measureDecoding(heap: SharedHeap, kernels: MeasuredKernels, measured: DecodeCase): DecodeTimes {
  const { bytes, ...offsets } = layOut(measured);
  const block = heap.allocate(bytes);
  try {
    const at = Object.fromEntries(Object.entries(offsets).map(([name, offset]) => [name, block + offset]));
    return timeSums(heap.memory, kernels, measured, at as typeof offsets);
  } finally {
    heap.release(block, bytes);
  }
}

function timeSums(
  memory: WebAssembly.Memory,
  kernels: MeasuredKernels,
  measured: DecodeCase,
  at: Omit<ReturnType<typeof layOut>, 'bytes'>,
): DecodeTimes {
  const { elements, density, format, iterations } = measured;
  const codec = new GradientCodec(kernels, memory, format, at.workspace);
  const payloads = payloadsOf(memory, codec, measured, at);
  const tensors = [{ elementCount: elements, count: sentCount(elements, density), sum: at.sum }];
  const part = { kernels, codec, tensors, room: { start: at.room, bytes: ROOM_BYTES } };
  const view = (pointer: Pointer): Float32Array => new Float32Array(memory.buffer, pointer, elements);
  // Untouched memory would be one page of zeros, which the cache holds.
  view(at.floorGradient).fill(1e-3);
  for (const pointer of [at.sum, at.floorMomentum, at.floorResidual]) view(pointer).fill(0);

  const floorTimes: number[] = [];
  const sumTimes: number[] = [];
  for (let iteration = -WARM_UP; iteration < iterations; iteration++) {
    const floorStarted = performance.now();
    kernels.streamFloor(at.floorGradient, at.floorMomentum, at.floorResidual, elements);
    const floorEnded = performance.now();

    const sumStarted = performance.now();
    sumPayloads(
      part,
      payloads.map(bytes => decodeGradientPayload(bytes, format, tensors) as ReceivedPayload),
    );
    const sumEnded = performance.now();
    if (iteration < 0) continue;
    floorTimes.push(floorEnded - floorStarted);
    sumTimes.push(sumEnded - sumStarted);
  }

  const { min, p50, p99 } = timingsOf(sumTimes);
  const floorP50 = percentile(floorTimes, 50);
  return {
    timeMs: { min: rounded(min, 6), p50: rounded(p50, 6), p99: rounded(p99, 6) },
    floorMs: rounded(floorP50, 6),
    timesFloor: rounded(p50 / floorP50, 3),
    payloadBytes: rounded(payloads.reduce((sum, { length }) => sum + length, 0) / payloads.length, 1),
  };
}

/** One payload a rank, each with entries of its own. */
function payloadsOf(
  { buffer }: WebAssembly.Memory,
  codec: GradientCodec,
  { elements, density, ranks, seed }: DecodeCase,
  { indices, values }: { readonly indices: Pointer; readonly values: Pointer },
): Uint8Array[] {
  const count = sentCount(elements, density);
  const random = uniformNumbers(seed);
  return Array.from({ length: ranks }, () => {
    const entries = tailEntries(elements, count, random);
    new Uint32Array(buffer, indices, count).set(entries.indices);
    new Float32Array(buffer, values, count).set(entries.values);
    const streams = codec.encode([{ elementCount: elements, count, indices, values }]);
    return encodeGradientPayload({ format: codec.format, counts: undefined, streams });
  });
}
