import { allGatherParts } from '../../collectives/all-gather';
import type { CollectiveCall } from '../../collectives/collective-call';
import { blaming } from '../../collectives/sum-payloads';
import type { NonFinite } from '../../collectives/sparse-all-reduce';
import { GradientCodec } from '../../compression/gradient-codec';
import type { TensorTreatment } from '../../compression/tensor-treatment';
import type { ValueFormat } from '../../compression/value-format';
import { instantiateKernels } from '../../kernels/wasm-kernels';
import type { KernelMemory } from '../../kernel-memory';
import { decodeGradientPayload, encodeGradientPayload } from '../../wire/gradient-payload';
import { protocolError } from '../../wire/frame';
import { partOf } from './mixed';
import { findNonFinite, sumByRing } from './ring';
import type { Route, RouteCost, RoutedStep, StepArena } from './route';
import { between, keepLargest, LARGEST_SUM, type Piece, type SparseList, sumOfLists } from './sparse-list';

const PAGE_BYTES = 64 * 1024;

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

  async carry(step: RoutedStep): Promise<NonFinite | undefined> {
    const { call, arenas, nonFiniteTensor, means, clock } = step;
    const [others, whole] = [partOf(arenas, 'others'), partOf(arenas, 'whole')];
    const nonFinite = await clock.travel(async () => {
      const found = await findNonFinite(call, arenas, nonFiniteTensor);
      if (found !== undefined) return found;
      for (const [i, arena] of others.entries()) await this.exchange(step, arena, i);
      await sumByRing(call, whole);
      return undefined;
    });
    if (nonFinite === undefined) await clock.stage('decode', 'means', () => means.takeAll(arenas));
    return nonFinite;
  }

  /** @param number That of the arena. */
  private async exchange(step: RoutedStep, arena: StepArena, number: number): Promise<void> {
    const { call, means } = step;
    const { rank, worldSize } = call;
    const chunks = chunksOf(arena.tensors, worldSize);
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
    let list = ownIn(chunks[rank]!);
    for (let round = 0; round < worldSize - 1; round++) {
      const part = number * worldSize + round;
      const sent = encode(list, chunks[call.leftBy(round)]!);
      const pieces = chunks[call.leftBy(round + 1)]!;
      const left = call.leftBy(1);
      const [{ body }] = await Promise.all([call.receive(left, part), call.send(part, sent, { checksum: true })]);
      list = sumOfLists(
        blaming(left, () => coder.decode(body, pieces)),
        ownIn(pieces),
      );
    }
    const decided = encode(list, chunks[call.leftBy(worldSize - 1)]!);
    const bodies = await gathered(call, decided);
    for (const { gradient, elementCount } of arena.tensors) arena.context.kernels.clear(gradient, elementCount);
    for (const [origin, body] of bodies.entries()) {
      const pieces = chunks[(origin + 1) % worldSize]!;
      const sum = blaming(origin, () => coder.decode(body, pieces));
      for (const { tensor, entries } of byTensor(arena, pieces, sum)) {
        const gradient = new Float32Array(arena.memory.buffer, tensor.gradient, tensor.elementCount);
        entries.positions.forEach((at, i) => (gradient[at] = entries.values[i]!));
        // Rounding at most halves what was cut.
        if (entries.values.some(value => Math.abs(value) >= LARGEST_SUM / 2)) means.overflow(tensor);
      }
    }
  }
}

/** Every rank's decided chunk, by rank. */
async function gathered(call: CollectiveCall, own: Uint8Array): Promise<Uint8Array[]> {
  const bodies = new Array<Uint8Array>(call.worldSize);
  bodies[call.rank] = own;
  await allGatherParts(
    call,
    1,
    () => own,
    (origin, _part, body) => (bodies[origin] = body),
  );
  return bodies;
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
  const own = { positions: new Uint32Array(count), values: new Float32Array(count) };
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
  private readonly memory = new WebAssembly.Memory({ initial: 16, maximum: 65_536, shared: true }) as KernelMemory;
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
      indices += 16 * Math.ceil(count / 4);
      into += 16 * Math.ceil(count / 4);
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

  /** @throws GradringError `ERR_PROTOCOL` for a payload that does not fit the pieces. */
  decode(payload: Uint8Array, pieces: readonly Piece[]): SparseList {
    const expected = pieces.map(({ length }) => ({ elementCount: length, count: undefined }));
    const received = decodeGradientPayload(payload, this.codec.format, expected);
    if ('nonFiniteTensor' in received) throw protocolError('is not finite, though all ranks had said that theirs are');
    const { counts, streams } = received;
    const count = counts.reduce((sum, each) => sum + each, 0);
    const most = pieces.reduce((sum, { budget }) => sum + budget, 0);
    if (count > most) throw protocolError(`holds ${count} entries of a chunk of at most ${most}`);
    const list = { positions: new Uint32Array(count), values: new Float32Array(count) };
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
