import { BLOCK_SEGMENTS, Chunks } from '../../collectives/chunks';
import { isCheaperDense } from '../../compression/compressors/low-rank';
import type { ValueFormat } from '../../compression/value-format';
import { roundedLinks } from '../../exchange/link-cost';
import { type CostedTensor, costOf } from '../../exchange/step-cost';

/** How the gradients travel, and what a reader calls it. */
export const WAYS = {
  dense: 'dense',
  /** What gradring does not have, but others: the dense ring with numbers of 16 bits. */
  dense16: 'dense, 16 bits',
  dgc: 'DGC',
  lowRank: 'low rank',
} as const;
export type ClusterWay = keyof typeof WAYS;
/** Those that are measured in rings. The others are modelled only. */
export type MeasuredWay = Extract<ClusterWay, 'dense' | 'dgc'>;

/** What was measured on this machine, in ns, ns an element, an entry or a byte. */
export interface Constants {
  /** Accumulate, select and settle, for each element. */
  readonly compressNs: number;
  /** From entries to bytes, for each entry that a rank sends. */
  readonly encodeNs: number;
  /** Decode and add, for each entry of each rank. */
  readonly decodeNs: number;
  /** Clear the sums and take the means of a compressed step, for each element. */
  readonly averageNs: number;
  /** All that a dense step computes beside its sums, for each element: the means. */
  readonly denseNs: number;
  /** Low rank, from a gradient to the factors that are sent, for each element. */
  readonly lowRankEncodeNs: number;
  /** Decode the factors of one rank and add their product, for each element. */
  readonly lowRankAddNs: number;
  /** How long a message without data takes to a neighbour. */
  readonly hopNs: number;
  /** What a byte of a payload costs a rank between two links, if these had no limit. */
  readonly linkByteNs: number;
  /** The same for a byte of the dense ring, sums included. */
  readonly ringByteNs: number;
  /** The part of a link's rate that is left to data. */
  readonly lineShare: number;
}

/** What a step exchanges. */
export interface StepLoad {
  readonly elements: number;
  /** How many entries each rank sends in a compressed step, with the elements of tensors that are sent whole. */
  readonly entries: number;
  /** What they take on a link, with all headers. */
  readonly payloadBytes: number;
  /** How many of the entries are of tensors that are sent whole. */
  readonly wholeElements: number;
  /** How many of the bytes are theirs. */
  readonly wholeBytes: number;
  readonly values: ValueFormat;
  readonly tensors: readonly CostedTensor[];
  /** What low rank sends of each tensor. */
  readonly lowRank: readonly LowRankMessage[];
}

export interface LowRankMessage {
  readonly elements: number;
  readonly bits: number;
}

/** A ring, and the rate of each rank's link in each direction. */
export interface Cluster {
  readonly nodes: number;
  readonly bitsPerSecond: number;
}

/** An exchange on one rank. Nothing of it overlaps. */
export interface ExchangeTimes {
  readonly travelled: 'sparse' | 'mixed' | 'dense';
  /** What a rank computes by itself. */
  readonly computeMs: number;
  /** From the first message to the last. The sums of the dense ring are part of it. */
  readonly travelMs: number;
  readonly sentBytes: number;
}

/**
 * The model: how long the exchange of a step takes in a ring of N ranks.
 *
 * A compressed step is an all-gather. A rank sends N − 1 payloads of P bytes, and each of the ⌈(N − 1)/2⌉ hops begins
 * when a payload has come whole:
 *
 *     compute = elements · (compress + average) + entries · (encode + N · decode)
 *     travel  = (N − 1) · P · max(line, linkByte) + ⌈(N − 1)/2⌉ · (hop + P · linkByte)
 *
 * In a mixed step, entries and P leave out the tensors that are sent whole. The dense ring carries those in addition.
 * Whether a step is sparse, mixed or dense is chosen as in a training, by `costOf`.
 *
 * A dense step is the ring all-reduce of Patarasuk and Yuan (2009), with 2(N − 1) rounds. In each, a chunk of 4n/N
 * bytes travels in segments, of which up to four are under way. So a hop is hidden behind the other segments if these
 * take longer; with s as the time of one segment, of b that travel together:
 *
 *     compute = elements · dense
 *     travel  = 2(N − 1) · segments/b · max(b · s, s + hop) + ⌈(N − 1)/2⌉ · hop
 *
 * The last term is the message in which the ranks tell each other that all gradients are finite. In 16 bits an element
 * has half the bytes, and all else is the same.
 *
 * A step of low rank is an all-gather, too, with a message of B bits for each tensor. Those tensors whose messages
 * would be longer than the dense ring take the dense ring, as in a training:
 *
 *     compute = elements · (encode + N · add), or elements · dense
 */
export function exchangeTimes(way: ClusterWay, load: StepLoad, cluster: Cluster, constants: Constants): ExchangeTimes {
  const { nodes } = cluster;
  const { elements } = load;
  const { denseNs, compressNs, averageNs } = constants;
  switch (way) {
    case 'dense':
      return denseTimes(denseNs);
    case 'dense16':
      return denseTimes(denseNs, 2);
    case 'lowRank':
      return lowRankTimes(load, cluster, constants);
    case 'dgc': {
      const travelled = nodes === 1 ? 'sparse' : cheapestTravel(load, cluster, constants);
      return travelled === 'dense'
        ? denseTimes(compressNs + averageNs)
        : sparseTimes(travelled, load, cluster, constants);
    }
  }

  function denseTimes(elementNs: number, elementBytes = 4): ExchangeTimes {
    if (nodes === 1) return { travelled: 'dense', ...NOTHING };
    const { travelMs, sentBytes } = ringTravel(elements, cluster, constants, constants.ringByteNs, elementBytes);
    const computeMs = (elements * elementNs) / 1e6;
    return { travelled: 'dense', computeMs, travelMs: travelMs + (hopsOf(nodes) * constants.hopNs) / 1e6, sentBytes };
  }
}

/** One node exchanges nothing. */
const NOTHING = { computeMs: 0, travelMs: 0, sentBytes: 0 } as const;

function sparseTimes(
  travelled: 'sparse' | 'mixed',
  load: StepLoad,
  cluster: Cluster,
  constants: Constants,
): ExchangeTimes {
  const { elements, entries, payloadBytes, wholeElements, wholeBytes } = load;
  if (cluster.nodes === 1) return { travelled, ...NOTHING };
  if (travelled === 'sparse')
    return { travelled, ...gatherTimes({ elements, entries, payloadBytes }, cluster, constants) };
  const others = { elements, entries: entries - wholeElements, payloadBytes: payloadBytes - wholeBytes };
  const gather = gatherTimes(others, cluster, constants);
  const ring = ringTravel(wholeElements, cluster, constants, constants.linkByteNs); // a mixed step keeps to the links
  const travelMs = gather.travelMs + ring.travelMs;
  return { travelled, computeMs: gather.computeMs, travelMs, sentBytes: gather.sentBytes + ring.sentBytes };
}

function lowRankTimes({ lowRank }: StepLoad, cluster: Cluster, constants: Constants): ExchangeTimes {
  const { nodes } = cluster;
  if (nodes === 1) return { travelled: 'sparse', ...NOTHING };
  const [gathered, whole] = [false, true].map(isDense =>
    lowRank.filter(({ bits, elements }) => isCheaperDense(bits, elements, nodes) === isDense),
  ) as [LowRankMessage[], LowRankMessage[]];
  const payloadBytes = sumOf(gathered, ({ bits }) => bits) / 8;
  const [factored, wholeElements] = [gathered, whole].map(part => sumOf(part, ({ elements }) => elements)) as [number, number]; // prettier-ignore
  const { lowRankEncodeNs, lowRankAddNs, denseNs, linkByteNs } = constants;
  const gather = gatherTravel(payloadBytes, cluster, constants);
  const ring = ringTravel(wholeElements, cluster, constants, linkByteNs);
  return {
    travelled: gathered.length === 0 ? 'dense' : whole.length === 0 ? 'sparse' : 'mixed',
    computeMs: (factored * (lowRankEncodeNs + nodes * lowRankAddNs) + wholeElements * denseNs) / 1e6,
    travelMs: gather.travelMs + ring.travelMs,
    sentBytes: gather.sentBytes + ring.sentBytes,
  };
}

function sumOf<T>(all: readonly T[], value: (each: T) => number): number {
  return all.reduce((sum, each) => sum + value(each), 0);
}

/** How a training sends the entries over such links. */
function cheapestTravel({ values, tensors }: StepLoad, cluster: Cluster, constants: Constants) {
  const byteNs = Math.max(lineByteNs(cluster, constants), constants.linkByteNs);
  const links = roundedLinks({ byteNs, hopNs: constants.hopNs });
  return costOf([{ codec: { format: values }, tensors }], cluster.nodes, links).cheapest;
}

/** A compressed step in which all entries are gathered. */
function gatherTimes(
  { elements, entries, payloadBytes }: Pick<StepLoad, 'elements' | 'entries' | 'payloadBytes'>,
  cluster: Cluster,
  constants: Constants,
): Omit<ExchangeTimes, 'travelled'> {
  const { compressNs, averageNs, encodeNs, decodeNs } = constants;
  const computeNs = elements * (compressNs + averageNs) + entries * (encodeNs + cluster.nodes * decodeNs);
  return { computeMs: computeNs / 1e6, ...gatherTravel(payloadBytes, cluster, constants) };
}

/** An all-gather of payloads of so many bytes. */
function gatherTravel(payloadBytes: number, cluster: Cluster, constants: Constants): Travel {
  const { nodes } = cluster;
  const { hopNs, linkByteNs } = constants;
  const sentBytes = (nodes - 1) * payloadBytes;
  const travelNs =
    sentBytes * Math.max(lineByteNs(cluster, constants), linkByteNs) +
    hopsOf(nodes) * (hopNs + payloadBytes * linkByteNs);
  return { travelMs: travelNs / 1e6, sentBytes };
}

type Travel = Pick<ExchangeTimes, 'travelMs' | 'sentBytes'>;

/** The all-reduce of so many elements by the dense ring. `byteNs`: what a byte costs a rank. */
function ringTravel(
  elements: number,
  cluster: Cluster,
  constants: Constants,
  byteNs: number,
  elementBytes = 4,
): Travel {
  if (elements === 0) return { travelMs: 0, sentBytes: 0 };
  const { nodes } = cluster;
  const rounds = 2 * (nodes - 1);
  const chunkBytes = (elementBytes * elements) / nodes;
  const sentBytes = rounds * chunkBytes;
  const segments = new Chunks(elements, nodes, elementBytes).segmentCount;
  const together = Math.min(BLOCK_SEGMENTS, segments);
  const segmentNs = (chunkBytes / segments) * Math.max(lineByteNs(cluster, constants), byteNs);
  const blockNs = Math.max(together * segmentNs, segmentNs + constants.hopNs);
  return { travelMs: (rounds * segments * blockNs) / together / 1e6, sentBytes };
}

/** What a byte takes on a link. */
const lineByteNs = ({ bitsPerSecond }: Cluster, { lineShare }: Constants): number => 8e9 / (bitsPerSecond * lineShare);

/** How many hops a frame makes that all ranks receive: it travels in both directions. */
const hopsOf = (nodes: number): number => Math.ceil((nodes - 1) / 2);

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
