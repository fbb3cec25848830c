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
  for (const { facts } of [...reports, ...(late === undefined ? [] : [late])].flatMap(report => report.lives)) {
    for (const [i, { made }] of facts.entries()) {
      if (made === undefined || !existsSync(made)) continue;
      rmSync(made, { recursive: true });
      // Nobody can clean up after a process that is killed before its ring stands.
      const isForgiven = !facts.slice(i).some(fact => 'formed' in fact || 'step' in fact || 'error' in fact);
      if (isForgiven) leftByKill.push(made);
      else left.push(`${made} is there`);
    }
  }
  left.push(...readdirSync(temporary).map(name => `${name} is in the folder for temporary files`));
  return { left, leftByKill };
}

module.exports = { leftovers };
