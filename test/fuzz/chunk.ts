import { VALUE_FORMATS } from '../../src/compression/value-format';
import { type Chunk, ChunkReducer, type Piece } from '../../src/exchange/routes/chunk-reducer';
import { encodeNonFinite } from '../../src/wire/gradient-payload';
import { arenaOf, gradientsOf, takenBack } from './chunk-arena';
import type { Target } from './fuzz';
import { joined } from './mutate-bytes';
import { demand, refusalOf } from './refusal';

const [WORLD_SIZE, SENDER] = [8, 5];

/** With a whole piece, one of a single element, and many entries; there are elements before and behind each. */
const PIECES: readonly Piece[] = [
  { tensor: 0, start: 50, length: 300, budget: 40 },
  { tensor: 1, start: 3, length: 1, budget: 1 },
  { tensor: 2, start: 7, length: 20, budget: 20 },
  { tensor: 3, start: 100, length: 5000, budget: 1100 },
];

/** A chunk of a rank that has selected these values, at every other element of the tensors. */
function chunkOf(valueAt: (index: number) => number): Chunk {
  const selected = PIECES.map(({ start, length }) => {
    const elementCount = start + length + 9;
    const at = Array.from({ length: elementCount >> 1 }, (_, i) => 2 * i);
    return { elementCount, entries: new Map(at.map(index => [index, Math.fround(valueAt(index))])) };
  });
  return { arena: arenaOf(selected), pieces: PIECES, worldSize: WORLD_SIZE, tensorCount: PIECES.length };
}

const own = (index: number) => Math.sin(1 + index);

/** The sum of all elements of all tensors. */
const total = (arrays: readonly (readonly number[])[]) => arrays.flat().reduce((sum, value) => sum + value, 0);

/**
 * Payloads of chunks in a sparse reduce-scatter. An input is a byte for the format that is expected, and a payload that
 * a neighbour sends on. It is refused, or what this rank sends and takes back adds up to its own entries and those of
 * the payload, within the pieces.
 */
export function chunkTarget(): Target {
  const reducers = VALUE_FORMATS.map(format => new ChunkReducer(format));
  const [came, sums] = [chunkOf(() => 0), chunkOf(own)];
  const ownTotal = total(
    PIECES.map(({ start, length }) =>
      Array.from({ length }, (_, i) => ((start + i) % 2 === 0 ? Math.fround(own(start + i)) : 0)),
    ),
  );
  const check = (reducer: ChunkReducer, payload: Uint8Array): string => {
    for (const { arena } of [came, sums]) {
      arena.kept.length = 0;
      for (const { gradient, elementCount } of arena.tensors) {
        new Float32Array(arena.memory.buffer, gradient, elementCount).fill(0);
      }
    }
    const sent = reducer.reduce(sums, [{ from: SENDER, payload }], { notices: 0 });
    const { nonFinite } = reducer.toldIn(sums, sent);
    if (nonFinite !== undefined) {
      const { rank = 0, tensor } = nonFinite;
      demand(rank >= 0 && rank < WORLD_SIZE && tensor >= 0 && tensor < PIECES.length, 'Nobody has what is not finite.');
      demand(sums.arena.kept.length === 0, 'Something was taken back of what is not sent.');
      return 'not finite at the origin';
    }
    reducer.apply(came, payload);
    reducer.apply(sums, sent);
    const [arrived, left, back] = [gradientsOf(came.arena), gradientsOf(sums.arena), takenBack(sums.arena)];
    for (const arrays of [arrived, left, back]) {
      for (const [i, { start, length }] of PIECES.entries()) {
        const around = arrays[i]!.toSpliced(start, length);
        demand(
          around.every(value => value === 0),
          'Something was written beside the piece.',
        );
      }
    }
    const due = ownTotal + WORLD_SIZE * total(arrived);
    const found = WORLD_SIZE * total(left) + total(back);
    const largest = arrived.flat().reduce((most, value) => Math.max(most, Math.abs(value)), 1);
    demand(Math.abs(due - found) <= 1e-3 * WORLD_SIZE * largest, `${due} came, ${found} was sent and taken back.`);
    return 'accepted';
  };
  return {
    name: 'chunk',
    seeds: () => [
      ...reducers.flatMap((reducer, format) =>
        [0, 1, 1e-30].map(scale => ({
          bytes: joined(
            Uint8Array.of(format),
            reducer.reduce(
              chunkOf(index => scale * own(index)),
              [],
              { notices: 1 },
            ),
          ),
        })),
      ),
      ...[encodeNonFinite(3, 7), encodeNonFinite(0)].map(payload => ({ bytes: joined(Uint8Array.of(0), payload) })),
    ],
    run: bytes => {
      try {
        return { outcome: check(reducers[(bytes[0] ?? 0) % reducers.length]!, bytes.subarray(1)) };
      } catch (error) {
        return { outcome: refusalOf(error) };
      }
    },
  };
}
