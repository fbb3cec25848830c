import { GradringError } from '../../errors';
import type { Encryption } from '../../environment/rank-options';
import type { Case, Plan, SparseCase } from '../collectives/collective-benchmark';
import type { CollectiveRow } from '../collectives/row';
import { startRanks } from '../collectives/start-ranks';
import type { Progress } from '../progress';

/** The ranks of a ring did not come to their end. */
export class RingEnded extends Error {
  constructor(readonly exitCode: number) {
    super(`The ranks of a ring ended with exit code ${exitCode}.`);
  }
}

/** Runs what needs rings. Returns its exit code (0 if it has none), or that of the ring that has ended it. */
export async function exitCodeOf(run: () => Promise<number | void>): Promise<number> {
  try {
    return (await run()) ?? 0;
  } catch (error) {
    if (error instanceof RingEnded) return error.exitCode;
    throw error;
  }
}

/** A ring of rank processes on this host, and what it measures. */
export interface RingRun {
  readonly ranks: number;
  /** The rate of the links in a network lab, in the format of tc. Undefined for TCP on the loopback interface. */
  readonly rate?: string;
  /** What slows the links down outside of a lab, as the options of a rank say it. */
  readonly links?: Pick<Plan['links'], 'linkRate' | 'linkDelay'>;
  readonly collective: Plan['collective'];
  readonly cases: readonly Case[];
}

/** Runs rings, one after the other. */
export class Rings {
  /** @param encryption Of TCP between the ranks. */
  constructor(
    private readonly encryption: Encryption,
    private readonly progress: Progress,
  ) {}

  /** One row for each case. @throws RingEnded, after what the ranks have said about it. */
  async run({ ranks, rate, links, collective, cases }: RingRun): Promise<CollectiveRow[]> {
    const rows: CollectiveRow[] = [];
    const stderr = this.progress.stderr();
    const own = { transport: 'tcp', encryption: this.encryption, ...links } as const;
    const plan: Plan = { collective, cases, links: own, check: false };
    const listener = { row: (row: CollectiveRow) => void rows.push(row), progress: () => {} };
    const exitCode = await startRanks(plan, { ranks, netlabRate: rate, stderr }, listener);
    if (exitCode !== 0) throw new RingEnded(exitCode);
    if (rows.length === cases.length) return rows;
    throw new GradringError('ERR_RANK_FAILED', `A ring of ${ranks} ranks ended without its results.`);
  }
}

/** An array of that many float32 elements. */
export function arrayCase(elements: number, iterations: number, warmUp = 1): Case {
  return { elements, type: 'float32', op: 'sum', root: 0, warmUp, warmUpMs: 0, iterations };
}

/** A step of DGC, or one without compression at density 1. */
export function sparseCase(elements: number, sparse: SparseCase, iterations: number, warmUp = 3): Case {
  return { ...arrayCase(elements, iterations, warmUp), sparse };
}
