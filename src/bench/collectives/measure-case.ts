import { setImmediate } from 'node:timers/promises';
import type { Communicator } from '../../communicator/communicator';
import type { StepTimes } from '../../exchange/messages';
import { percentile, smallest } from '../statistics';
import type { Case, CollectiveBenchmark, CollectiveName, SparseDetails, SparseSplit } from './collective-benchmark';
import { mediaOfAll, type Medium } from './media';

/** What one rank measured. */
export interface Measured {
  /** The time of each iteration on this rank. */
  readonly timesMs: readonly number[];
  /** Bytes that a rank sent for one operation, the largest over the ranks. */
  readonly wireBytesSent: number;
  /** How many elements of all ranks are wrong. */
  readonly wrong: number;
  /** What carried the data of any rank. */
  readonly carriedBy: readonly Medium[];
  /** How the entries of a sparse all-reduce were sent. */
  readonly travelled?: SparseDetails['travelled'];
  /** Medians of the parts of a sparse all-reduce on this rank. */
  readonly split?: SparseSplit;
  /** The parts of the fastest one, of that half for which the ranks were ready most nearly at once. */
  readonly even?: SparseSplit;
}

/** What travels over the links. The rest is bulk, and so is a sparse all-reduce that turns out to be dense. */
const BY_LINKS: readonly CollectiveName[] = ['barrier', 'send', 'sparse-all-reduce'];

/** The event loop gets a turn at least this often, so that the process can be interrupted. */
const TURN_MS = 50;

/**
 * Runs one case. All ranks must call it. Each iteration is timed alone, after the ranks have waited for each other. The
 * results of the warm-up and of one iteration after the timed ones are checked, unless nothing is to be. Timed
 * iterations follow each other without a pause, because an idle processor wakes up slowly. So do those of a longer
 * warm-up, because the system then stops moving threads between cores.
 *
 * @param onIteration Called now and then with the number of iterations that are done, of those that the case names. It
 *   may throw to stop the run.
 */
export async function measureCase(
  communicator: Communicator,
  benchmark: CollectiveBenchmark,
  measured: Case,
  check: boolean,
  onIteration: (iteration: number) => void,
): Promise<Measured> {
  const prepared = benchmark.prepare(communicator, measured);
  const timesMs: number[] = [];
  const details: SparseDetails[] = [];
  let wrong = 0;
  let sent = 0;
  // The ranks meet by the path that the measured call takes (bulk or links). The other one would wake other threads.
  const nothing = new Uint8Array(1);
  const isBulk = !BY_LINKS.includes(benchmark.name);
  const meet = () => (isBulk ? void communicator.allReduceSync(nothing) : communicator.barrierSync());
  try {
    let { warmUp } = measured;
    const startedAt = performance.now();
    let warmUntil: number | undefined;
    let turnedAt = -Infinity;
    for (let iteration = 0; iteration < warmUp + measured.iterations + Number(check); iteration++) {
      if (performance.now() - turnedAt > TURN_MS) {
        await setImmediate();
        onIteration(Math.min(iteration, measured.warmUp) + Math.max(0, iteration - warmUp));
        turnedAt = performance.now();
      }
      if (iteration === warmUp && iteration > 0 && measured.warmUpMs > 0) {
        warmUntil ??= performance.now() + measured.warmUpMs;
        const meanMs = (performance.now() - startedAt) / iteration;
        const wanted = Math.ceil((warmUntil - performance.now()) / meanMs);
        warmUp += toldByFirst(communicator, Math.max(0, Math.min(wanted, measured.warmUp)));
      }
      const last = warmUp + measured.iterations;
      const isTimed = iteration >= warmUp && iteration < last;
      const isChecked = check && (iteration < measured.warmUp || iteration === last);
      if (isChecked || iteration === 0 || prepared.details !== undefined) prepared.fill(iteration);
      meet();
      const sentBefore = communicator.traffic.bytesSent;
      const started = performance.now();
      prepared.run();
      const ended = performance.now();
      if (isChecked) wrong += prepared.countWrong(iteration);
      if (!isTimed) continue;
      timesMs.push(ended - started);
      sent += communicator.traffic.bytesSent - sentBefore;
      if (prepared.details !== undefined) details.push(prepared.details());
    }
  } finally {
    prepared.release();
  }
  const media = await communicator.media();
  const travelled = details.at(-1)?.travelled;
  const byLinks = !isBulk && travelled !== 'dense';
  const all = communicator.allGatherSync(Float64Array.of(wrong, sent / measured.iterations));
  return {
    timesMs,
    wrong: all.reduce((sum, [ofRank]) => sum + ofRank!, 0),
    carriedBy: mediaOfAll(communicator, byLinks ? media.links : media.bulk),
    wireBytesSent: Math.round(Math.max(...all.map(([, ofRank]) => ofRank!))),
    ...(details.length > 0 && {
      travelled: travelled!,
      ...splitOf(
        communicator,
        details.map(({ timesMs }) => timesMs),
        timesMs,
      ),
    }),
  };
}

/** The number of rank 0. All ranks must call it. */
function toldByFirst(communicator: Communicator, own: number): number {
  return communicator.broadcastSync(Float64Array.of(own))[0]!;
}

/** Medians of the parts of the steps, and the parts of a fast and even one. All ranks must call it. */
function splitOf(
  communicator: Communicator,
  steps: readonly StepTimes[],
  timesMs: readonly number[],
): { readonly split: SparseSplit; readonly even: SparseSplit } {
  const ready = communicator.allGatherSync(Float64Array.from(steps, ({ compress, encode }) => compress + encode));
  const splits = steps.map(({ travel, ...stages }, i): SparseSplit => {
    const slowest = Math.max(...ready.map(ofRank => ofRank[i]!));
    const wait = Math.min(travel, slowest - ready[communicator.rank]![i]!);
    return { ...stages, wait, wire: travel - wait };
  });
  const median = (stage: keyof SparseSplit): number =>
    percentile(
      splits.map(split => split[stage]),
      50,
    );
  const split = {
    compress: median('compress'),
    encode: median('encode'),
    wait: median('wait'),
    wire: median('wire'),
    decode: median('decode'),
  };
  const unevenness = steps.map((_, i) => {
    const ofRanks = ready.map(ofRank => ofRank[i]!);
    return Math.max(...ofRanks) - Math.min(...ofRanks);
  });
  const most = percentile(unevenness, 50);
  const times = timesMs.map((ms, i) => (unevenness[i]! <= most ? ms : Infinity));
  return { split, even: splits[times.indexOf(smallest(times))]! };
}
