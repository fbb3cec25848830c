import type { CollectiveCall } from '../../collectives/collective-call';
import { blaming } from '../../collectives/blaming';
import type { Agreed } from '../../collectives/sparse-all-reduce';
import type { TensorTreatment } from '../../compression/tensor-treatment';
import type { ValueFormat } from '../../compression/value-format';
import { opposite, type Side, SIDES } from '../../transport/ring-place';
import type { DataFrame } from '../../transport/transport';
import { type Chunk, ChunkReducer, chunksOf, type ReceivedChunk, together } from './chunk-reducer';
import { hopsOf } from './gather';
import { partOf } from './mixed';
import { ringCost, sumByRing } from './ring';
import {
  FRAME_OVERHEAD_BYTES,
  type Prices,
  type Route,
  type RouteCost,
  type RoutedStep,
  type StepArena,
  type StepLoad,
} from './route';

/**
 * Sparse reduce-scatter: what a rank sends does not grow with the ranks. The index space of the tensors is cut into
 * chunks, one for each even rank, which decides it. A chunk comes to that rank from both sides, from rank to rank: each
 * adds its own entries to the sum that comes, keeps the largest of each tensor, as many as one rank has selected in a
 * chunk on average, and takes what it drops back into its own residual. Then the decided chunks are gathered, so all
 * ranks have the same bits. What rounding loses on the way is taken back, too. So over all ranks no part of a gradient
 * is lost: it is applied, or held back.
 *
 * So a rank sends about one frame a round. With a chunk for each rank it would send two, each with half the entries,
 * and the headers of many small frames would weigh as much as the entries.
 *
 * Tensors that are sent whole travel by the dense ring beside it. Kin: SparDL (arXiv 2304.00737), gTop-k (arXiv
 * 1901.04359).
 */
export class ScatterRoute implements Pick<Route, 'carry'> {
  private reducer: ChunkReducer | undefined;

  constructor(private readonly format: ValueFormat) {}

  async carry(step: RoutedStep): Promise<Agreed> {
    const { call, arenas, means, clock } = step;
    const { worldSize } = call;
    const reducer = (this.reducer ??= new ChunkReducer(this.format));
    const tensorCount = arenas.reduce((sum, { tensors }) => sum + tensors.length, 0);
    const [whole, others] = [partOf(arenas, 'whole'), partOf(arenas, 'others')];
    const decided: DecidedChunk[] = [];
    const told = await clock.travel(async () => {
      for (const [i, arena] of others.entries()) {
        const pieces = chunksOf(arena.tensors, chunkCount(worldSize));
        const chunks = pieces.map((each): Chunk => ({ arena, pieces: each, worldSize, tensorCount }));
        const own = await decide(step, chunks, reducer, 2 * i);
        const payloads = await gatherDecided(call, own, 2 * i + 1);
        decided.push(...chunks.map((chunk, j) => ({ chunk, payload: payloads[j]!, decider: deciderOf(j) })));
      }
      const all = decided.map(({ chunk, payload, decider }) => blaming(decider, () => reducer.toldIn(chunk, payload)));
      if (together(all).nonFinite === undefined) await sumByRing(call, whole);
      return all;
    });
    const agreed = together(told);
    if (agreed.nonFinite?.rank !== undefined) return agreed;
    for (const { nonFinite } of told) if (nonFinite !== undefined) means.overflow([tensorOf(arenas, nonFinite.tensor)]);
    if (agreed.nonFinite !== undefined) return { notices: 0 };
    clock.stage('decode', 'sum', () => {
      for (const { tensors, context } of others) {
        for (const { gradient, elementCount } of tensors) context.kernels.clear(gradient, elementCount);
      }
      for (const { chunk, payload, decider } of decided) blaming(decider, () => reducer.apply(chunk, payload));
    });
    clock.stage('decode', 'means', () => means.takeAll(whole));
    return agreed;
  }
}

/** Of which ranks decide a chunk: the even ones. */
function chunkCount(worldSize: number): number {
  return Math.ceil(worldSize / 2);
}

function deciderOf(chunk: number): number {
  return 2 * chunk;
}

function chunkOf(decider: number): number | undefined {
  return decider % 2 === 0 ? decider / 2 : undefined;
}

interface DecidedChunk {
  readonly chunk: Chunk;
  readonly payload: Uint8Array;
  readonly decider: number;
}

/** How frames go round half of the ring to that side. */
function wayTo(side: Side, call: CollectiveCall) {
  const hopsToRight = hopsOf(call.worldSize);
  return {
    hops: side === 'right' ? hopsToRight : call.worldSize - 1 - hopsToRight,
    from: opposite(side),
    /** The rank so many places on the way; with a negative number, places back. */
    ahead: (places: number) => call.leftBy(side === 'right' ? -places : places),
  };
}

/**
 * Takes this rank's part in the passes of all chunks.
 *
 * @returns the payload of the chunk that this rank decides, if it decides one.
 */
async function decide(step: RoutedStep, chunks: readonly Chunk[], reducer: ChunkReducer, part: number) {
  const { call, nonFiniteTensor, notices } = step;
  const nonFinite = nonFiniteTensor === undefined ? undefined : { rank: call.rank, tensor: nonFiniteTensor };
  const reduce = (chunk: number, received: readonly ReceivedChunk[]) =>
    reducer.reduce(chunks[chunk]!, received, { nonFinite, notices });
  const pass = async (side: Side): Promise<ReceivedChunk[]> => {
    const { hops, from, ahead } = wayTo(side, call);
    const sender = ahead(-1);
    let received: ReceivedChunk[] = [];
    // The chunks that go on and that come are those of the ranks that are so many, and one fewer, places ahead.
    for (let places = hops; places > 0; places--) {
      const [going, coming] = [chunkOf(ahead(places)), chunkOf(ahead(places - 1))];
      const payload = going === undefined ? undefined : reduce(going, received);
      const [frame] = await Promise.all([
        coming === undefined ? undefined : call.receive(sender, part, from),
        payload && call.send(part, payload, { side, checksum: true }),
      ]);
      received = frame === undefined ? [] : [{ from: sender, payload: frame.body }];
    }
    return received;
  };
  const received = (await Promise.all(SIDES.map(pass))).flat();
  const own = chunkOf(call.rank);
  return own === undefined ? undefined : reduce(own, received);
}

/** Gathers the decided chunks, both ways round the ring. Returns their payloads in the order of the chunks. */
async function gatherDecided(call: CollectiveCall, own: Uint8Array | undefined, part: number): Promise<Uint8Array[]> {
  const payloads = new Array<Uint8Array>(chunkCount(call.worldSize));
  if (own !== undefined) payloads[chunkOf(call.rank)!] = own;
  const pass = async (side: Side): Promise<void> => {
    const { hops, from, ahead } = wayTo(side, call);
    let last: DataFrame | undefined;
    for (let places = 1; places <= hops; places++) {
      const decider = ahead(-places);
      const coming = chunkOf(decider);
      const [frame] = await Promise.all([
        coming === undefined ? undefined : call.receive(decider, part, from),
        places === 1 ? own && call.send(part, own, { side, checksum: true }) : last && call.forward(last, side),
      ]);
      if (frame !== undefined) payloads[coming!] = frame.body;
      last = frame;
    }
  };
  await Promise.all(SIDES.map(pass));
  return payloads;
}

function tensorOf(arenas: readonly StepArena[], number: number): TensorTreatment {
  return arenas.flatMap(({ tensors }) => tensors).find(tensor => tensor.number === number)!;
}

/** In about N rounds a rank sends one frame each, on average. What it computes is done while others wait for it. */
export function scatterCost({ whole, others }: StepLoad, prices: Prices): RouteCost {
  const { worldSize, encodeNs, decodeNs, byteNs, relayNs, hopNs } = prices;
  const frameBytes = (2 * others.payloadBytes) / worldSize + FRAME_OVERHEAD_BYTES;
  const rounds = 2 * hopsOf(worldSize);
  const sentBytes = (worldSize - 1) * frameBytes;
  const ringOfWhole = ringCost(whole.elements, { ...prices, ringByteNs: byteNs });
  return {
    computeNs: others.entries * (REDUCE_NS + encodeNs + 2 * decodeNs),
    travelNs: sentBytes * byteNs + rounds * (hopNs + frameBytes * relayNs) + ringOfWhole.travelNs,
    sentBytes: sentBytes + ringOfWhole.sentBytes,
  };
}

/** How long it takes to add an entry to a sum, cut this, and take back what is lost, in ns, as measured. */
const REDUCE_NS = 40;
