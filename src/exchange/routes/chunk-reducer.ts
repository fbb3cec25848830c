import { growMemory, sharedMemory } from '../../address-space';
import { blaming } from '../../collectives/blaming';
import type { Agreed, NonFinite } from '../../collectives/sparse-all-reduce';
import { GradientCodec } from '../../compression/gradient-codec';
import { entryBytes, type TensorTreatment } from '../../compression/tensor-treatment';
import type { CodedTensor } from '../../compression/gradient-streams';
import type { ValueFormat } from '../../compression/value-format';
import { type EntryList, HISTOGRAM_BYTES, PACK_TABLE_BYTES } from '../../kernels/kernels';
import { align, INFINITE_MAGNITUDE } from '../../kernels/pointer';
import { instantiateKernels } from '../../kernels/wasm-kernels';
import { protocolError } from '../../wire/frame';
import { decodeGradientPayload, encodeGradientPayload, encodeNonFinite } from '../../wire/gradient-payload';
import type { StepArena } from './route';

/** The most that a memory can have. */
const MOST_BYTES = 2 ** 32;
const PURPOSE = 'for the chunks of a reduce-scatter (a higher sparsity, or another route, takes less)';

/** Where things lie in the memory of a {@link ChunkReducer}, behind the workspace of the codec. */
const HISTOGRAM = align(GradientCodec.workspaceBytes);
const PACK_TABLE = HISTOGRAM + HISTOGRAM_BYTES;
const LISTS = PACK_TABLE + PACK_TABLE_BYTES;

/** The part of a tensor that is in a chunk. Of its entries at most `budget` are kept. */
export interface Piece {
  /** The number of its tensor in the arena. */
  readonly tensor: number;
  /** The element of the tensor that it begins with. */
  readonly start: number;
  readonly length: number;
  readonly budget: number;
}

/** The pieces of each chunk. All ranks cut alike. */
export function chunksOf(
  tensors: readonly Pick<TensorTreatment, 'elementCount' | 'count'>[],
  chunkCount: number,
): Piece[][] {
  const total = tensors.reduce((sum, { elementCount }) => sum + elementCount, 0);
  return Array.from({ length: chunkCount }, (_, chunk) => {
    const from = Math.floor((chunk * total) / chunkCount);
    const until = Math.floor(((chunk + 1) * total) / chunkCount);
    const pieces: Piece[] = [];
    let base = 0;
    for (const [tensor, { elementCount, count }] of tensors.entries()) {
      const start = Math.max(from - base, 0);
      const length = Math.min(until - base, elementCount) - start;
      const budget = Math.ceil((count * length) / elementCount);
      if (length > 0) pieces.push({ tensor, start, length, budget });
      base += elementCount;
    }
    return pieces;
  });
}

/** A chunk of the tensors of an arena. */
export interface Chunk {
  readonly arena: StepArena;
  readonly pieces: readonly Piece[];
  /** The number of all ranks, and of all tensors of the model. */
  readonly worldSize: number;
  readonly tensorCount: number;
}

/** The payload of a chunk that a neighbour sent. */
export interface ReceivedChunk {
  readonly from: number;
  readonly payload: Uint8Array;
}

/**
 * Adds, cuts and codes the chunks of a sparse reduce-scatter, in a memory of its own, which grows to the largest chunk.
 * It holds nothing between calls. For the codec each piece is a tensor.
 */
export class ChunkReducer {
  private readonly memory = sharedMemory(LISTS, MOST_BYTES, PURPOSE);
  private readonly kernels = instantiateKernels(this.memory);
  private readonly codec: GradientCodec;
  /** Where the next list begins. */
  private free = LISTS;

  constructor(format: ValueFormat) {
    this.codec = new GradientCodec(this.kernels, this.memory, format, 0);
  }

  /**
   * Adds this rank's entries of a chunk to what was received of it, and keeps the largest. What is not sent on, because
   * it is dropped or lost by rounding, goes to {@link StepArena.kept}.
   *
   * @param own What this rank tells the others.
   * @returns the payload of the sum; or, if something is not finite, one that tells this instead.
   * @throws GradringError `ERR_PROTOCOL`, naming the neighbour, for a payload that does not fit the chunk.
   */
  reduce(chunk: Chunk, received: readonly ReceivedChunk[], own: Agreed): Uint8Array {
    const { arena, pieces } = chunk;
    this.free = LISTS;
    const come = received.map(({ from, payload }) => blaming(from, () => this.listsIn(chunk, payload)));
    const { nonFinite, notices } = together([own, ...come]);
    if (nonFinite !== undefined) return encodeNonFinite(nonFinite.tensor, nonFinite.rank);
    const sums = pieces.map((piece, i) => {
      const [first = NOTHING, ...others] = come.map(({ lists }) => lists[i]!);
      const sum = this.sumOf(first, this.ownEntries(arena, piece), piece.start);
      return others.reduce((all, list) => this.sumOf(all, list), sum);
    });
    const overflow = sums.findIndex(({ values, count }) => !this.kernels.allFinite(values, count));
    if (overflow !== -1) return encodeNonFinite(arena.tensors[pieces[overflow]!.tensor]!.number);
    const sent = sums.map((sum, i) => ({ elementCount: pieces[i]!.length, ...this.largestOf(sum, pieces[i]!.budget) }));
    const streams = this.codec.encode(sent);
    const counts = sent.map(({ count }) => count);
    const payload = encodeGradientPayload({ format: this.codec.format, counts, streams, notices });
    const { free } = this;
    for (const [i, { tensor, start }] of pieces.entries()) {
      this.kernels.scale('float32', sent[i]!.values, -1, counts[i]!);
      const { indices, values } = this.viewsOf(this.sumOf(sums[i]!, sent[i]!));
      arena.kept.push({ tensor: arena.tensors[tensor]!, start, indices: indices.slice(), values: values.slice() });
      this.free = free;
    }
    return payload;
  }

  /** What is told with a payload. @throws GradringError `ERR_PROTOCOL` for one that does not fit the chunk. */
  toldIn(chunk: Chunk, payload: Uint8Array): Agreed {
    return this.read(chunk, payload);
  }

  /**
   * Writes the means in a decided chunk to the gradients, which are zero.
   *
   * @throws GradringError `ERR_PROTOCOL` for a payload that does not fit the chunk.
   */
  apply(chunk: Chunk, payload: Uint8Array): void {
    const { arena, pieces, worldSize } = chunk;
    const { coded, streams } = this.read(chunk, payload);
    this.codec.decode(streams, coded, ({ tensor: piece, count, first, indices, values }) => {
      this.kernels.scale('float32', values, 1 / worldSize, count);
      const { tensor, start, length } = pieces[piece]!;
      const at = arena.tensors[tensor]!.gradient + 4 * start;
      const gradient = new Float32Array(arena.memory.buffer, at, length);
      const means = new Float32Array(this.memory.buffer, values, count);
      if (indices === undefined) return gradient.set(means, first);
      const places = new Uint32Array(this.memory.buffer, indices, count);
      for (let i = 0; i < count; i++) gradient[places[i]!] = means[i]!;
    });
  }

  /** Reads a payload, but for its streams. These are empty if something is not finite. */
  private read({ pieces, worldSize, tensorCount }: Chunk, payload: Uint8Array) {
    const expected = pieces.map(({ length }) => ({ elementCount: length, count: undefined }));
    const read = decodeGradientPayload(payload, this.codec.format, expected, tensorCount);
    const codedWith = (counts: readonly number[]): CodedTensor[] =>
      pieces.map(({ length }, i) => ({ elementCount: length, count: counts[i]! }));
    if ('nonFiniteTensor' in read) {
      const { nonFiniteTensor: tensor, nonFiniteRank: rank } = read;
      if (rank !== undefined && rank >= worldSize) throw protocolError(`names rank ${rank} of ${worldSize}`);
      return { nonFinite: { rank, tensor }, notices: 0, coded: codedWith(pieces.map(() => 0)), streams: NO_STREAMS };
    }
    const { counts, notices, streams } = read;
    for (const [i, { budget }] of pieces.entries()) {
      if (counts[i]! > budget) throw protocolError(`holds ${counts[i]!} entries where at most ${budget} are kept`);
    }
    return { nonFinite: undefined, notices, coded: codedWith(counts), streams };
  }

  /** What is told with a payload, and its entries by piece. */
  private listsIn(chunk: Chunk, payload: Uint8Array) {
    const { coded, streams, ...told } = this.read(chunk, payload);
    const lists = coded.map(({ count }) => this.newList(count));
    this.codec.decode(streams, coded, ({ tensor, count, first, indices, values }) => {
      const into = lists[tensor]!;
      this.kernels.copy(values, into.values + 4 * first, count);
      if (indices !== undefined) return this.kernels.copy(indices, into.indices + 4 * first, count);
      const places = this.viewsOf(into).indices;
      for (let i = first; i < first + count; i++) places[i] = i;
    });
    return { ...told, lists };
  }

  /** What this rank has selected of a piece, at the indices of the tensor. */
  private ownEntries({ memory, tensors }: StepArena, { tensor, start, length }: Piece): EntryList {
    const { indices, values, count } = tensors[tensor]!;
    const selected = new Uint32Array(memory.buffer, indices, count);
    const [first, end] = [lowerBound(selected, start), lowerBound(selected, start + length)];
    const own = this.newList(end - first);
    const views = this.viewsOf(own);
    views.indices.set(selected.subarray(first, end));
    views.values.set(new Float32Array(memory.buffer, values + 4 * first, end - first));
    return own;
  }

  private sumOf(a: EntryList, b: EntryList, bStart = 0): EntryList {
    const into = this.newList(a.count + b.count);
    return { ...into, count: this.kernels.addEntries(a, b, bStart, into) };
  }

  /** Of a list the largest magnitudes, at most `budget`; of equal ones the first. */
  private largestOf(list: EntryList, budget: number) {
    const { kernels } = this;
    const { indices, values, count } = list;
    const into = this.newList(Math.min(count, budget));
    const isCut = count > budget;
    const threshold = isCut ? kernels.magnitudeOfRank(values, count, budget, 0, INFINITE_MAGNITUDE, HISTOGRAM) : 0;
    const ties = isCut ? budget - kernels.countAbove(values, count, threshold) : count;
    const taking = { threshold, ties, count: into.count, into, packTable: PACK_TABLE };
    return { ...into, largest: kernels.takeLargest(values, indices, count, taking).largest };
  }

  private newList(count: number): EntryList {
    const bytes = entryBytes(count);
    const indices = this.free;
    this.free += 2 * bytes;
    growMemory(this.memory, this.free, PURPOSE);
    return { indices, values: indices + bytes, count };
  }

  private viewsOf({ indices, values, count }: EntryList) {
    const { buffer } = this.memory;
    return { indices: new Uint32Array(buffer, indices, count), values: new Float32Array(buffer, values, count) };
  }
}

const NOTHING: EntryList = { indices: 0, values: 0, count: 0 };
const NO_STREAMS = { indices: new Uint8Array(0), values: new Uint8Array(0), sectionEnds: [] };

/**
 * What several tell. If something is not finite, it is what all ranks name: that of the lowest rank. A sum that has
 * overflowed is nobody's, and comes last.
 */
export function together(told: readonly Agreed[]): Agreed {
  const rankOf = ({ rank = Infinity }: NonFinite) => rank;
  const all = told.flatMap(({ nonFinite }) => nonFinite ?? []);
  if (all.length > 0) return { nonFinite: all.reduce((a, b) => (rankOf(b) < rankOf(a) ? b : a)), notices: 0 };
  return { notices: told.reduce((bits, { notices }) => bits | notices, 0) };
}

/** The first entry at an index from which all others are not below it. */
function lowerBound(indices: Uint32Array, index: number): number {
  let [low, high] = [0, indices.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (indices[middle]! < index) low = middle + 1;
    else high = middle;
  }
  return low;
}
