import { existsSync, readdirSync, rmSync } from 'node:fs';
import type { Plan } from './plan';
import { processesOf } from './processes';
import type { ReportFile } from './report-file';

/** What a run leaves traces of. */
export interface LeavingRun {
  readonly plan: Plan;
  readonly folder: string;
  /** The folder for its temporary files. */
  readonly temporary: string;
  readonly reports: readonly ReportFile[];
  readonly late: ReportFile | undefined;
  readonly launcherReport: ReportFile;
  readonly lossTime: number | undefined;
}

/** What is left of a run, in words: what should not be, and what nobody was left to remove. */
export interface Leftovers {
  readonly left: string[];
  readonly leftByKill: string[];
}

/** What is left when all processes of a run should have ended; folders in memory are removed. */
export function leftovers(run: LeavingRun): Leftovers {
  const { folder, temporary, reports, late, launcherReport } = run;
  const left = processesOf(folder).map(pid => `process ${pid} runs on`);
  // Nobody can clean up after a rank without a launcher that is killed before its ring stands.
  const leftByKill: string[] = [];
  for (const { made } of launcherReport.facts) {
    if (made === undefined || !existsSync(made)) continue;
    rmSync(made, { recursive: true });
    // Nor for a launcher that is killed before its first rank runs, or when its ranks are ending by themselves.
    const noneBegan = reports.every(({ facts }) => facts.length === 0);
    if (noneBegan || reports.every((report, rank) => wasEnding(run, report, rank))) leftByKill.push(made);
    else left.push(`${made} of the launcher is there`);
  }
  for (const { facts } of [...reports, ...(late === undefined ? [] : [late])].flatMap(report => report.lives)) {
    for (const [i, { made }] of facts.entries()) {
      if (made === undefined || !existsSync(made)) continue;
      rmSync(made, { recursive: true });
      const isForgiven = !facts.slice(i).some(fact => 'formed' in fact || 'step' in fact || 'error' in fact);
      if (isForgiven) leftByKill.push(made);
      else left.push(`${made} is there`);
    }
  }
  left.push(...readdirSync(temporary).map(name => `${name} is in the folder for temporary files`));
  return { left, leftByKill };
}

function wasEnding({ plan, lossTime = -Infinity }: LeavingRun, report: ReportFile, rank: number): boolean {
  const doneAt = report.toldAt('done') ?? report.toldAt('error');
  return plan.leaves[rank] !== 'stay' && doneAt !== undefined && doneAt <= lossTime;
}
