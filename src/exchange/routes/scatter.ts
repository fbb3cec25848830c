import { sharedMemory } from '../../address-space';
import { allGatherBodies } from '../../collectives/all-gather';
import type { CollectiveCall } from '../../collectives/collective-call';
import { blaming } from '../../collectives/sum-payloads';
import type { Agreed } from '../../collectives/sparse-all-reduce';
import { GradientCodec } from '../../compression/gradient-codec';
import { entryBytes, type TensorTreatment } from '../../compression/tensor-treatment';
import type { ValueFormat } from '../../compression/value-format';
import { instantiateKernels } from '../../kernels/wasm-kernels';
import { protocolError } from '../../wire/frame';
import { decodeGradientPayload, encodeGradientPayload, encodeNonFinite } from '../../wire/gradient-payload';
import { partOf } from './mixed';
import { agree, sumByRing } from './ring';
import type { Means, Route, RouteCost, RoutedStep, StepArena, UnsentEntries } from './route';
import { between, emptyList, keepLargest, type Piece, type SparseList, sumOfLists } from './sparse-list';

const PAGE_BYTES = 64 * 1024;

/** The most that a memory can have. */
const MOST_BYTES = 2 ** 32;

/**
 * Sparse reduce-scatter: what a rank sends does not grow with the ranks. The index space of the tensors is cut into N
 * chunks. Each chunk goes once round the ring: a rank adds its own entries to the sum that comes, keeps the largest
 * entries of each tensor, an N-th of what one rank has selected, and takes what it drops back into its own residual.
 * The rank where a chunk ends has decided it, so all ranks get the same bits when the chunks are gathered. What
 * rounding loses on the way is taken back, too. So over all ranks no part of a gradient is lost: it is applied, or held
 * back.
 *
 * Tensors that are sent whole travel by the dense ring beside it. Kin: SparDL (arXiv 2304.00737), gTop-k (arXiv
 * 1901.04359).
 */
export class ScatterRoute implements Route {
  private coder: ChunkCoder | undefined;

  constructor(private readonly format: ValueFormat) {}

  /** It is taken only if it is asked for: it does not apply the same updates as the other routes. */
  cost(): RouteCost | undefined {
    return undefined;
  }

  async carry(step: RoutedStep): Promise<Agreed> {
    const { call, arenas, means, clock } = step;
    const others = partOf(arenas, 'others').filter(({ tensors }) => tensors.length > 0);
    const parts = others.map(arena => ({ arena, chunks: chunksOf(arena.tensors, call.worldSize) }));
    const decided: Uint8Array[][] = [];
    const agreed = await clock.travel(async () => {
      const found = await agree(call, step);
      if (found.nonFinite !== undefined) return found;
      for (const [i, part] of parts.entries()) {
        decided.push(await allGatherBodies(call, await this.reduce(call, part, i * call.worldSize)));
      }
      await sumByRing(call, partOf(arenas, 'whole'));
      return found;
    });
    if (agreed.nonFinite !== undefined) return agreed;
    await clock.stage('decode', 'sum', () => {
      for (const [i, part] of parts.entries()) this.apply(part, decided[i]!, means);
    });
    await clock.stage('decode', 'means', () => means.takeAll(arenas));
    return agreed;
  }

  /**
   * Takes this rank's part in the passes of all chunks.
   *
   * @param firstPart The number of the first frame.
   * @returns the payload of the chunk that ends here.
   */
  private async reduce(call: CollectiveCall, { arena, chunks }: CutArena, firstPart: number): Promise<Uint8Array> {
    const { rank, worldSize } = call;
    const own = ownEntries(arena);
    const ownIn = (pieces: readonly Piece[]) => between(own, ...rangeOf(pieces));
    const coder = (this.coder ??= new ChunkCoder(this.format));
    const encode = (list: SparseList, pieces: readonly Piece[]): Uint8Array => {
      const { kept, dropped } = keepLargest(list, pieces);
      keep(arena, pieces, dropped);
      const { payload, lost } = coder.encode(kept, pieces);
      keep(arena, pieces, lost);
      return payload;
    };
    let overflowed: number | undefined;
    let list = ownIn(chunks[rank]!);
    for (let round = 0; round < worldSize - 1; round++) {
      const sent = encode(list, chunks[call.leftBy(round)]!);
      const pieces = chunks[call.leftBy(round + 1)]!;
      const [left, part] = [call.leftBy(1), firstPart + round];
      const [{ body }] = await Promise.all([call.receive(left, part), call.send(part, sent, { checksum: true })]);
      const sum = blaming(left, () => coder.decode(body, pieces));
      list = sumOfLists(sum, ownIn(pieces), position => {
        overflowed ??= pieces.find(piece => position < piece.position + piece.length)!.tensor;
      });
    }
    const payload = encode(list, chunks[call.leftBy(worldSize - 1)]!);
    return overflowed === undefined ? payload : encodeNonFinite(overflowed);
  }

  /**
   * Replaces the gradients by the decided sums.
   *
   * @param decided The payload of each rank.
   */
  private apply({ arena, chunks }: CutArena, decided: readonly Uint8Array[], means: Means): void {
    const { tensors, memory } = arena;
    for (const { gradient, elementCount } of tensors) arena.context.kernels.clear(gradient, elementCount);
    for (const [origin, body] of decided.entries()) {
      const pieces = chunks[(origin + 1) % chunks.length]!;
      const sum = blaming(origin, () => this.coder!.decode(body, pieces, tensors.length));
      if (typeof sum === 'number') {
        means.overflow(tensors[sum]!);
        continue;
      }
      for (const { tensor, entries } of byTensor(arena, pieces, sum)) {
        const gradient = new Float32Array(memory.buffer, tensor.gradient, tensor.elementCount);
        entries.positions.forEach((at, i) => (gradient[at] = entries.values[i]!));
      }
    }
    for (const tensor of tensors) if (tensor.masks) arena.unsent.push(unsentOf(arena, tensor));
  }
}

/** An arena, and the pieces of each chunk. */
interface CutArena {
  readonly arena: StepArena;
  readonly chunks: readonly (readonly Piece[])[];
}

/** What this rank has selected of a tensor, but is not among the decided sums: it keeps its momentum. */
function unsentOf({ memory }: StepArena, tensor: TensorTreatment): UnsentEntries {
  const gradient = new Float32Array(memory.buffer, tensor.gradient, tensor.elementCount);
  const momentum = new Float32Array(memory.buffer, tensor.momentum, tensor.elementCount);
  const selected = new Uint32Array(memory.buffer, tensor.indices, tensor.count);
  const indices = selected.filter(index => gradient[index] === 0);
  return { tensor, indices, momenta: Float32Array.from(indices, index => momentum[index]!) };
}

/** The pieces of each chunk. All ranks cut alike. */
export function chunksOf(
  tensors: readonly Pick<TensorTreatment, 'elementCount' | 'count'>[],
  worldSize: number,
): Piece[][] {
  const total = tensors.reduce((sum, { elementCount }) => sum + elementCount, 0);
  return Array.from({ length: worldSize }, (_, chunk) => {
    const from = Math.floor((chunk * total) / worldSize);
    const until = Math.floor(((chunk + 1) * total) / worldSize);
    const pieces: Piece[] = [];
    let base = 0;
    for (const [tensor, { elementCount, count }] of tensors.entries()) {
      const position = Math.max(from, base);
      const length = Math.min(until, base + elementCount) - position;
      const budget = Math.ceil((count * length) / elementCount);
      if (length > 0) pieces.push({ tensor, position, start: position - base, length, budget });
      base += elementCount;
    }
    return pieces;
  });
}

/** What this rank has selected of all tensors of an arena: a copy. */
function ownEntries({ memory, tensors }: StepArena): SparseList {
  const count = tensors.reduce((sum, tensor) => sum + tensor.count, 0);
  const own = emptyList(count);
  let [next, base] = [0, 0];
  for (const tensor of tensors) {
    const indices = new Uint32Array(memory.buffer, tensor.indices, tensor.count);
    own.values.set(new Float32Array(memory.buffer, tensor.values, tensor.count), next);
    for (const index of indices) own.positions[next++] = base + index;
    base += tensor.elementCount;
  }
  return own;
}

/** Takes entries back: they go to this rank's residuals when the step cannot fail any more. */
function keep(arena: StepArena, pieces: readonly Piece[], list: SparseList): void {
  if (list.positions.length > 0) arena.kept.push(...byTensor(arena, pieces, list));
}

/** The entries of each tensor, at its own indices. */
function byTensor({ tensors }: StepArena, pieces: readonly Piece[], list: SparseList) {
  return pieces.map(({ tensor, position, start, length }) => {
    const { positions, values } = between(list, position, position + length);
    return {
      tensor: tensors[tensor]!,
      entries: { positions: positions.map(at => at - position + start), values: values.slice() },
    };
  });
}

function rangeOf(pieces: readonly Piece[]): [from: number, until: number] {
  const [first, last] = [pieces[0], pieces.at(-1)];
  return first === undefined ? [0, 0] : [first.position, last!.position + last!.length];
}

/** Codes the lists of chunks, in a memory of its own. Each piece is a tensor for the codec. */
class ChunkCoder {
  private readonly memory = sharedMemory(PAGE_BYTES, MOST_BYTES, 'for the chunks of a reduce-scatter');
  private readonly kernels = instantiateKernels(this.memory);
  private readonly codec: GradientCodec;
  private readonly entries = 16 * Math.ceil(GradientCodec.workspaceBytes / 16);

  constructor(format: ValueFormat) {
    this.codec = new GradientCodec(this.kernels, this.memory, format, 0);
  }

  /** The payload of a list, and what rounding has lost of it. */
  encode({ positions, values }: SparseList, pieces: readonly Piece[]): { payload: Uint8Array; lost: SparseList } {
    // Each piece begins at a multiple of 16 bytes.
    const valuesAt = this.entries + 4 * positions.length + 16 * (pieces.length + 1);
    this.makeRoom(2 * valuesAt);
    const { buffer } = this.memory;
    let [indices, into] = [this.entries, 16 * Math.ceil(valuesAt / 16)];
    const tensors = pieces.map(({ position, length }) => {
      const own = between({ positions, values }, position, position + length);
      const count = own.positions.length;
      new Uint32Array(buffer, indices, count).set(own.positions.map(at => at - position));
      new Float32Array(buffer, into, count).set(own.values);
      const tensor = { elementCount: length, count, indices, values: into };
      indices += entryBytes(count);
      into += entryBytes(count);
      return tensor;
    });
    const streams = this.codec.encode(tensors);
    const counts = tensors.map(({ count }) => count);
    const payload = encodeGradientPayload({ format: this.codec.format, counts, streams });
    const lost = new Float32Array(values.length);
    let next = 0;
    for (const { values: at, count } of tensors) {
      for (const received of new Float32Array(buffer, at, count)) lost[next] = values[next++]! - received;
    }
    return { payload, lost: withoutZeros({ positions, values: lost }) };
  }

  /**
   * The list in a payload, or, if `tensorCount` is given, the number of a tensor whose sum has overflowed.
   *
   * @throws GradringError `ERR_PROTOCOL` for a payload that does not fit the pieces.
   */
  decode(payload: Uint8Array, pieces: readonly Piece[]): SparseList;
  decode(payload: Uint8Array, pieces: readonly Piece[], tensorCount: number): SparseList | number;
  decode(payload: Uint8Array, pieces: readonly Piece[], tensorCount = 0): SparseList | number {
    const expected = pieces.map(({ length }) => ({ elementCount: length, count: undefined }));
    const received = decodeGradientPayload(payload, this.codec.format, expected, tensorCount);
    if ('nonFiniteTensor' in received) return received.nonFiniteTensor;
    const { counts, streams } = received;
    const count = counts.reduce((sum, each) => sum + each, 0);
    const most = pieces.reduce((sum, { budget }) => sum + budget, 0);
    if (count > most) throw protocolError(`holds ${count} entries of a chunk of at most ${most}`);
    const list = emptyList(count);
    const tensors = pieces.map(({ length }, i) => ({ elementCount: length, count: counts[i]! }));
    let next = 0;
    this.codec.decode(streams, tensors, ({ tensor, count: run, first, indices, values }) => {
      const { position } = pieces[tensor]!;
      const { buffer } = this.memory;
      list.values.set(new Float32Array(buffer, values, run), next);
      const at = indices === undefined ? undefined : new Uint32Array(buffer, indices, run);
      for (let i = 0; i < run; i++) list.positions[next++] = position + (at === undefined ? first + i : at[i]!);
    });
    return list;
  }

  private makeRoom(bytes: number): void {
    const missing = bytes - this.memory.buffer.byteLength;
    if (missing > 0) this.memory.grow(Math.ceil(missing / PAGE_BYTES));
  }
}

function withoutZeros({ positions, values }: SparseList): SparseList {
  if (values.every(value => value === 0)) return { positions: positions.subarray(0, 0), values: values.subarray(0, 0) };
  const isLost = (_: number, i: number) => values[i] !== 0;
  return { positions: positions.filter(isLost), values: values.filter(value => value !== 0) };
}
