const { existsSync, readdirSync, readFileSync } = require('node:fs');

/** Processes, and what they started, have the run's folder in their environment. Linux tells. */
function processesOf(folder) {
  if (!existsSync('/proc/self/environ')) return [];
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .filter(pid => environmentOf(pid).includes(`GRADRING_CHAOS_FOLDER=${folder}\0`))
    .map(Number);
}

/** Of a process that is gone, or another user's, or a zombie: nothing. */
function environmentOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1');
  } catch {
    return '';
  }
}

/** Sends a signal to a process that may be gone. */
function signalTo(pid, signal) {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

module.exports = { isAlive, processesOf, signalTo };
