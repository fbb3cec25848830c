import { setTimeout as sleep } from 'node:timers/promises';
import { FAULT_KINDS } from './fault-kinds';
import type { CutLink } from './cut-link';
import type { Fault, Plan } from './plan';
import type { ReportFile } from './report-file';
import { LAUNCHER, type RunProcesses } from './run-processes';

export const POLL_MS = 5;

/** What a fault can strike. */
export interface StruckRun {
  readonly plan: Pick<Plan, 'ranks'>;
  readonly processes: Pick<RunProcesses, 'hasEnded' | 'pidOf' | 'signal'>;
  /** By the rank at the right end. */
  readonly links: ReadonlyMap<number, Pick<CutLink, 'strike'>>;
  readonly reports: readonly Pick<ReportFile, 'hashes' | 'told'>[];
  /** A `performance.now()`. */
  readonly startedAt: number;
  readonly ranksHaveEnded: boolean;
  /** Called when ranks are about to be lost. */
  noteLoss(): void;
  /** Starts a second process with that rank. */
  startLate(rank: number): void;
}

/**
 * Waits until a fault is due, and makes it happen. Settles when it is over. Returns false if nothing was left that it
 * could strike.
 */
export async function strike(run: StruckRun, fault: Fault): Promise<boolean> {
  if (!(await untilDue(run, fault)) || !canStrike(run, fault)) return false;
  await happen(run, fault);
  return true;
}

async function happen(run: StruckRun, fault: Fault): Promise<void> {
  const { kind, ranks, forMs } = fault;
  const { byRank, outcome } = FAULT_KINDS[kind];
  if (outcome !== 'success') run.noteLoss();
  if (byRank) return;
  const signal = (name: NodeJS.Signals) => ranks.forEach(rank => run.processes.signal(rank, name));
  switch (kind) {
    case 'kill':
    case 'kill two':
      return signal('SIGKILL');
    case 'kill launcher':
      return run.processes.signal(LAUNCHER, 'SIGKILL');
    case 'end launcher':
      return run.processes.signal(LAUNCHER, 'SIGTERM');
    case 'stop':
      return signal('SIGSTOP');
    case 'stop briefly':
    case 'stop for long':
      signal('SIGSTOP');
      await sleep(forMs);
      return signal('SIGCONT');
    case 'restart':
      signal('SIGKILL');
      await sleep(forMs);
      return run.startLate(ranks[0]!);
    case 'twin':
      return run.startLate(ranks[0]!);
    default:
      return run.links.get(ranks[0]!)?.strike(kind, forMs);
  }
}

/** Whether what it strikes is still there: both ends of a link, the launcher, or one of the ranks. */
function canStrike({ plan, processes }: StruckRun, { kind, ranks }: Fault): boolean {
  const { byRank, link, outcome } = FAULT_KINDS[kind];
  const isThere = (number: number) => !processes.hasEnded(number);
  if (byRank || kind === 'nothing') return true;
  if (outcome === 'end') return isThere(LAUNCHER);
  return link ? isThere(ranks[0]!) && isThere((ranks[0]! + plan.ranks - 1) % plan.ranks) : ranks.some(isThere);
}

/** False if all ranks ended before. */
async function untilDue(run: StruckRun, { kind, ranks, at }: Fault): Promise<boolean> {
  const isDue = () => {
    if (FAULT_KINDS[kind].byRank) return ranks.some(rank => run.reports[rank]!.told('suffers') !== undefined);
    if ('step' in at) return run.reports.some(({ hashes }) => (hashes.at(-1)?.step ?? -1) >= at.step);
    // A launcher's ranks may not be there yet.
    return (
      performance.now() >= run.startedAt + at.startMs && ranks.every(rank => run.processes.pidOf(rank) !== undefined)
    );
  };
  while (!isDue()) {
    if (run.ranksHaveEnded) return false;
    await sleep(POLL_MS);
  }
  if (!FAULT_KINDS[kind].byRank && 'step' in at) await sleep(at.afterMs);
  return true;
}
