import { ENTRY_ROUTES, type EntryRoute } from '../../compression/dgc-options';
import { allOf } from '../../exchange/routes/route';
import {
  type Cluster,
  type ClusterLoad,
  type Constants,
  type ExchangeTimes,
  routeInTraining,
  routeTimes,
} from '../speedup/cluster-model';
import { type Rings, sparseCase } from '../speedup/rings';
import { loadOf, type Subject } from '../speedup/subject';
import { elementCountOf } from '../models/tensor-shape';
import { rounded } from '../statistics';

/** The links between the ranks. */
export interface ScaleLinks {
  /** In each direction, such as `1gbit`. */
  readonly linkRate: string;
  readonly bitsPerSecond: number;
  /** What is added to the time of each message, such as `5ms`. */
  readonly linkDelay: string | undefined;
  readonly delayMs: number;
}

/** A step on one route, as the model expects it. */
export interface RouteRow {
  readonly ranks: number;
  readonly route: EntryRoute;
  /** Whether a training takes this route. */
  readonly isChosen: boolean;
  /** What a rank computes by itself, and from the first message to the last. */
  readonly computeMs: number;
  readonly travelMs: number;
  readonly exchangeMs: number;
  /** By one rank. */
  readonly sentBytes: number;
}

/** The model beside a measurement: how the frames of {@link MEASURED_STEP} travel. */
export interface RouteCheck {
  readonly ranks: number;
  readonly route: EntryRoute;
  readonly expectedMs: number;
  /** Of the fastest step, of that half which all ranks began most nearly at once. */
  readonly measuredMs: number;
  /** How much more (or, below 0, less) the model expects than was measured, in per cent. */
  readonly timeErrorPercent: number;
  readonly iterations: number;
  readonly expectedBytes: number;
  /** As the rank counted that sent the most. */
  readonly measuredBytes: number;
  readonly bytesErrorPercent: number;
}

/**
 * The step that is measured. All ranks share the processors of one host, so it is small, and its links are slow. What
 * travels takes the ring far longer than the processors need for it, on each of the routes, and with up to 64 ranks.
 * The second tensor is sent whole; it is just too long to be gathered.
 */
export const MEASURED_STEP: Subject = {
  tensors: [
    { name: 'weight', shape: [450, 500] },
    { name: 'bias', shape: [25_000] },
  ],
  density: 0.04,
  values: 'float16',
};

/** All routes whose cost is known, for each number of ranks. */
export function rowsOf(
  ranks: readonly number[],
  load: ClusterLoad,
  links: ScaleLinks,
  constants: Constants,
): RouteRow[] {
  return ranks.flatMap(of => {
    const cluster = clusterOf(of, links);
    const chosen = routeInTraining(load, cluster, constants);
    return expectedOf(load, cluster, constants).map(({ travelled: route, computeMs, travelMs, sentBytes }) => ({
      ...{ ranks: of, route, isChosen: route === chosen },
      ...{ computeMs: rounded(computeMs, 3), travelMs: rounded(travelMs, 3) },
      ...{ exchangeMs: rounded(computeMs + travelMs, 3), sentBytes: Math.round(sentBytes) },
    }));
  });
}

function clusterOf(nodes: number, { bitsPerSecond, delayMs }: ScaleLinks): Cluster {
  return { nodes, bitsPerSecond, delayMs };
}

function expectedOf(load: ClusterLoad, cluster: Cluster, constants: Constants): ExchangeTimes[] {
  return ENTRY_ROUTES.flatMap(route => routeTimes(route, load, cluster, constants) ?? []);
}

/** A ring that is to be measured. */
export interface RingToMeasure {
  readonly ranks: number;
  readonly links: ScaleLinks;
  readonly expected: readonly ExchangeTimes[];
}

/**
 * The rings of those sizes over links that gradring itself slows down. Such links are given the bytes of frames only,
 * so all of their rate is left to data.
 */
export function ringsToMeasure(sizes: readonly number[], links: ScaleLinks, constants: Constants): RingToMeasure[] {
  const load = loadOf(MEASURED_STEP);
  const paced = { ...constants, lineShare: 1 };
  return sizes.map(ranks => ({ ranks, links, expected: expectedOf(load, clusterOf(ranks, links), paced) }));
}

/** Measures a ring of rank processes, on each of its routes. */
export async function measureRing({ ranks, links, expected }: RingToMeasure, rings: Rings): Promise<RouteCheck[]> {
  const { tensors, density, values } = MEASURED_STEP;
  const { linkRate, linkDelay } = links;
  const rows = await rings.run({
    ...{ ranks, links: { linkRate, ...(linkDelay && { linkDelay }) }, collective: 'sparse-all-reduce' },
    cases: expected.map(times =>
      sparseCase(
        elementCountOf(tensors),
        { density, values, way: times.travelled, tensors },
        iterationsOf(times),
        WARM_UP,
      ),
    ),
  });
  return expected.map(({ travelled: route, travelMs, sentBytes }, i) => {
    const { evenMs, wireBytesSent, iterations } = rows[i]!;
    const measuredMs = evenMs!.wire;
    return {
      ...{ ranks, route, expectedMs: rounded(travelMs, 3), measuredMs, iterations },
      timeErrorPercent: errorPercent(travelMs, measuredMs),
      ...{ expectedBytes: Math.round(sentBytes), measuredBytes: wireBytesSent },
      bytesErrorPercent: errorPercent(sentBytes, wireBytesSent),
    };
  });
}

function errorPercent(expected: number, measured: number): number {
  return rounded(100 * (expected / measured - 1), 1);
}

/** How long a ring is expected to take, its start included, in s. */
export function secondsOf({ ranks, expected }: RingToMeasure): number {
  const stepsMs = expected.map(times => (iterationsOf(times) + WARM_UP) * times.travelMs);
  return START_S + ranks / 4 + stepsMs.reduce((sum, ms) => sum + ms, 0) / 1e3;
}

function iterationsOf({ travelMs }: ExchangeTimes): number {
  return Math.max(3, Math.min(15, Math.round(ITERATIONS_MS / travelMs)));
}

/** The timed steps of a route take about this long. */
const ITERATIONS_MS = 6_000;
const WARM_UP = 2;
const START_S = 3;

/** What a measured step sends, in words. */
export function measuredStepWords(): string {
  const { whole, others } = loadOf(MEASURED_STEP).dgc;
  const count = (value: number): string => value.toLocaleString('en-US');
  const { elements, payloadBytes } = allOf({ whole, others });
  return `${count(elements)} elements, ${count(whole.elements)} of them sent whole, density ${MEASURED_STEP.density}: a payload of ${count(payloadBytes)} bytes`;
}
