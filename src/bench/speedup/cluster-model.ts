import { roundedLinks } from '../../exchange/link-cost';
import type { EntryRoute } from '../../compression/dgc-options';
import { chooseRoute, costOf, pricesOf } from '../../exchange/routes/choose-route';
import { divideMessages, type TensorMessage } from '../../exchange/routes/divide-messages';
import { gatherCost } from '../../exchange/routes/gather';
import { denseCost, finiteCheckNs, ringCost } from '../../exchange/routes/ring';
import { type Prices, type RouteCost, type StepLoad, sumOf } from '../../exchange/routes/route';

/** How the gradients travel, and what a reader calls it. */
export const WAYS = {
  dense: 'dense',
  /** What gradring does not have, but others: the dense ring with numbers of 16 bits. */
  dense16: 'dense, 16 bits',
  dgc: 'DGC',
  scatter: 'DGC, scatter',
  lowRank: 'low rank',
} as const;
export type ClusterWay = keyof typeof WAYS;
/** Those that are measured in rings. The others are modelled only. */
export type MeasuredWay = Extract<ClusterWay, 'dense' | 'dgc'>;

/** What was measured on this machine, in ns, ns an element, an entry or a byte. */
export const CONSTANT_NAMES = [
  /** Accumulate, select and settle, for each element. */
  'compressNs',
  /** From entries to bytes, for each entry that a rank sends. */
  'encodeNs',
  /** Decode and add, for each entry of each rank. */
  'decodeNs',
  /** Clear the sums and take the means of a compressed step, for each element. */
  'averageNs',
  /** All that a dense step computes beside its sums, for each element: the means. */
  'denseNs',
  /** Low rank, from a gradient to the factors that are sent, for each element. */
  'lowRankEncodeNs',
  /** Decode the factors of one rank and add their product, for each element. */
  'lowRankAddNs',
  /** How long a message without data takes to a neighbour. */
  'hopNs',
  /** What a byte of a payload costs a rank between two links, if these had no limit. */
  'linkByteNs',
  /** The same for a byte of the dense ring, sums included. */
  'ringByteNs',
  /** The part of a link's rate that is left to data. */
  'lineShare',
] as const;
export type Constants = Readonly<Record<(typeof CONSTANT_NAMES)[number], number>>;

/** What a step exchanges. */
export interface ClusterLoad {
  readonly elements: number;
  /** What DGC sends, with all headers. */
  readonly dgc: StepLoad;
  /** What low rank sends of each tensor. */
  readonly lowRank: readonly TensorMessage[];
}

/** A ring, and the rate of each rank's link in each direction. */
export interface Cluster {
  readonly nodes: number;
  readonly bitsPerSecond: number;
  /** How much later than on this host everything arrives. Default 0. */
  readonly delayMs?: number;
}

/** An exchange on one rank. Nothing of it overlaps. */
export interface ExchangeTimes {
  readonly travelled: EntryRoute;
  /** What a rank computes by itself. */
  readonly computeMs: number;
  /** From the first message to the last. The sums of the dense ring are part of it. */
  readonly travelMs: number;
  readonly sentBytes: number;
}

/**
 * The model: how long the exchange of a step takes in a ring of N ranks. What the routes cost is what a training
 * expects of them ({@link Route.cost}), with the prices that were measured. A rank also computes, for each element:
 *
 * - dense: the means. In 16 bits an element has half the bytes, and all else is the same.
 * - dgc: accumulate, select, settle, and the means. Its route is chosen as in a training.
 * - scatter: the same by the sparse reduce-scatter, which applies other updates.
 * - lowRank: encode, and add N products. Tensors take the dense ring as in a training; the messages of the others are
 *   gathered.
 */
export function exchangeTimes(
  way: ClusterWay,
  load: ClusterLoad,
  cluster: Cluster,
  constants: Constants,
): ExchangeTimes {
  const { nodes } = cluster;
  const { elements } = load;
  const { denseNs, lowRankEncodeNs, lowRankAddNs } = constants;
  const prices = pricesIn(cluster, constants);
  switch (way) {
    case 'dense':
      return timesOf(nodes, 'dense', elements * denseNs, denseCost(elements, prices));
    case 'dense16':
      return timesOf(nodes, 'dense', elements * denseNs, denseCost(elements, prices, 2));
    case 'dgc':
      return routeTimes(routeInTraining(load, cluster, constants), load, cluster, constants)!;
    case 'scatter':
      return routeTimes('scatter', load, cluster, constants)!;
    case 'lowRank': {
      const { gathered, whole } = lowRankParts(load, expectedPrices(prices));
      const ownNs = gathered.elements * (lowRankEncodeNs + nodes * lowRankAddNs) + whole.elements * denseNs;
      const route = gathered.elements === 0 ? 'dense' : whole.elements === 0 ? 'sparse' : 'mixed';
      const messages = gathered.elements === 0 ? [] : [gatherCost(gathered, prices)];
      const check = { computeNs: 0, travelNs: finiteCheckNs(prices), sentBytes: 0 };
      return timesOf(nodes, route, ownNs, check, ...messages, ringCost(whole.elements, prices));
    }
  }
}

/** A compressed step on that route. Undefined if it costs what another route does. */
export function routeTimes(
  route: EntryRoute,
  { elements, dgc }: Pick<ClusterLoad, 'elements' | 'dgc'>,
  cluster: Cluster,
  constants: Constants,
): ExchangeTimes | undefined {
  const { compressNs, averageNs } = constants;
  const cost = costOf(route, dgc, pricesIn(cluster, constants));
  return cost && timesOf(cluster.nodes, route, elements * (compressNs + averageNs), cost);
}

/** The route that a training takes for a compressed step. */
export function routeInTraining({ dgc }: Pick<ClusterLoad, 'dgc'>, cluster: Cluster, constants: Constants): EntryRoute {
  return chooseRoute(dgc, expectedPrices(pricesIn(cluster, constants)));
}

/** Those by which a training chooses. */
function expectedPrices(prices: Prices): Prices {
  return pricesOf(prices.worldSize, roundedLinks({ byteNs: prices.byteNs, hopNs: prices.hopNs }));
}

/** @param ownNs What a rank computes beside what the costs have. */
function timesOf(nodes: number, travelled: EntryRoute, ownNs: number, ...costs: readonly RouteCost[]): ExchangeTimes {
  if (nodes === 1) return { travelled, computeMs: 0, travelMs: 0, sentBytes: 0 };
  return {
    travelled,
    computeMs: (ownNs + sumOf(costs, ({ computeNs }) => computeNs)) / 1e6,
    travelMs: sumOf(costs, ({ travelNs }) => travelNs) / 1e6,
    sentBytes: sumOf(costs, ({ sentBytes }) => sentBytes),
  };
}

/** The tensors whose messages of low rank are gathered, and those that take the dense ring. */
function lowRankParts({ lowRank }: ClusterLoad, prices: Prices) {
  const { gathered, dense } = divideMessages(lowRank, prices);
  const loadOf = (messages: readonly TensorMessage[]) => ({
    elements: sumOf(messages, ({ elements }) => elements),
    entries: 0,
    payloadBytes: sumOf(messages, ({ bits }) => bits) / 8,
  });
  return { gathered: loadOf(gathered), whole: loadOf(dense) };
}

function pricesIn({ nodes, bitsPerSecond, delayMs = 0 }: Cluster, constants: Constants): Prices {
  const { encodeNs, decodeNs, linkByteNs, ringByteNs, lineShare } = constants;
  const hopNs = constants.hopNs + delayMs * 1e6;
  const lineByteNs = 8e9 / (bitsPerSecond * lineShare);
  return {
    ...{ worldSize: nodes, senders: nodes, encodeNs, decodeNs, hopNs, relayNs: linkByteNs },
    byteNs: Math.max(lineByteNs, linkByteNs),
    ringByteNs: Math.max(lineByteNs, ringByteNs),
  };
}

/**
 * What more nodes do. `weak`: each computes as many examples in a step as one node alone. `strong`: together they
 * compute as many, so that a training has as many steps.
 */
export const SCALINGS = ['weak', 'strong'] as const;
export type Scaling = (typeof SCALINGS)[number];

/** How long a node computes in a step. */
export function ownStepMs(nodes: number, stepMs: number, scaling: Scaling): number {
  return scaling === 'weak' ? stepMs : stepMs / nodes;
}

/** How many times as many examples a cluster computes in the same time as one node. */
export function speedUp(nodes: number, stepMs: number, exchangeMs: number, scaling: Scaling = 'weak'): number {
  const own = ownStepMs(nodes, stepMs, scaling);
  return (nodes * own) / (own + exchangeMs);
}

/** A point that the paper gives. */
export interface PaperPoint {
  readonly model: string;
  readonly nodes: number;
  readonly way: ClusterWay;
  readonly rate: string;
  readonly speedUp: number;
  readonly words: string;
}

/**
 * Figure 6 of Lin et al. 2018, as section 5 reads it. The paper made it with a model, too: that of Wen et al. 2017,
 * with figures of one node with four NVIDIA Titan XP.
 */
export const PAPER: readonly PaperPoint[] = [
  { model: 'alexnet', nodes: 64, way: 'dgc', rate: '1gbit', speedUp: 40, words: 'more than 40' },
  { model: 'alexnet', nodes: 64, way: 'dense', rate: '10gbit', speedUp: 30, words: 'about 30' },
];

/**
 * The time of a step of one node that the paper's dense point of a model implies: with an all-reduce at the full rate
 * of the links, N · T ÷ (T + all-reduce) is the paper's speed-up. The paper does not say its time. Undefined for a
 * model without such a point.
 */
export function impliedStepMs(model: string, elements: number): number | undefined {
  const point = PAPER.find(candidate => candidate.model === model && candidate.way === 'dense');
  if (point === undefined) return undefined;
  const { nodes } = point;
  const allReduceMs = ((2 * (nodes - 1)) / nodes) * elements * 4 * (8 / 10e9) * 1e3;
  return allReduceMs / (nodes / point.speedUp - 1);
}
