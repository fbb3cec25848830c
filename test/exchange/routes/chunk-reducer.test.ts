import { type ValueFormat, VALUE_FORMATS } from '../../../src/compression/value-format';
import { type Chunk, ChunkReducer, chunksOf, type Piece, together } from '../../../src/exchange/routes/chunk-reducer';
import { encodeGradientPayload, encodeNonFinite } from '../../../src/wire/gradient-payload';
import { arenaOf, gradientsOf, type SelectedTensor, takenBack } from '../../fuzz/chunk-arena';
import { random } from '../../support/random';

const LENGTHS = [60, 1, 45];
const NOBODY = { notices: 0 };

test.each([1, 2, 3, 7, 64])('%i chunks have every element once, and their share of the entries', count => {
  const tensors = [1000, 1, 17, 4096].map(elementCount => ({ elementCount, count: Math.ceil(elementCount / 10) }));
  const chunks = chunksOf(tensors, count);
  expect(chunks).toHaveLength(count);
  const elements = chunks
    .flat()
    .flatMap(({ tensor, start, length }) => Array.from({ length }, (_, i) => `${tensor}: ${start + i}`));
  expect(elements).toEqual(tensors.flatMap(({ elementCount }, t) => Array.from({ length: elementCount }, (_, i) => `${t}: ${i}`))); // prettier-ignore
  for (const { length, budget, tensor } of chunks.flat()) {
    const { count: selected, elementCount } = tensors[tensor]!;
    expect(budget).toBe(Math.ceil((selected * length) / elementCount));
  }
});

/** Entries of random tensors, with values of which many are alike. */
function selectedBy(next: () => number): SelectedTensor[] {
  return LENGTHS.map(elementCount => {
    const at = [...Array(elementCount).keys()].filter(() => next() < 0.4);
    return { elementCount, entries: new Map(at.map(index => [index, 1 + Math.floor(8 * (next() - 0.5))])) };
  });
}

/** A chunk of arrays of these lengths that leaves out their first and last elements. */
function chunkOf(selected: readonly SelectedTensor[], budgets: readonly number[]): Chunk {
  const pieces = LENGTHS.map((length, tensor): Piece => {
    const edge = length > 1 ? 5 : 0;
    return { tensor, start: edge, length: length - 2 * edge, budget: budgets[tensor]! };
  });
  return { arena: arenaOf(selected), pieces, worldSize: 4, tensorCount: LENGTHS.length };
}

/** By tensor: values by index, of what is in the pieces. */
type Entries = ReadonlyMap<number, number>[];

function entriesIn({ pieces }: Chunk, selected: readonly SelectedTensor[]): Entries {
  return pieces.map(({ tensor, start, length }) => {
    return new Map([...selected[tensor]!.entries].filter(([at]) => at >= start && at < start + length));
  });
}

function added(lists: readonly Entries[]): Entries {
  return LENGTHS.map((_, tensor) => {
    const sums = new Map<number, number>();
    for (const list of lists) for (const [at, value] of list[tensor]!) sums.set(at, (sums.get(at) ?? 0) + value);
    return sums;
  });
}

/** The largest of each piece; of equal ones the first. */
function largestOf({ pieces }: Chunk, entries: Entries): Entries {
  return entries.map((all, i) => {
    const inOrder = [...all].sort(([x, a], [y, b]) => Math.abs(b) - Math.abs(a) || x - y);
    return new Map(inOrder.slice(0, pieces[i]!.budget));
  });
}

const dense = (entries: Entries) =>
  LENGTHS.map((length, tensor) => Array.from({ length }, (_, at) => entries[tensor]!.get(at) ?? 0));
const difference = (a: readonly number[][], b: readonly number[][]) =>
  a.map((array, i) => array.map((value, at) => value - b[i]![at]!));

test('a rank adds its entries to what comes, sends the largest of each piece on, and takes the rest back', () => {
  const reducer = new ChunkReducer('float32');
  const next = random(2);
  for (let round = 0; round < 200; round++) {
    const ranks = [0, 1, 2].map(() => selectedBy(next));
    const budgets = LENGTHS.map(length => Math.min(length, Math.floor(12 * next())));
    const [left, middle, right] = ranks.map(selected => chunkOf(selected, budgets)) as [Chunk, Chunk, Chunk];
    const own = [left, middle, right].map((chunk, i) => entriesIn(chunk, ranks[i]!));
    const fromSides = [left, right].map((chunk, i) => ({ from: 2 * i, payload: reducer.reduce(chunk, [], NOBODY) }));
    const [sentByLeft, sentByRight] = [own[0]!, own[2]!].map(entries => largestOf(left, entries)) as [Entries, Entries];
    expect(takenBack(left.arena)).toEqual(difference(dense(own[0]!), dense(sentByLeft)));
    expect(takenBack(right.arena)).toEqual(difference(dense(own[2]!), dense(sentByRight)));

    const decided = reducer.reduce(middle, fromSides, NOBODY);
    const sum = added([sentByLeft, own[1]!, sentByRight]);
    const kept = largestOf(middle, sum);
    expect(takenBack(middle.arena)).toEqual(difference(dense(sum), dense(kept)));
    expect(middle.arena.tensors.map(({ gradient }) => gradient)).toHaveLength(LENGTHS.length);
    reducer.apply(middle, decided);
    expect(gradientsOf(middle.arena).map(array => array.map(mean => 4 * mean))).toEqual(dense(kept));
  }
});

test.each(VALUE_FORMATS)('in %s what rounding loses is taken back, too', format => {
  const reducer = new ChunkReducer(format);
  const next = random(3);
  const selected = selectedBy(next).map(({ elementCount, entries }) => {
    return { elementCount, entries: new Map([...entries.keys()].map(at => [at, Math.fround(next() - 0.5)])) };
  });
  const chunk = chunkOf(selected, LENGTHS);
  reducer.apply(chunk, reducer.reduce(chunk, [], NOBODY));
  const [sent, back] = [gradientsOf(chunk.arena), takenBack(chunk.arena)];
  const due = dense(entriesIn(chunk, selected));
  let rounded = 0;
  for (const [tensor, array] of due.entries()) {
    for (const [at, value] of array.entries()) {
      expect(Math.fround(4 * sent[tensor]![at]! + back[tensor]![at]!)).toBe(value);
      if (back[tensor]![at] !== 0) rounded++;
    }
  }
  expect(rounded > 0).toBe(format !== 'float32');
});

test('a chunk tells what is not finite, and the notices of all ranks where it has been', () => {
  const reducer = new ChunkReducer('float16');
  const chunk = chunkOf(selectedBy(random(4)), LENGTHS);
  const [first, second] = [{ rank: 1, tensor: 2 }, { rank: 2, tensor: 0 }]; // prettier-ignore
  const told = (received: readonly Uint8Array[], own: Parameters<ChunkReducer['reduce']>[2]) => {
    const payload = reducer.reduce(chunk, received.map(each => ({ from: 3, payload: each })), own); // prettier-ignore
    return reducer.toldIn(chunk, payload);
  };
  const plain = (notices: number) => reducer.reduce(chunk, [], { notices });
  expect(told([plain(1), plain(4)], { notices: 8 })).toMatchObject({ nonFinite: undefined, notices: 13 });
  expect(told([plain(1)], { nonFinite: second, notices: 8 })).toMatchObject({ nonFinite: second, notices: 0 });
  expect(told([encodeNonFinite(2, 1)], { nonFinite: second, notices: 0 })).toMatchObject({ nonFinite: first });
  expect(told([encodeNonFinite(1)], { nonFinite: second, notices: 0 })).toMatchObject({ nonFinite: second });
  expect(told([encodeNonFinite(1)], NOBODY)).toMatchObject({ nonFinite: { rank: undefined, tensor: 1 } });
  expect(together([{ nonFinite: second, notices: 1 }, { notices: 2 }, { nonFinite: first, notices: 0 }])).toEqual({
    nonFinite: first,
    notices: 0,
  });
});

test('a sum that overflows is told instead', () => {
  const reducer = new ChunkReducer('float32');
  const selected = LENGTHS.map((elementCount, tensor) => {
    return { elementCount, entries: new Map(tensor === 2 ? [[7, 3e38]] : []) };
  });
  const chunk = chunkOf(selected, LENGTHS);
  const received = { from: 1, payload: reducer.reduce(chunk, [], NOBODY) };
  expect(reducer.toldIn(chunk, received.payload).nonFinite).toBeUndefined();
  const payload = reducer.reduce(chunk, [received], NOBODY);
  expect(reducer.toldIn(chunk, payload).nonFinite).toEqual({ rank: undefined, tensor: 2 });
});

describe('a payload that does not fit the chunk is refused, with the rank that sent it:', () => {
  const reducer = new ChunkReducer('float32');
  const selected = selectedBy(random(5));
  const whole = chunkOf(selected, LENGTHS);
  const refusal = (payload: Uint8Array, chunk = whole) => {
    try {
      reducer.reduce(chunk, [{ from: 3, payload }], NOBODY);
    } catch (error) {
      return error;
    }
    throw new Error('It was not refused.');
  };

  test('more entries than are kept', () => {
    const payload = reducer.reduce(whole, [], NOBODY);
    expect(() => reducer.reduce(whole, [{ from: 3, payload }], NOBODY)).not.toThrow();
    expect(refusal(payload, chunkOf(selected, [2, 1, 2]))).toMatchObject({ code: 'ERR_PROTOCOL', rank: 3 });
  });

  test.each([
    ['another format', 'float16', [0, 0, 0]],
    ['counts of fewer pieces', 'float32', [0, 0]],
    ['streams that end early', 'float32', [1, 0, 0]],
  ] as const)('%s', (_, format: ValueFormat, counts) => {
    const streams = { indices: new Uint8Array(0), values: new Uint8Array(0), sectionEnds: [] };
    const payload = encodeGradientPayload({ format, counts, streams });
    expect(refusal(payload)).toMatchObject({ code: 'ERR_PROTOCOL', rank: 3 });
  });

  test.each([
    ['a tensor that does not exist', encodeNonFinite(LENGTHS.length, 0)],
    ['a rank that does not exist', encodeNonFinite(0, 4)],
    ['a negative rank', encodeNonFinite(0, -2)],
  ])('%s', (_, payload) => {
    expect(refusal(payload)).toMatchObject({ code: 'ERR_PROTOCOL', rank: 3 });
  });
});
