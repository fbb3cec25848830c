import { allGatherBodies } from '../../collectives/all-gather';
import { blaming } from '../../collectives/blaming';
import { BLOCK_SEGMENTS, Chunks } from '../../collectives/chunks';
import type { CollectiveCall } from '../../collectives/collective-call';
import { algorithmFor, allReduce } from '../../collectives/dense-ring';
import type { Agreed } from '../../collectives/sparse-all-reduce';
import { protocolError } from '../../wire/frame';
import { allOf, type Prices, type Route, type RouteCost, type RoutedStep, type StepArena } from './route';
import { gatherCost, hopsOf } from './gather';

/**
 * All gradients by the dense ring, once for each arena. Its cost does not grow with the ranks. What a rank does not
 * send counts as zero.
 */
export const ring: Route = {
  cost(load, prices) {
    return denseCost(allOf(load).elements, prices);
  },
  async carry(step) {
    const { call, arenas, means, clock } = step;
    const agreed = await clock.travel(async () => {
      const path = call.inBulk();
      const found = await agree(path, step);
      if (found.nonFinite === undefined) await sumByRing(path, arenas);
      return found;
    });
    if (agreed.nonFinite === undefined) clock.stage('decode', 'means', () => means.takeAll(arenas));
    return agreed;
  },
};

/** {@link agree}, and a ring all-reduce. */
export function denseCost(elements: number, prices: Prices, elementBytes?: number): RouteCost {
  const { travelNs, ...cost } = ringCost(elements, prices, elementBytes);
  return { ...cost, travelNs: finiteCheckNs(prices) + travelNs };
}

/** What {@link agree} takes. */
export function finiteCheckNs({ worldSize, hopNs }: Prices): number {
  return hopsOf(worldSize) * hopNs;
}

/** What a rank sends of so many elements in a ring all-reduce. */
export function ringBytes(elements: number, worldSize: number, elementBytes = 4): number {
  return (2 * (worldSize - 1) * elementBytes * elements) / worldSize;
}

/**
 * A ring all-reduce of so many elements (Patarasuk and Yuan 2009): 2(N − 1) rounds, in each of which a chunk of 1/N
 * travels in segments. Up to four of these are under way, so a hop is hidden behind them if they take longer. A small
 * array is gathered whole instead.
 */
export function ringCost(elements: number, prices: Prices, elementBytes = 4): RouteCost {
  const { worldSize, ringByteNs, hopNs } = prices;
  const bytes = elementBytes * elements;
  if (algorithmFor(worldSize, bytes) === 'gather') {
    const gathered = { elements, entries: 0, payloadBytes: bytes };
    return elements === 0
      ? NOTHING
      : gatherCost(gathered, { ...prices, senders: worldSize, byteNs: ringByteNs, relayNs: 0 });
  }
  const rounds = 2 * (worldSize - 1);
  const chunkBytes = bytes / worldSize;
  const segments = new Chunks(elements, worldSize, elementBytes).segmentCount;
  const together = Math.min(BLOCK_SEGMENTS, segments);
  const segmentNs = (chunkBytes / segments) * ringByteNs;
  const blockNs = Math.max(together * segmentNs, segmentNs + hopNs);
  const travelNs = (rounds * segments * blockNs) / together;
  return { computeNs: 0, travelNs, sentBytes: ringBytes(elements, worldSize, elementBytes) };
}

const NOTHING: RouteCost = { computeNs: 0, travelNs: 0, sentBytes: 0 };

/** Replaces the gradients by their sums over all ranks. */
export async function sumByRing(path: CollectiveCall, arenas: readonly StepArena[]): Promise<void> {
  for (const { context, gradients, tensors } of arenas) {
    for (const tensor of tensors) tensor.expand();
    if (gradients.elementCount > 0) await allReduce(path.over(context), gradients, 'sum');
  }
}

/** The ranks tell each other what is not finite, and their notices: four bytes each. */
export async function agree(path: CollectiveCall, step: RoutedStep): Promise<Agreed> {
  const { arenas, nonFiniteTensor = NONE, notices } = step;
  const tensorCount = arenas.reduce((sum, { tensors }) => sum + tensors.length, 0);
  const own = new Uint8Array(4);
  new DataView(own.buffer).setUint32(0, nonFiniteTensor + NOTICE * notices, true);
  let all = 0;
  for (const [rank, body] of (await allGatherBodies(path, own)).entries()) {
    const told = blaming(rank, () => readWord(body, tensorCount));
    if (told.tensor !== NONE) return { nonFinite: { rank, tensor: told.tensor }, notices: 0 };
    all |= told.notices;
  }
  return { notices: all };
}

function readWord(body: Uint8Array, tensorCount: number): { tensor: number; notices: number } {
  const word = body.length === 4 ? new DataView(body.buffer, body.byteOffset, 4).getUint32(0, true) : NaN;
  const tensor = word % NOTICE;
  if (!(tensor < tensorCount || tensor === NONE)) throw protocolError('holds no tensor number');
  return { tensor, notices: Math.floor(word / NOTICE) };
}

/** What a word of {@link agree} counts in the bits of its notices. The rest is the number of a tensor, or none. */
const NOTICE = 2 ** 24;
const NONE = NOTICE - 1;
