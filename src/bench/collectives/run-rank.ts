import { ELEMENT_BYTES } from '../../collectives/element-type';
import type { Communicator } from '../../communicator/communicator';
import { rounded, timingsOf } from '../statistics';
import type { Case, CollectiveBenchmark, Plan, SparseSplit } from './collective-benchmark';
import { type Measured, measureCase } from './measure-case';
import type { CollectiveRow } from './row';

/** How far a run is. */
export interface RunProgress {
  /** The number of the case that runs now. */
  readonly row: number;
  /** How many of its iterations are done, with those of the warm-up. */
  readonly iterations: number;
}

/** Gets the results of rank 0. */
export interface RunListener {
  row(row: CollectiveRow): void;
  progress(progress: RunProgress): void;
  /** Called before each iteration. It may throw to end the run. */
  continue?(): void;
}

/** Progress is reported at most once in this time. */
const PROGRESS_MS = 200;

/** Runs all cases, one after the other, on this rank. All ranks must call it. Rank 0 reports to the listener. */
export async function runRank(
  communicator: Communicator,
  benchmark: CollectiveBenchmark,
  { cases, check, links: { transport } }: Plan,
  listener: RunListener,
): Promise<{ readonly wrong: number }> {
  const isFirst = communicator.rank === 0;
  let wrong = 0;
  let toldAt = -Infinity;
  for (const [row, measured] of cases.entries()) {
    const result = await measureCase(communicator, benchmark, measured, check, iterations => {
      if (!isFirst) return;
      listener.continue?.();
      if (performance.now() - toldAt < PROGRESS_MS) return;
      toldAt = performance.now();
      listener.progress({ row, iterations });
    });
    wrong += result.wrong;
    if (isFirst) {
      const ofRow = rowOf(benchmark, measured, communicator.worldSize, result);
      listener.row({ ...ofRow, transport, ...(check && { wrong: result.wrong }) });
    }
  }
  return { wrong };
}

function rowOf(
  { name, options, busFactor, algorithmFor }: CollectiveBenchmark,
  { elements, type, op, root, iterations, sparse }: Case,
  ranks: number,
  { timesMs, wireBytesSent, travelled, split, even, carriedBy }: Measured,
): Omit<CollectiveRow, 'transport'> {
  const bytes = elements * ELEMENT_BYTES[type];
  const { min, p50, p99 } = timingsOf(timesMs);
  const algbwGBps = bytes / (p50 * 1e6);
  return {
    collective: name,
    ranks,
    elements,
    bytes,
    ...(options.includes('type') && { type }),
    ...(options.includes('op') && { op }),
    ...(options.includes('root') && { root }),
    ...(sparse !== undefined && { density: sparse.density, values: sparse.values, way: sparse.way }),
    ...(travelled !== undefined && { travelled }),
    carriedBy,
    ...(algorithmFor !== undefined && ranks > 1 && { algorithm: algorithmFor(ranks, bytes) }),
    iterations,
    timeUs: { min: rounded(min * 1e3, 3), p50: rounded(p50 * 1e3, 3), p99: rounded(p99 * 1e3, 3) },
    algbwGBps: sixDigits(algbwGBps),
    busbwGBps: sixDigits(algbwGBps * busFactor(ranks)),
    ...(split !== undefined && { timesMs: microseconds(split) }),
    ...(even !== undefined && { evenMs: microseconds(even) }),
    wireBytesSent,
  };
}

/** Four bytes in a slow call are a billionth of the rate of megabytes: decimals would leave few digits of it. */
const sixDigits = (rate: number): number => Number(rate.toPrecision(6));

/** Rounded to whole microseconds. */
function microseconds({ compress, encode, wait, wire, decode }: SparseSplit): SparseSplit {
  const r = (ms: number): number => rounded(ms, 3);
  return { compress: r(compress), encode: r(encode), wait: r(wait), wire: r(wire), decode: r(decode) };
}
