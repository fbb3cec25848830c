const { setTimeout: sleep } = require('node:timers/promises');
const { FAULT_KINDS } = require('./fault-kinds');
const { LAUNCHER } = require('./run-processes');

const POLL_MS = 5;

/**
 * Waits until a fault is due, and has it happen. Settles when it is over, or when there is nobody left whom it could strike.
 *
 * @param {import('./chaos-run').ChaosRun} run
 * @param {import('./plan').Fault} fault
 */
async function strike(run, fault) {
  const { kind, ranks, forMs } = fault;
  const { byRank, outcome } = FAULT_KINDS[kind];
  if (!(await untilDue(run, fault))) return;
  if (outcome !== 'success') run.noteLoss();
  if (byRank) return;
  const signal = name => ranks.forEach(rank => run.processes.signal(rank, name));
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
      return run.startLate(ranks[0]);
    case 'twin':
      return run.startLate(ranks[0]);
    default:
      return run.proxies.get(ranks[0])?.strike(kind, forMs);
  }
}

/** False if all ranks ended before. */
async function untilDue(run, { kind, ranks, at }) {
  const isDue = () => {
    if (FAULT_KINDS[kind].byRank) return ranks.some(rank => run.reports[rank].told('suffers') !== undefined);
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

module.exports = { POLL_MS, strike };
