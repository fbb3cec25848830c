#!/usr/bin/env node
// Trains for very many steps on four ranks of this machine, and checks that memory does not grow and that the replicas
// stay the same. Use it by hand, after `npm run build`: npm run soak -- --help.
const { writeFileSync } = require('node:fs');
const path = require('node:path');
const yargs = require('yargs');
const { lineStream } = require('../dist/lines');
const { formatTable } = require('../dist/table');
const { launch } = require('../dist/launcher/launch');
const { harness } = require('./harness');

const { differences, growth, median } = harness('soak/verdict');

const SAMPLES = 200;
const ROWS = 20;
const VERIFY_EVERY = 1000;

const { steps, ranks, json, leak } = yargs(process.argv.slice(2))
  .scriptName('npm run soak --')
  .usage(
    '$0 [options]\n\nTrains for very many steps, and checks that memory does not grow and that the replicas stay the same.',
  )
  .options({
    steps: { type: 'number', default: 20_000, describe: 'How many steps' },
    ranks: { type: 'number', default: 4, describe: 'How many ranks, on this machine' },
    json: { type: 'string', describe: 'Write the result to this file' },
    leak: { type: 'number', default: 0, describe: 'Bytes that each rank keeps in each step, which must be found' },
  })
  .example('$0', '20,000 steps on four ranks: some minutes')
  .example('$0 --steps 2000 --json soak.json', 'a short one, with its result as JSON')
  .strict()
  .check(options => {
    for (const [name, least] of Object.entries({ steps: SAMPLES, ranks: 1, leak: 0 })) {
      const value = Number(options[name]);
      if (Number.isSafeInteger(value) && value >= least) continue;
      return `--${name} must be a whole number from ${least} on, not ${value}.`;
    }
    return true;
  })
  .epilogue('The exit code is 1 if memory grew, or the replicas differed.')
  .wrap(100)
  .version(false)
  .parseSync();

async function main() {
  const facts = [];
  const args = [steps, Math.floor(steps / SAMPLES), VERIFY_EVERY, leak].map(String);
  const start = performance.now();
  const script = path.join(__dirname, '../test/soak/rank.js');
  const { exitCode } = await launch({
    ranks,
    script,
    args,
    prefix: false,
    stdout: lineStream(line => facts.push(JSON.parse(line))),
  });
  const seconds = (performance.now() - start) / 1000;
  const samples = facts.filter(({ rss }) => rss !== undefined);
  const hashes = facts.filter(({ hash }) => hash !== undefined);
  const wrongs = [
    ...(exitCode === 0 ? [] : [`The ranks ended with ${exitCode}`]),
    ...(hashes.some(({ step }) => step === steps) ? [] : [`step ${steps} was not reached`]),
    ...growth(samples),
    ...differences(hashes, ranks),
  ];
  for (const line of formatTable(COLUMNS, rowsOf(samples))) console.log(line);
  const { bytesSent, denseBytes } = facts.find(fact => fact.bytesSent !== undefined) ?? {};
  console.log(
    `${steps} steps on ${ranks} ranks in ${seconds.toFixed(0)} s; compression ${(denseBytes / bytesSent).toFixed(1)}.`,
  );
  console.log(`Weights: ${hashes.at(-1)?.hash}, compared ${hashes.length / ranks} times.`);
  console.log(wrongs.length === 0 ? 'Memory is flat, the replicas are the same.' : wrongs.join('\n'));
  if (json !== undefined) writeFileSync(json, JSON.stringify({ steps, ranks, seconds, wrongs, samples, hashes }));
  process.exitCode = wrongs.length === 0 ? 0 : 1;
}

const COLUMNS = [
  { heading: 'steps', value: row => row.steps, decimals: 0 },
  { heading: 'RSS MB, median', value: row => row.rss, decimals: 1 },
  { heading: 'of the largest rank', value: row => row.largest, decimals: 1 },
  { heading: 'external MB', value: row => row.external, decimals: 1 },
  { heading: 'heap MB', value: row => row.heapUsed, decimals: 1 },
  { heading: 'tensors', value: row => row.tensors, decimals: 0 },
];

/** ROWS rows, each for a part of the run, over all ranks. */
function rowsOf(samples) {
  const last = Math.max(...samples.map(({ step }) => step));
  return Array.from({ length: ROWS }, (_, i) => {
    const its = samples.filter(({ step }) => Math.ceil((step * ROWS) / last) === i + 1);
    const of = name => median(its.map(sample => sample[name]));
    return {
      steps: (last * (i + 1)) / ROWS,
      ...{ rss: of('rss') / 1e6, largest: Math.max(...its.map(({ rss }) => rss)) / 1e6 },
      ...{ external: of('external') / 1e6, heapUsed: of('heapUsed') / 1e6, tensors: of('tensors') },
    };
  });
}

void main();
