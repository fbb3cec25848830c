const { existsSync, readdirSync, rmSync } = require('node:fs');
const { processesOf } = require('./processes');

/**
 * What is left when all processes of a run should have ended, in words; folders in memory are removed.
 *
 * @param {import('./chaos-run').ChaosRun} run
 */
function leftovers(run) {
  const { folder, temporary, reports, late, launcherReport } = run;
  const left = processesOf(folder).map(pid => `process ${pid} runs on`);
  // Nobody can clean up after a rank without a launcher that is killed before its ring stands.
  const leftByKill = [];
  for (const { made } of launcherReport.facts) {
    if (made === undefined || !existsSync(made)) continue;
    rmSync(made, { recursive: true });
    // Nor for a launcher that is killed when its ranks are ending by themselves.
    if (reports.every((report, rank) => wasEnding(run, report, rank))) leftByKill.push(made);
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

function wasEnding({ plan, lossTime }, report, rank) {
  const doneAt = report.toldAt('done') ?? report.toldAt('error');
  return plan.leaves[rank] !== 'stay' && doneAt !== undefined && doneAt <= lossTime;
}

module.exports = { leftovers };
