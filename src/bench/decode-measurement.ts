import { sumPayloads } from '../collectives/sparse-all-reduce';
import type { SharedHeap } from '../memory/shared-heap';
import { GradientCodec } from '../compression/gradient-codec';
import { sentCount } from '../compression/sparsity-schedule';
import type { ValueFormat } from '../compression/value-format';
import type { KernelMemory } from '../kernel-memory';
import type { Pointer } from '../kernels/pointer';
import { decodeGradientPayload, encodeGradientPayload, type ReceivedPayload } from '../wire/gradient-payload';
import { Places, withBlock } from './heap-block';
import { uniformNumbers } from './random';
import { rounded } from './statistics';
import { type MeasuredKernels, type TimesBesideFloor, timesBesideFloor } from './stream-floor';
import { tailEntries } from './tail-entries';

/** What is measured: the sum of all ranks' payloads of one tensor. */
export interface DecodeCase {
  readonly elements: number;
  /** The fraction of the elements that each rank sends, less than 1. */
  readonly density: number;
  readonly ranks: number;
  /** How the values are encoded. */
  readonly format: ValueFormat;
  /** How many times the sum is timed. */
  readonly iterations: number;
  readonly seed: number;
}

/** The times from the payloads' bytes to the sums: clearing the sums, decoding and adding. */
export interface DecodeTimes extends TimesBesideFloor {
  /** Mean over the ranks. */
  readonly payloadBytes: number;
}

/** As in the arena of a model of 25 million parameters. */
const ROOM_BYTES = 12.8e6;

/** Sums that are not timed: V8 optimizes the kernels, the system maps pages. */
const WARM_UP = 2;

/** Places all arrays from an address on. */
function layOut({ elements, density }: Pick<DecodeCase, 'elements' | 'density'>, start: Pointer) {
  const places = new Places(start);
  const entries = 4 * sentCount(elements, density);
  return {
    sum: places.next(4 * elements),
    floorGradient: places.next(4 * elements),
    floorMomentum: places.next(4 * elements),
    floorResidual: places.next(4 * elements),
    indices: places.next(entries),
    values: places.next(entries),
    workspace: places.next(GradientCodec.workspaceBytes),
    room: places.next(ROOM_BYTES),
    bytes: places.bytes,
  };
}

/** How much of a WebAssembly memory a case takes: about 16 bytes an element, 8 an entry of a rank, and 13 MB. */
export function memoryBytes(measured: Pick<DecodeCase, 'elements' | 'density'>): number {
  return layOut(measured, 0).bytes;
}

/**
 * Times what a rank does in a step when it has received all payloads, in a block of the heap that is released
 * afterwards. The payloads lie outside of the block, as received ones do. Checksums are left out: a rank computes them
 * as payloads arrive.
 *
 * Floor and sum take turns, so that both meet the same load of the machine, and neither finds its tensors in the cache.
 *
 * @throws ERR_OUT_OF_MEMORY
 */
export function measureDecoding(heap: SharedHeap, kernels: MeasuredKernels, measured: DecodeCase): DecodeTimes {
  return withBlock(
    heap,
    start => layOut(measured, start),
    at => timeSums(heap.memory, kernels, measured, at),
  );
}

function timeSums(
  memory: KernelMemory,
  kernels: MeasuredKernels,
  measured: DecodeCase,
  at: ReturnType<typeof layOut>,
): DecodeTimes {
  const { elements, density, format, iterations } = measured;
  const codec = new GradientCodec(kernels, memory, format, at.workspace);
  const payloads = payloadsOf(memory, codec, measured, at);
  const tensors = [{ elementCount: elements, count: sentCount(elements, density), sum: at.sum }];
  const part = { kernels, codec, tensors, room: { start: at.room, bytes: ROOM_BYTES } };
  const view = (pointer: Pointer): Float32Array => new Float32Array(memory.buffer, pointer, elements);
  // Memory that was never written to is one page of zeros, which stays in the cache.
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
  return {
    ...timesBesideFloor(sumTimes, floorTimes),
    payloadBytes: rounded(payloads.reduce((sum, { length }) => sum + length, 0) / payloads.length, 1),
  };
}

/** One payload for each rank, each with entries of its own. */
function payloadsOf(
  { buffer }: KernelMemory,
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
