const { existsSync, readdirSync, rmSync } = require('node:fs');
const { processesOf } = require('./processes');

/**
 * What is left when all processes of a run should have ended, in words; folders in memory are removed.
 *
 * @param {import('./chaos-run').ChaosRun} run
 */
function leftovers({ folder, temporary, reports, late }) {
  const left = processesOf(folder).map(pid => `process ${pid} runs on`);
  const leftByKill = [];
  for (const report of [...reports, ...(late === undefined ? [] : [late])]) {
    for (const made of report.facts.flatMap(fact => fact.made ?? [])) {
      if (!existsSync(made)) continue;
      rmSync(made, { recursive: true });
      // Nobody can clean up after a process that is killed before its ring stands.
      const isForgiven = report.told('formed') === undefined && report.told('error') === undefined;
      if (isForgiven) leftByKill.push(made);
      else left.push(`${made} is there`);
    }
  }
  left.push(...readdirSync(temporary).map(name => `${name} is in the folder for temporary files`));
  return { left, leftByKill };
}

module.exports = { leftovers };
