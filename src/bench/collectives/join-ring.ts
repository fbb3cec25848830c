import { setTimeout } from 'node:timers/promises';
import { Communicator } from '../../communicator/communicator';
import { signalExitCode } from '../../launcher/signals';
import type { CollectiveBenchmark, Plan } from './collective-benchmark';
import { runRank, type RunListener } from './run-rank';

/** The loss of a rank that dies of a signal may be noticed at most so long before this process gets the signal. */
const SIGNAL_MS = 200;

/**
 * Runs this process as one rank of the ring that the environment describes. Resolves with the exit code: 0; 1 if a
 * result of any rank was wrong; or 130 if rank 0 got SIGINT. The listener then has all rows that were measured.
 */
export async function joinRing(benchmark: CollectiveBenchmark, plan: Plan, listener: RunListener): Promise<number> {
  const communicator = await Communicator.connect(plan.links);
  const isFirst = communicator.rank === 0;
  let interrupted = false;
  const interrupt = (): void => void (interrupted = true);
  if (isFirst) process.on('SIGINT', interrupt);
  const proceed = (): void => {
    if (interrupted) throw new Error('SIGINT');
  };
  try {
    const { wrong } = await runRank(communicator, benchmark, plan, { ...listener, continue: proceed });
    await communicator.close();
    return wrong > 0 ? 1 : 0;
  } catch (error) {
    if (isFirst) await setTimeout(SIGNAL_MS);
    if (!interrupted) throw error;
    return signalExitCode('SIGINT');
  } finally {
    process.off('SIGINT', interrupt);
  }
}
