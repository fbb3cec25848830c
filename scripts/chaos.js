#!/usr/bin/env node
// Many short runs, in each of which something goes wrong at a random instant (test/chaos/); afterwards it looks whether all promises
// of docs/reliability.md held. By hand, after `npm run build`:
//   npm run chaos -- --runs 1000 --seed 7              the same seed gives the same plans
//   npm run chaos -- --seed 7 --only 42                run 42 of these again
//   npm run chaos -- --kind kill --kind restart        only these faults
// Exits with 1 if a promise was broken.
const { readdirSync, existsSync } = require('node:fs');
const { parseArgs } = require('node:util');
const { ChaosRun } = require('../test/chaos/chaos-run');
const { FAULT_KINDS } = require('../test/chaos/fault-kinds');
const { planOf } = require('../test/chaos/plan');
const { Summary } = require('../test/chaos/summary');
const { violations } = require('../test/chaos/violations');

const { values: given } = parseArgs({
  options: {
    runs: { type: 'string', default: '50' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    kind: { type: 'string', multiple: true },
    parallel: { type: 'string', default: '3' },
    plant: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});

function fail(words) {
  console.error(words);
  process.exit(2);
}

function count(name) {
  const value = Number(given[name]);
  if (!Number.isSafeInteger(value) || value < 0) fail(`--${name} takes a whole number, not ${given[name]}.`);
  return value;
}

const seed = count('seed');
const only = given.only === undefined ? undefined : count('only');
const runs = only === undefined ? count('runs') : 1;
for (const kind of given.kind ?? []) {
  if (!(kind in FAULT_KINDS)) fail(`--kind is one of: ${Object.keys(FAULT_KINDS).join(', ')}.`);
}

/** Runs that are not done. */
const underWay = new Set();

async function runOne(number, summary) {
  const plan = planOf(seed, number, given.kind);
  const run = new ChaosRun(plan, given.plant);
  underWay.add(run);
  const observed = await run.run();
  underWay.delete(run);
  const broken = violations(plan, observed);
  summary.add(plan, observed, broken);
  if (broken.length === 0) return;
  console.error(`Run ${number}: ${broken.join('\n  ')}`);
  console.error(`  plan: ${JSON.stringify(plan)}`);
  for (const [rank, { facts, hashes }] of observed.reports.entries()) {
    const told = facts.filter(fact => !('step' in fact)).map(fact => JSON.stringify(fact));
    console.error(`  rank ${rank}, ${hashes.length} steps, ended with ${observed.ends[rank]}: ${told.join(' ')}`);
  }
  console.error(`  The harness itself was held up for ${observed.heldUpMs.toFixed(0)} ms at most.`);
  if (observed.output !== '') console.error(observed.output.replace(/^/gm, '  | '));
  const kinds = (given.kind ?? []).map(kind => ` --kind '${kind}'`).join('');
  console.error(`  Again: npm run chaos -- --seed ${seed} --only ${number}${kinds}`);
}

async function main() {
  const summary = new Summary(seed);
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, () => {
      for (const run of underWay) run.abandon();
      console.log(summary.words);
      process.exit(1);
    });
  }
  let next = only ?? 0;
  const end = next + runs;
  if (runs > 0) await runOne(next++, summary);
  const descriptors = openDescriptors(); // the first child process opens something for all of them
  const worker = async () => {
    while (next < end) await runOne(next++, summary);
  };
  await Promise.all(Array.from({ length: count('parallel') }, worker));
  summary.end(openDescriptors() - descriptors);
  for (const { number, broken } of summary.result.failures) {
    if (number === undefined) console.error(broken.join('\n'));
  }
  console.log(given.json ? JSON.stringify(summary.result, undefined, 2) : summary.words);
  process.exitCode = summary.result.failures.length === 0 ? 0 : 1;
}

/** Of this process, whose runs must leave none open. */
function openDescriptors() {
  return existsSync('/proc/self/fd') ? readdirSync('/proc/self/fd').length : 0;
}

void main();
