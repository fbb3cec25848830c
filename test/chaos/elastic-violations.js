const { LAUNCHER } = require('./run-processes');

/** How many more files a process may have open in a later ring, whichever: a socket has more. */
const MORE_FILES = 1;

/** How far a count of updates, which is a sum of float32, may be from a whole number. */
const TOLERANCE = 0.01;

/**
 * Within which the others must be at work again after a loss: they may all have to start anew, on a machine with much
 * to do.
 */
const RECOVERY_MS = 30_000;

/**
 * The promises that an elastic run broke, in words; none is how it should be.
 *
 * @param {import('./plan').Plan} plan
 * @param {ReturnType<import('./elastic-run').ElasticRun['observed']>} observed
 * @returns {string[]}
 */
function elasticViolations({ steps }, { reports, struck, toldMs, launcherEnd, overdue, left }) {
  const lives = livesOf(reports, struck);
  const last = Math.max(...lives.map(({ attempt }) => attempt));
  const ends = overdue.includes(LAUNCHER)
    ? ['the launcher did not end in time']
    : launcherEnd !== 0
      ? [`the launcher ended with ${launcherEnd}`]
      : [];
  const final = lives.filter(life => life.attempt === last && !life.isStruck && life.steps.length > 0);
  return [
    ...ends,
    ...toldMs.filter(ms => ms > RECOVERY_MS).map(ms => `the others did their next step after ${ms} ms`),
    ...(final.length === 0 ? ['nobody came to the end'] : []),
    ...final.flatMap(life =>
      life.steps.at(-1).step === steps - 1 && has(life, 'done') ? [] : [`${life.name} did not come to the end`],
    ),
    ...lives.flatMap(wrongsOfLife),
    ...lives.flatMap(wrongsOfFiles),
    ...differences(lives),
    ...left,
  ];
}

/** Every process of a rank, with the number of times that all had been started again before. */
function livesOf(reports, struck) {
  return reports.flatMap((report, rank) => {
    let attempt = -1;
    return report.lives.map(({ pid, facts }, i) => {
      const isNewcomer = !facts.some(({ role }) => role === 'member');
      if (!isNewcomer) attempt++;
      const isStruck = struck.some(each => each.pid === pid);
      const steps = facts.filter(fact => 'step' in fact);
      return { name: `process ${i} of rank ${rank}`, attempt, isNewcomer, isStruck, facts, steps };
    });
  });
}

function has({ facts }, name) {
  return facts.some(fact => name in fact);
}

function wrongsOfLife({ name, isNewcomer, facts, steps }) {
  const wrongs = [];
  const error = facts.find(fact => 'error' in fact)?.error;
  if (error !== undefined) wrongs.push(`${name} told of ${error.code}: ${error.stack ?? error.message}`);
  const first = steps[0]?.step ?? 0;
  if (!isNewcomer && first !== 0) wrongs.push(`${name} began with step ${first}`);
  const gap = steps.findIndex(({ step }, i) => step !== first + i);
  if (gap !== -1) wrongs.push(`${name} did step ${steps[gap].step} after step ${steps[gap - 1].step}`);
  const counted = facts.find(({ updates, after }) => Math.abs(updates - (after + 1)) > TOLERANCE);
  if (counted !== undefined) wrongs.push(`${name} had got ${counted.updates} updates after step ${counted.after}`);
  return wrongs;
}

/**
 * Files that an earlier ring has left open. The fewest that were open while a ring stood count, for the one before it
 * is closed meanwhile; and the most in the first ring that had as many links.
 */
function wrongsOfFiles({ name, facts }) {
  const rings = new Map();
  for (const { generation, worldSize, descriptors } of facts.filter(fact => 'descriptors' in fact)) {
    if (!rings.has(generation)) rings.set(generation, { generation, links: Math.min(worldSize - 1, 2), counts: [] });
    rings.get(generation).counts.push(descriptors);
  }
  for (const { generation, links, counts } of rings.values()) {
    const first = [...rings.values()].find(ring => ring.links === links);
    const [now, before] = [Math.min(...counts), Math.max(...first.counts)];
    if (now <= before + MORE_FILES) continue;
    return [`${name} had ${now} files open in ring ${generation}, and ${before} in ring ${first.generation}`];
  }
  return [];
}

/**
 * Where weights are not the same on all that did a step in the same ring or in one that came out of it. What was done
 * only by a rank that was lost then is done again by those who are left: its last step.
 */
function differences(lives) {
  const first = new Map();
  for (const { name, attempt, isStruck, steps } of lives) {
    for (const { step, hash } of isStruck ? steps.slice(0, -1) : steps) {
      const key = `${attempt} ${step}`;
      const known = first.get(key);
      if (known === undefined) first.set(key, { name, hash });
      else if (known.hash !== hash) return [`after step ${step} ${name} has other weights than ${known.name}`];
    }
  }
  return [];
}

module.exports = { elasticViolations };
