import { instantiateMeasuredKernels } from '../stream-floor';
import { SharedHeap } from '../../memory/shared-heap';
import { allOf } from '../../exchange/routes/route';
import { sentCount } from '../../compression/sparsity-schedule';
import { measureDecoding } from '../decode-measurement';
import { measureLowRank } from '../low-rank-measurement';
import { rounded } from '../statistics';
import type { ClusterLoad, Constants } from './cluster-model';
import { arrayCase, type Rings, sparseCase } from './rings';
import { lowRankNumbers, standInFor, type Subject } from './subject';

/** TCP's share of the rate of a link, where it could not be measured: 1448 bytes of an Ethernet frame of 1514. */
const TCP_SHARE = 1448 / 1514;

/** Where decoding is measured, a tensor of at most this many elements, from one and from many ranks. */
const DECODED = { elements: 16e6, ranks: [1, 64] } as const;
/** The cost of a byte is the difference of two times ÷ the difference of two lengths. */
const PAYLOAD_BYTES = [64 * 1024, 2 * 1024 * 1024];
/** The array with which the dense ring and the links are measured, in elements. */
const RING_ELEMENTS = 16e6;
const LAB_ELEMENTS = 2e6;

/**
 * Measures the constants of the model on this machine. Computing is measured on one rank alone, over the real tensors;
 * what a hop and a byte cost, between two ranks on the loopback interface. Other work on the host only adds to these
 * times, so the least of several is taken; but of a hop the median.
 *
 * @param labRate The rate of links in a network lab, to measure what part of it is left to data. Undefined if there is
 *   no lab: then it is what the headers of TCP and Ethernet leave.
 */
export async function calibrate(
  subject: Subject,
  { elements, dgc: load }: ClusterLoad,
  rings: Rings,
  labRate: { readonly text: string; readonly bitsPerSecond: number } | undefined,
  say: (what: string) => void,
): Promise<Constants> {
  const { entries } = allOf(load);
  const { tensors, density, values } = subject;
  say('compression on one rank');
  const alone = { ranks: 1, collective: 'sparse-all-reduce' } as const;
  const [dgc] = await rings.run({
    ...alone,
    cases: [sparseCase(elements, { density, values, way: 'sparse', tensors }, STEPS)],
  });
  say('a dense step on one rank');
  const [dense] = await rings.run({
    ...alone,
    cases: [sparseCase(elements, { density: 1, values, way: 'dense', tensors }, STEPS)],
  });
  say('decoding');
  const decodeNs = await decodeNsOf(subject, elements);
  say('low rank');
  const lowRank = await lowRankTimesOf(subject);
  say('a hop between two ranks');
  const [hop] = await rings.run({ ranks: 2, collective: 'barrier', cases: [arrayCase(0, 100, 50)] });
  say('payloads between two ranks');
  const [short, long] = await rings.run({
    ranks: 2,
    collective: 'sparse-all-reduce',
    cases: PAYLOAD_BYTES.map(bytes => standInFor(bytes)).map(({ elements, sparse }) =>
      sparseCase(elements, sparse, 30, 20),
    ),
  });
  say('a dense array between two ranks');
  const [ring] = await rings.run({
    ranks: 2,
    collective: 'all-reduce',
    cases: [arrayCase(Math.min(elements, RING_ELEMENTS), 9, 5)],
  });
  say('a link of the network lab');
  const link =
    labRate &&
    (await rings.run({
      ...{ ranks: 2, rate: labRate.text, collective: 'all-reduce' },
      cases: [arrayCase(Math.min(elements, LAB_ELEMENTS), 3)],
    }));

  const hopNs = hop!.timeUs.p50 * 1e3;
  const own = dgc!.evenMs!;
  const plain = dense!.evenMs!;
  const each = {
    compressNs: (own.compress * 1e6) / elements,
    encodeNs: (own.encode * 1e6) / entries,
    decodeNs,
    averageNs: Math.max(0, own.decode * 1e6 - decodeNs * entries) / elements,
    denseNs: ((plain.compress + plain.decode) * 1e6) / elements,
    ...lowRank,
    hopNs,
    linkByteNs:
      Math.max(0, (long!.evenMs!.wire - short!.evenMs!.wire) * 1e6) / (long!.wireBytesSent - short!.wireBytesSent),
    ringByteNs: (ring!.timeUs.min * 1e3) / ring!.wireBytesSent,
  };
  const lineShare = link && (link[0]!.wireBytesSent * 8e6) / (link[0]!.timeUs.min * labRate.bitsPerSecond);
  const constants = Object.entries({ ...each, lineShare: lineShare ?? TCP_SHARE });
  return Object.fromEntries(constants.map(([name, value]) => [name, rounded(value, 4)])) as unknown as Constants;
}

const STEPS = 9;

/** How often the cases are measured whose times are subtracted from each other. */
const TURNS = 3;

/** The matrix with which low rank is timed, from one and from several ranks. */
const FACTORED = { rows: 1024, columns: 1024, ranks: [1, 5] } as const;

async function lowRankTimesOf({ tensors, density }: Subject) {
  const heap = new SharedHeap();
  const kernels = instantiateMeasuredKernels(heap.memory);
  const { rank } = lowRankNumbers(tensors);
  const [one, many] = await leastByTurns(FACTORED.ranks, async ranks => {
    const measured = { ...FACTORED, ranks, rank, density, iterations: STEPS, seed: 1 };
    const { timeMs } = await measureLowRank(heap, kernels, measured);
    return (timeMs.min * 1e6) / (FACTORED.rows * FACTORED.columns);
  });
  const lowRankAddNs = Math.max(0, many - one) / (FACTORED.ranks[1] - FACTORED.ranks[0]);
  return { lowRankEncodeNs: one - lowRankAddNs, lowRankAddNs };
}

/** The time of an entry: what more payloads take longer than one. */
async function decodeNsOf({ density, values }: Subject, modelElements: number): Promise<number> {
  const heap = new SharedHeap();
  const kernels = instantiateMeasuredKernels(heap.memory);
  const elements = Math.min(modelElements, DECODED.elements);
  const [one, many] = await leastByTurns(DECODED.ranks, ranks => {
    const measured = { elements, density, ranks, format: values, iterations: STEPS, seed: 1 };
    return measureDecoding(heap, kernels, measured).timeMs.min;
  });
  const entries = sentCount(elements, density) * (DECODED.ranks[1] - DECODED.ranks[0]);
  return Math.max(0, (many - one) * 1e6) / entries;
}

/** Measures both cases by turns, so that both meet the same load of the machine. Returns the least of each. */
async function leastByTurns<Case>(
  cases: readonly [Case, Case],
  measure: (each: Case) => number | Promise<number>,
): Promise<[number, number]> {
  const least: [number, number] = [Infinity, Infinity];
  for (let turn = 0; turn < TURNS; turn++) {
    for (const [i, each] of cases.entries()) least[i] = Math.min(least[i]!, await measure(each));
  }
  return least;
}
