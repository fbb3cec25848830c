import { sumPayloads } from '../../src/collectives/sparse-all-reduce';
import { GradientCodec, GradientDecoder } from '../../src/compression/gradient-codec';
import { instantiateKernels } from '../../src/kernels/wasm-kernels';
import type { ReceivedPayload } from '../../src/wire/gradient-payload';
import { Pieces, randomNumbers, sharedMemory } from '../kernels/shared-memory';

const RANKS = 5;
/** More than one region, fewer elements than one, one that some ranks send whole, one that all do; and two sections. */
const ELEMENT_COUNTS = [300_000, 900, 50, 20, 800_000, 1_100_000];

const memory = sharedMemory(320);
const kernels = instantiateKernels(memory);
const pieces = new Pieces(memory);
const codec = new GradientCodec(kernels, memory, 'float32', pieces.bytes(GradientCodec.workspaceBytes));
const sums = ELEMENT_COUNTS.map(count => pieces.bytes(4 * count));
const tensors = ELEMENT_COUNTS.map((elementCount, t) => ({ elementCount, count: undefined, sum: sums[t]! }));
const scratch = pieces.bytes(2 * 4 * 300_000);

/** What a rank sends of each tensor, and the sums, in plain TypeScript, in the order of ranks. */
function payloads(countOf: (rank: number, tensor: number) => number) {
  const expected = ELEMENT_COUNTS.map(count => new Float32Array(count));
  const random = randomNumbers(1);
  const received = Array.from({ length: RANKS }, (_, rank): ReceivedPayload => {
    let at = scratch;
    const entries = ELEMENT_COUNTS.map((elementCount, t) => {
      const count = countOf(rank, t);
      const chosen = new Set<number>();
      while (chosen.size < count) chosen.add(Math.floor(random() * elementCount));
      const indices = Uint32Array.from(chosen).sort();
      const values = Float32Array.from(indices, () => (random() - 0.5) * 10 ** (6 * random()));
      indices.forEach((index, i) => (expected[t]![index]! += values[i]!));
      const placed = { elementCount, count, indices: at, values: at + 4 * count };
      new Uint32Array(memory.buffer, placed.indices, count).set(indices);
      new Float32Array(memory.buffer, placed.values, count).set(values);
      at += 8 * count;
      return placed;
    });
    const { indices, values, sectionEnds } = codec.encode(entries);
    const streams = { indices: indices.slice(), values: values.slice(), sectionEnds };
    return { counts: entries.map(({ count }) => count), streams, notices: 0 };
  });
  return { received, expected };
}

const COUNTS = [2000, 300, 50, 20, 400, 500];

describe.each([
  ['no room: one payload after the other', 0],
  ['room for the decoder of one more rank', GradientDecoder.workspaceBytes],
  ['room for two and a half', 2.5 * GradientDecoder.workspaceBytes],
  ['room for all', RANKS * GradientDecoder.workspaceBytes],
])('%s', (_, bytes) => {
  const room = { start: pieces.bytes(bytes), bytes };

  it.each([
    ['all ranks send some of each tensor', (_rank: number, t: number) => Math.min(COUNTS[t]!, ELEMENT_COUNTS[t]! - 1)],
    ['some send all of a tensor', (rank: number, t: number) => (t === 2 ? 10 + 10 * rank : COUNTS[t]!)],
    ['one sends far more than the others', (rank: number, t: number) => (t === 0 && rank === 2 ? 30_000 : 10)],
    ['some send nothing', (rank: number, t: number) => (rank % 2 === 0 ? 0 : Math.min(19, COUNTS[t]!))],
  ])('%s: the sums are those in the order of ranks, bit for bit', (_case, countOf) => {
    const { received, expected } = payloads(countOf);
    for (const [t, sum] of sums.entries()) new Float32Array(memory.buffer, sum, ELEMENT_COUNTS[t]).fill(NaN);
    sumPayloads({ kernels, codec, tensors, room }, received);
    for (const [t, sum] of sums.entries()) {
      const found = Buffer.from(new Uint8Array(memory.buffer, sum, 4 * ELEMENT_COUNTS[t]!));
      expect(found.equals(Buffer.from(expected[t]!.buffer))).toBe(true);
    }
    // Nothing is written behind the room.
    expect([...new Uint8Array(memory.buffer, room.start + bytes, 8)]).toEqual(new Array(8).fill(0xa5));
  });

  it.each([
    ['starts wrongly', (bytes: Uint8Array) => bytes.subarray(1)],
    ['ends early', (bytes: Uint8Array) => bytes.subarray(0, -4)],
    ['goes on', (bytes: Uint8Array) => Buffer.concat([bytes, Uint8Array.of(0)])],
    ['is empty', () => new Uint8Array(0)],
  ])('names the rank whose payload %s', (_case, change) => {
    const { received } = payloads((_rank, t) => COUNTS[t]!);
    const { streams } = received[3]!;
    received[3] = { ...received[3]!, streams: { ...streams, values: change(streams.values) } };
    expect(() => sumPayloads({ kernels, codec, tensors, room }, received)).toThrow(
      expect.objectContaining({ code: 'ERR_PROTOCOL', details: { rank: 3 } }),
    );
  });
});
