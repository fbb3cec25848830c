import { sparseAllReduce, type SparsePart } from '../../collectives/sparse-all-reduce';
import { encodeGradientPayload, encodeNonFinite, type ReceivedPayload } from '../../wire/gradient-payload';
import {
  allOf,
  type EntryLoad,
  type Prices,
  type Route,
  type RouteCost,
  type RoutedStep,
  type StepArena,
} from './route';

/**
 * The entries of all tensors in a sparse all-gather: each rank sends N − 1 payloads, encodes its own, decodes all N,
 * and adds them in the order of the ranks. One frame an arena and rank.
 */
export const gather: Route = {
  cost(load, prices) {
    return gatherCost(allOf(load), prices);
  },
  async carry(step) {
    const parts = encodePayloads(step, step.arenas);
    return step.clock.travel(() => sparseAllReduce(step.call, parts));
  },
};

/** Each of the ⌈(N − 1)/2⌉ hops, in both directions, begins when a payload has come whole. */
export function gatherCost({ entries, payloadBytes }: EntryLoad, prices: Prices): RouteCost {
  const { worldSize, senders, encodeNs, decodeNs, byteNs, relayNs, hopNs } = prices;
  const sentBytes = (senders - 1) * payloadBytes;
  return {
    computeNs: entries * (encodeNs + senders * decodeNs),
    travelNs: sentBytes * byteNs + hopsOf(worldSize) * (hopNs + payloadBytes * relayNs),
    sentBytes,
  };
}

/** How many hops a frame makes that all ranks receive: it travels in both directions. */
export function hopsOf(worldSize: number): number {
  return Math.ceil((worldSize - 1) / 2);
}

/**
 * This rank's payloads, one for each arena. The means take the place of the gradients.
 */
export function encodePayloads(step: RoutedStep, arenas: readonly StepArena[]): SparsePart[] {
  const { nonFiniteTensor, notices, clock, sendsCounts, workers, means } = step;
  return clock.stage('encode', 'payload', () =>
    arenas.map((arena): SparsePart => {
      const { tensors } = arena;
      const { format } = arena.codec;
      const counts = sendsCounts ? tensors.map(({ count }) => count) : undefined;
      const payload =
        nonFiniteTensor === undefined
          ? encodeGradientPayload({ format, counts, streams: workers.encode(arena), notices })
          : encodeNonFinite(nonFiniteTensor);
      const expected = tensors.map(({ elementCount, count }) => ({
        elementCount,
        count: sendsCounts ? undefined : count,
      }));
      const sum = (payloads: readonly ReceivedPayload[]) => means.overflow(workers.average(arena, payloads));
      return { payload, format, tensors: expected, sum };
    }),
  );
}
