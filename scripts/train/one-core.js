const { spawnSync } = require('node:child_process');
const { readFileSync } = require('node:fs');

/**
 * Keeps this process, with all its threads, on one core of its own, as if it ran on a machine with one core. Returns
 * whether that is possible: it takes Linux, its program taskset, and as many cores as there are ranks.
 *
 * @param {number} rank
 */
function keepToOneCore(rank) {
  const core = allowedCores()[rank];
  if (core === undefined) return false;
  const args = ['--all-tasks', '--cpu-list', '--pid', String(core), String(process.pid)];
  return spawnSync('taskset', args, { stdio: 'ignore' }).status === 0;
}

/** The numbers of the cores that this process may use. None if the system does not say. */
function allowedCores() {
  try {
    const [, list] = /^Cpus_allowed_list:\s*(.*)$/m.exec(readFileSync('/proc/self/status', 'utf8'));
    return list.split(',').flatMap(range => {
      const [first, last = first] = range.split('-').map(Number);
      return Array.from({ length: last - first + 1 }, (_, i) => first + i);
    });
  } catch {
    return [];
  }
}

module.exports = { keepToOneCore };
