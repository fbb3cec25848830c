#!/usr/bin/env node
// Starts many short runs. In each of them something goes wrong at a random time (test/chaos/). Then it checks whether
// all promises of docs/reliability.md were kept. Use it by hand, after `npm run build`: npm run chaos -- --help.
const yargs = require('yargs');
const { harness } = require('./harness');

const { ChaosRun } = harness('chaos/chaos-run');
const { planOf } = harness('chaos/draw-plan');
const { ElasticRun } = harness('chaos/elastic-run');
const { elasticViolations } = harness('chaos/elastic-violations');
const { FAULT_KINDS } = harness('chaos/fault-kinds');
const { openDescriptors } = harness('chaos/open-descriptors');
const { Summary } = harness('chaos/summary');
const { violations } = harness('chaos/violations');

const given = yargs(process.argv.slice(2))
  .scriptName('npm run chaos --')
  .usage(
    '$0 [options]\n\nStarts many short runs, in each of which something goes wrong, and checks whether all promises were kept.',
  )
  .options({
    runs: { type: 'number', default: 50, describe: 'How many runs' },
    seed: { type: 'number', default: 1, describe: 'The same seed gives the same plans' },
    only: { type: 'number', describe: 'Only the run with this number' },
    kind: {
      type: 'string',
      array: true,
      choices: Object.keys(FAULT_KINDS),
      describe: 'Only this kind of fault; may be repeated',
    },
    parallel: { type: 'number', default: 3, describe: 'How many runs at the same time' },
    plant: { type: 'string', describe: 'A bug in rank 1 that must be found: see test/chaos/rank.ts' },
    json: { type: 'boolean', default: false, describe: 'Print the summary as JSON' },
  })
  .example('$0 --runs 1000 --seed 7', 'a long round')
  .example('$0 --seed 7 --only 42', 'run 42 of that round again')
  .example("$0 --kind kill --kind 'cut link'", 'only these faults')
  .example('$0 --kind elastic --runs 20', 'only runs that go on when ranks are lost')
  .strict()
  .check(options => {
    const wrong = ['runs', 'seed', 'only', 'parallel'].find(name => !isCount(options[name] ?? 0));
    return wrong === undefined || `--${wrong} takes a whole number, not ${options[wrong]}.`;
  })
  .epilogue('The exit code is 1 if a promise was broken.')
  .wrap(100)
  .version(false)
  .parseSync();

function isCount(value) {
  return Number.isSafeInteger(value) && value >= 0;
}

const { seed, only } = given;
const runs = only === undefined ? given.runs : 1;

/** Runs that have not ended. */
const underWay = new Set();

async function runOne(number, summary) {
  const plan = planOf(seed, number, given.kind);
  const isElastic = plan.elastic !== undefined;
  const run = new (isElastic ? ElasticRun : ChaosRun)(plan, given.plant);
  underWay.add(run);
  const observed = await run.run();
  underWay.delete(run);
  const broken = (isElastic ? elasticViolations : violations)(plan, observed);
  summary.add(plan, observed, broken);
  if (broken.length === 0) return;
  console.error(`Run ${number}: ${broken.join('\n  ')}`);
  console.error(`  plan: ${JSON.stringify(plan)}`);
  for (const [rank, { facts, hashes }] of observed.reports.entries()) {
    const told = facts.filter(fact => !('step' in fact)).map(fact => JSON.stringify(fact));
    console.error(`  rank ${rank}, ${hashes.length} steps, ended with ${observed.ends[rank]}: ${told.join(' ')}`);
  }
  console.error(`  The harness itself had to wait for at most ${observed.heldUpMs.toFixed(0)} ms.`);
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
  const descriptors = openDescriptors(); // after the first run, because the first child process opens files that stay open
  const worker = async () => {
    while (next < end) await runOne(next++, summary);
  };
  await Promise.all(Array.from({ length: given.parallel }, worker));
  summary.end(openDescriptors() - descriptors);
  for (const { number, broken } of summary.result.failures) {
    if (number === undefined) console.error(broken.join('\n'));
  }
  console.log(given.json ? JSON.stringify(summary.result, undefined, 2) : summary.words);
  process.exitCode = summary.result.failures.length === 0 ? 0 : 1;
}

void main();
