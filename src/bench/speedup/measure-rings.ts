import { availableParallelism, freemem } from 'node:os';
import { allOf } from '../../exchange/routes/route';
import { rounded } from '../statistics';
import { type ClusterLoad, type Constants, type ExchangeTimes, exchangeTimes, type MeasuredWay } from './cluster-model';
import { arrayCase, type Rings, sparseCase } from './rings';
import { standInFor, type Subject } from './subject';

/** A rate of links. */
export interface Rate {
  /** In the format of tc: `1gbit`. */
  readonly text: string;
  readonly bitsPerSecond: number;
}

/** A prediction of the model beside a measurement. */
export interface Check {
  readonly nodes: number;
  readonly way: MeasuredWay;
  readonly rate: string;
  /** The exchange of the real tensors, or only the way of its bytes through the ring. */
  readonly part: 'exchange' | 'travel';
  readonly predictedMs: number;
  /** The time of the fastest iteration. For the travel of DGC: of the one that all ranks began most nearly at once. */
  readonly measuredMs: number;
  /** measured ÷ predicted. */
  readonly ratio: number;
  readonly iterations: number;
  readonly predictedBytes: number;
  /** What a rank sent in an iteration, as it counted. */
  readonly sentBytes: number;
}

/** A ring that is to be measured. */
export interface RingToMeasure {
  readonly nodes: number;
  readonly way: MeasuredWay;
  readonly rate: Rate;
  readonly part: Check['part'];
  readonly predicted: ExchangeTimes;
}

/**
 * The rings that this host can run: the whole exchange at each of the rates, as long as each rank has a processor of
 * its own and the memory suffices; and, of rings of any size, the travel at the rate for that.
 *
 * @param sizes Of rings, each 2 or more.
 */
export function ringsToMeasure(
  sizes: readonly number[],
  rates: readonly Rate[],
  travelRate: Rate,
  load: ClusterLoad,
  constants: Constants,
): RingToMeasure[] {
  const fits = (nodes: number): boolean =>
    nodes <= availableParallelism() && nodes * load.elements * BYTES_AN_ELEMENT < freemem();
  const each = (part: Check['part'], rate: Rate, nodes: readonly number[]): RingToMeasure[] =>
    nodes.flatMap(of =>
      MEASURED.map(way => {
        const cluster = { nodes: of, bitsPerSecond: rate.bitsPerSecond };
        return { nodes: of, way, rate, part, predicted: exchangeTimes(way, load, cluster, constants) };
      }),
    );
  return [...rates.flatMap(rate => each('exchange', rate, sizes.filter(fits))), ...each('travel', travelRate, sizes)];
}

const MEASURED: readonly MeasuredWay[] = ['dense', 'dgc'];

/** What a rank with the whole model holds: g, u, v, room for entries, and the source of gradients. */
const BYTES_AN_ELEMENT = 24;

/** Measures one ring in the network lab. */
export async function measureRing(
  { nodes, way, rate, part, predicted }: RingToMeasure,
  { tensors, density, values }: Subject,
  { elements, dgc: load }: ClusterLoad,
  rings: Rings,
): Promise<Check> {
  const isExchange = part === 'exchange';
  const predictedMs = predictionOf(part, predicted);
  const iterations = iterationsOf(part, predictedMs);
  const ring = { ranks: nodes, rate: rate.text };
  let measuredMs: number;
  let sentBytes: number;
  if (!isExchange && predicted.travelled === 'dense') {
    // A short array first, while the code is compiled: a second round of the long one may take a minute.
    const cases = [arrayCase(Math.min(elements, WARM_UP_ELEMENTS), 3, 3), arrayCase(elements, iterations, 0)];
    const [, row] = await rings.run({ ...ring, collective: 'all-reduce', cases });
    measuredMs = row!.timeUs.min / 1e3;
    sentBytes = row!.wireBytesSent;
  } else {
    const real = { density: way === 'dgc' ? density : 1, values, way: predicted.travelled, tensors } as const;
    const { sparse, elements: count } = isExchange
      ? { elements, sparse: real }
      : predicted.travelled === 'mixed'
        ? standInFor(load.others.payloadBytes, load.whole.elements)
        : standInFor(allOf(load).payloadBytes);
    const [row] = await rings.run({
      ...ring,
      collective: 'sparse-all-reduce',
      cases: [sparseCase(count, sparse, iterations)],
    });
    measuredMs = isExchange ? row!.timeUs.min / 1e3 : row!.evenMs!.wire;
    sentBytes = row!.wireBytesSent;
  }
  return {
    ...{ nodes, way, rate: rate.text, part },
    ...{ predictedMs: rounded(predictedMs, 3), measuredMs: rounded(measuredMs, 3) },
    ...{ ratio: rounded(measuredMs / predictedMs, 3), iterations },
    ...{ predictedBytes: Math.round(predicted.sentBytes), sentBytes },
  };
}

/** How long the timed iterations of a ring will take. */
export function expectedMs({ part, predicted }: RingToMeasure): number {
  const predictedMs = predictionOf(part, predicted);
  return iterationsOf(part, predictedMs) * predictedMs;
}

function predictionOf(part: Check['part'], { computeMs, travelMs }: ExchangeTimes): number {
  return part === 'exchange' ? computeMs + travelMs : travelMs;
}

function iterationsOf(part: Check['part'], predictedMs: number): number {
  return Math.max(part === 'exchange' ? 5 : 1, Math.min(25, Math.round(ITERATIONS_MS / predictedMs)));
}

/** The timed iterations of a ring take about this long. */
const ITERATIONS_MS = 10_000;
const WARM_UP_ELEMENTS = 250_000;
