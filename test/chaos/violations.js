const { FAULT_KINDS } = require('./fault-kinds');
const { LATE, LAUNCHER } = require('./run-processes');

/** Where a ring cannot form, for want of a rank. */
const NOT_FORMED = ['ERR_RENDEZVOUS_TIMEOUT'];

/** What is said to a process that comes with the rank of another, or when the ring stands. */
const REFUSED = ['ERR_RANK_TAKEN', 'ERR_RENDEZVOUS_REFUSED', 'ERR_RENDEZVOUS_TIMEOUT', 'ERR_ADDRESS_IN_USE'];

const FAILED = 7;

/** What ranks that end themselves exit with. */
const OWN_EXITS = { 'exit 0': 0, 'exit 3': 3, throw: 1 };

/**
 * The promises that a run broke, in words; none is how it should be.
 *
 * @param {import('./plan').Plan} plan
 * @param {import('./chaos-run').Observed} observed
 * @returns {string[]}
 */
function violations(plan, observed) {
  return [
    ...observed.overdue.map(number => `${nameOf(number)} did not end in time`),
    ...observed.reports.flatMap((report, rank) => {
      return wrongsOfRank(plan, observed, rank, report).map(words => `rank ${rank} ${words}`);
    }),
    ...wrongsOfLate(plan, observed),
    ...differences(observed.reports),
    ...observed.left,
  ];
}

function nameOf(number) {
  return { [LAUNCHER]: 'the launcher', [LATE]: 'the second process of a rank' }[number] ?? `rank ${number}`;
}

function wrongsOfRank(plan, observed, rank, report) {
  const { steps, faults, launcher } = plan;
  const strikes = faults.filter(({ ranks }) => ranks.includes(rank)).map(({ kind }) => kind);
  const mayVanish =
    strikes.some(kind => FAULT_KINDS[kind].ends) ||
    faults.some(({ kind }) => FAULT_KINDS[kind].outcome === 'end') ||
    (launcher && !observed.formed); // the launcher's patience is shorter than that of a rank that waits for others
  const end = observed.ends[rank];
  const error = report.told('error');
  const own = OWN_EXITS[report.told('suffers')];
  if (observed.overdue.includes(rank)) return [];
  if (own !== undefined && end !== undefined && end !== own) return [`was to exit with ${own}, but with ${end}`];
  if (error !== undefined) {
    const wrong = wrongOfError(plan, observed, strikes, error);
    if (wrong !== undefined) return [wrong];
    return end === undefined || end === FAILED || mayVanish ? [] : [`failed, but ended with ${end}`];
  }
  if (report.told('done') === undefined) return mayVanish ? [] : [`ended without a word, with ${end}`];
  if (report.hashes.length !== steps) return [`ended well after ${report.hashes.length} of ${steps} steps`];
  if (report.told('moreDescriptors') > 0) return [`has ${report.told('moreDescriptors')} more files open than before`];
  return end === undefined || end === 0 || mayVanish ? [] : [`was done, but ended with ${end}`];
}

/** Why an error is not one that the faults allow, if so. */
function wrongOfError({ faults, ranks }, { formed }, strikes, { code, blamed, message, stack }) {
  const kinds = faults.map(({ kind }) => FAULT_KINDS[kind]);
  const told = `told of ${code}: ${message}`;
  if (code === undefined) return `failed without a code: ${stack}`;
  if (kinds.some(({ outcome }) => outcome === 'end')) return undefined;
  if (!formed && NOT_FORMED.includes(code)) return undefined;
  const knowsNot = strikes.includes('stop for long');
  if (knowsNot && code === 'ERR_TIMEOUT') return undefined;
  if (!kinds.some(({ codes }) => codes?.includes(code))) return told;
  const blamable = faults.flatMap(({ kind, ranks: struck }) => {
    const { link, blames } = FAULT_KINDS[kind];
    if (!blames) return [];
    return link ? [struck[0], (struck[0] + ranks - 1) % ranks] : struck;
  });
  return blamable.length === 0 || knowsNot || blamable.includes(blamed) ? undefined : `blames rank ${blamed}, ${told}`;
}

function wrongsOfLate({ steps }, { late, lateEnd, overdue }) {
  if (late === undefined || overdue.includes(LATE)) return [];
  const who = nameOf(LATE);
  const error = late.told('error');
  // One that was killed before it met the others can be replaced.
  if (error === undefined) return late.hashes.length === steps ? [] : [`${who} ended without a word, with ${lateEnd}`];
  if ([...REFUSED, 'ERR_PEER_LOST'].includes(error.code)) return [];
  return [`${who} told of ${error.code}: ${error.stack ?? error.message}`];
}

/** Where weights are not the same on all ranks that did a step. */
function differences(reports) {
  const first = new Map();
  for (const [rank, { hashes }] of reports.entries()) {
    for (const { step, hash } of hashes) {
      const known = first.get(step);
      if (known === undefined) first.set(step, { rank, hash });
      else if (known.hash !== hash)
        return [`after step ${step} rank ${rank} has other weights than rank ${known.rank}`];
    }
  }
  return [];
}

module.exports = { violations };
