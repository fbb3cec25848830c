import { setImmediate } from 'node:timers/promises';
import type { Communicator } from '../../communicator/communicator';
import type { StepTimes } from '../../communicator/thread-protocol';
import { percentile } from '../statistics';
import type { Case, CollectiveBenchmark, SparseDetails, SparseSplit } from './collective-benchmark';

/** What a case gave, seen from one rank. */
export interface Measured {
  /** This rank's time of each iteration. */
  readonly timesMs: readonly number[];
  /** Bytes that a rank sent for one operation, the largest over the ranks. */
  readonly wireBytesSent: number;
  /** Wrong elements of all ranks. */
  readonly wrong: number;
  /** How the entries of a sparse all-reduce travelled. */
  readonly travelled?: SparseDetails['travelled'];
  /** Medians of this rank's parts of it. */
  readonly split?: SparseSplit;
}

/**
 * Runs one case; to be called on all ranks. Each iteration follows a barrier and is timed by itself. Results of the warm-up are checked
 * too, but not timed. The event loop turns before each iteration.
 *
 * @param onIteration Told before each; it may throw to stop here.
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
  try {
    for (let iteration = 0; iteration < measured.warmUp + measured.iterations; iteration++) {
      await setImmediate();
      onIteration(iteration);
      prepared.fill(iteration);
      communicator.barrierSync();
      const sentBefore = communicator.traffic.bytesSent;
      const started = performance.now();
      prepared.run();
      const ended = performance.now();
      const sentNow = communicator.traffic.bytesSent - sentBefore;
      if (check) wrong += prepared.countWrong(iteration);
      if (iteration < measured.warmUp) continue;
      timesMs.push(ended - started);
      sent += sentNow;
      if (prepared.details !== undefined) details.push(prepared.details());
    }
  } finally {
    prepared.release();
  }
  const all = communicator.allGatherSync(Float64Array.of(wrong, sent / measured.iterations));
  return {
    timesMs,
    wrong: all.reduce((sum, [ofRank]) => sum + ofRank!, 0),
    wireBytesSent: Math.round(Math.max(...all.map(([, ofRank]) => ofRank!))),
    ...(details.length > 0 && {
      travelled: details.at(-1)!.travelled,
      split: splitOf(
        communicator,
        details.map(({ timesMs }) => timesMs),
      ),
    }),
  };
}

/** Medians of the parts of the steps; to be called on all ranks. */
function splitOf(communicator: Communicator, steps: readonly StepTimes[]): SparseSplit {
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
  return {
    compress: median('compress'),
    encode: median('encode'),
    wait: median('wait'),
    wire: median('wire'),
    decode: median('decode'),
  };
}
