import type { Fault, Plan } from './plan';
import type { ReportFile, ToldError } from './report-file';
import { FAULT_KINDS } from './fault-kinds';

/**
 * Whether all ranks that can still hear each other tell the same error: its code, and the rank that it names. Where the
 * ring is broken in two places, each part agrees by itself.
 *
 * @param reports By rank.
 * @param mayDiffer Errors that the docs except.
 * @returns What is not as it should be.
 */
export function disagreements(
  plan: Plan,
  reports: readonly ReportFile[],
  mayDiffer: (rank: number, error: ToldError) => boolean,
): string[] {
  if (plan.faults.some(({ kind }) => FAULT_KINDS[kind].outcome === 'end')) return [];
  return partsOf(plan, reports).flatMap(part => {
    const told = part.flatMap(rank => {
      const error = reports[rank].told('error');
      return error === undefined || mayDiffer(rank, error)
        ? []
        : [{ rank, words: `${error.code} of rank ${error.blamed}` }];
    });
    const other = told.find(({ words }) => words !== told[0].words);
    if (other === undefined) return [];
    return [`rank ${told[0].rank} tells of ${told[0].words}, but rank ${other.rank} of ${other.words}`];
  });
}

/**
 * The ranks that can hear each other: the ring without the ranks that are gone, and if there are any, without a link
 * that is cut.
 */
function partsOf({ ranks, faults }: Plan, reports: readonly ReportFile[]): number[][] {
  const gone = goneOf(faults, reports);
  const cut =
    gone.length === 0 ? [] : faults.filter(({ kind }) => FAULT_KINDS[kind].link).map(({ ranks: [rank] }) => rank);
  const parts: number[][] = [[]];
  for (let i = 0; i < ranks; i++) {
    const rank = ((gone[0] ?? 0) + i) % ranks;
    if (gone.includes(rank) || cut.includes(rank)) parts.push([]);
    if (!gone.includes(rank)) parts.at(-1)!.push(rank);
  }
  return parts;
}

/** Those that died, and those that left because they had done all. */
export function goneOf(faults: readonly Fault[], reports: readonly ReportFile[]): number[] {
  const struck = faults.filter(({ kind }) => FAULT_KINDS[kind].ends).flatMap(fault => fault.ranks);
  return [...reports.keys()].filter(rank => struck.includes(rank) || reports[rank].told('done') !== undefined);
}
