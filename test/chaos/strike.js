const { setTimeout: sleep } = require('node:timers/promises');
const { FAULT_KINDS } = require('./fault-kinds');
const { LAUNCHER } = require('./run-processes');

const POLL_MS = 5;

/**
 * Waits until a fault is due, and has it happen. Settles when it is over, or when there is nobody left whom it could
 * strike: then it returns false.
 *
 * @param {import('./chaos-run').ChaosRun} run
 * @param {import('./plan').Fault} fault
 * @returns {Promise<boolean>}
 */
async function strike(run, fault) {
  if (!(await untilDue(run, fault)) || !canStrike(run, fault)) return false;
  await happen(run, fault);
  return true;
}

async function happen(run, fault) {
  const { kind, ranks, forMs } = fault;
  const { byRank, outcome } = FAULT_KINDS[kind];
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
      return run.links.get(ranks[0])?.strike(kind, forMs);
  }
}

/** Whether somebody is there whom it strikes: both ends of a link, the launcher, or one of the ranks. */
function canStrike({ plan, processes }, { kind, ranks }) {
  const { byRank, link, outcome } = FAULT_KINDS[kind];
  const isThere = number => !processes.hasEnded(number);
  if (byRank || kind === 'nothing') return true;
  if (outcome === 'end') return isThere(LAUNCHER);
  return link ? isThere(ranks[0]) && isThere((ranks[0] + plan.ranks - 1) % plan.ranks) : ranks.some(isThere);
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
