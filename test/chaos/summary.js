const { formatTable } = require('../../dist/bench/table');

/** @type {import('../../src/bench/table').Column<object>[]} */
const COLUMNS = [
  { heading: 'fault', value: row => row.kind },
  { heading: 'runs', value: row => row.runs, decimals: 0 },
  { heading: 'broken', value: row => row.broken, decimals: 0 },
  { heading: 'told ms, median', value: row => row.toldMs.median, decimals: 0 },
  { heading: 'most', value: row => row.toldMs.most, decimals: 0 },
  { heading: 'ended ms, median', value: row => row.endedMs.median, decimals: 0 },
  { heading: 'most', value: row => row.endedMs.most, decimals: 0 },
  {
    heading: 'what the ranks came to',
    value: ({ outcomes }) =>
      Object.entries(outcomes)
        .map(([outcome, count]) => `${count} ${outcome}`)
        .join(', '),
  },
];

/** Adds up what came of many runs. */
class Summary {
  kinds = new Map();
  neverStruck = {};
  failures = [];
  leftByKill = 0;
  startedAt = performance.now();

  constructor(seed) {
    this.seed = seed;
  }

  /** @param {string[]} broken The promises that the run broke. */
  add(plan, { reports, toldMs, tookMs, leftByKill, isStruck }, broken) {
    const { kind } = plan.faults[0];
    this.leftByKill += leftByKill.length;
    if (broken.length > 0) this.failures.push({ number: plan.number, broken });
    if (!isStruck) {
      this.neverStruck[kind] = (this.neverStruck[kind] ?? 0) + 1;
      return;
    }
    if (!this.kinds.has(kind)) this.kinds.set(kind, { runs: 0, broken: 0, outcomes: {}, told: [], took: [] });
    const its = this.kinds.get(kind);
    its.runs++;
    if (broken.length > 0) its.broken++;
    for (const report of reports) {
      const outcome = report.told('error')?.code ?? (report.told('done') ? 'success' : 'ended');
      its.outcomes[outcome] = (its.outcomes[outcome] ?? 0) + 1;
    }
    its.told.push(...toldMs);
    if (tookMs !== undefined) its.took.push(tookMs);
  }

  /** @param {number} moreDescriptors That this process has open now. */
  end(moreDescriptors) {
    if (moreDescriptors > 0) this.failures.push({ broken: [`${moreDescriptors} files were left open`] });
  }

  get result() {
    const { seed, failures, leftByKill, neverStruck } = this;
    const seconds = (performance.now() - this.startedAt) / 1000;
    const kinds = [...this.kinds].map(([kind, { told, took, ...its }]) => {
      return { kind, ...its, toldMs: timesOf(told), endedMs: timesOf(took) };
    });
    const counts = [...kinds.map(its => its.runs), ...Object.values(neverStruck)];
    const runs = counts.reduce((sum, count) => sum + count, 0);
    return { seed, runs, seconds, failures, foldersLeftByKills: leftByKill, kinds, neverStruck };
  }

  get words() {
    const { runs, seconds, failures, kinds, foldersLeftByKills, neverStruck } = this.result;
    const missed = Object.entries(neverStruck);
    const missedRuns = missed.reduce((sum, [, count]) => sum + count, 0);
    const each = missed.map(([kind, count]) => `${count} of '${kind}'`).join(', ');
    return [
      ...formatTable(COLUMNS, kinds),
      `${runs} runs in ${seconds.toFixed(0)} s, seed ${this.seed}: ${failures.length} broke a promise.`,
      `${missedRuns} of them had ended before all that was planned struck them, and are not in the table${each && `: ${each}`}.`,
      `${foldersLeftByKills} folders were left in memory by ranks that were killed while their ring formed, or by a launcher that was killed while its ranks ended.`,
    ].join('\n');
  }
}

/** Of times in ms; nothing, if there are none. */
function timesOf(times) {
  const sorted = times.map(Math.round).sort((a, b) => a - b);
  return { median: sorted[sorted.length >> 1], most: sorted.at(-1) };
}

module.exports = { Summary };
