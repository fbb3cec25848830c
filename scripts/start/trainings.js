// The trainings of `npm start`.
const { mkdtempSync, readFileSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { finished } = require('node:stream/promises');
const { launch } = require('../../dist/launcher/launch');
const { progressLines } = require('../train/progress-lines');
const { rateInWords, resultOf } = require('./result');

const MACHINES = 2;
const RANKS = 4;
const DIGITS = path.join(__dirname, '../train/digits.js');

/** How the machines compress: by its name in compressions.js, and as a user writes it. */
const METHOD = { name: 'low-rank', words: 'lowRank()' };

/** Images in a step, of all machines together. */
const BATCH = 160;
const LARGE = ['--large', `--compression=${METHOD.name}`, '--learning-rate=0.05'];

/** The small network, to compare four replicas. Its warm-up takes four epochs. */
const SMALL = { epochs: 12, batchSize: 8 };

/**
 * Trains a network on one machine, and on two over slow links with and without compression; then a small one on four
 * ranks. Returns the exit code, and the result if that is 0.
 *
 * @param {object} options Those of `npm start`.
 * @param {NodeJS.WriteStream} output
 */
async function runTrainings(options, output) {
  const [first, ...others] = options.seeds;
  const { dataDir, epochs, linkRate } = options;
  const large = { epochs, dataDir, args: LARGE };
  const two = { ...large, ranks: MACHINES, batchSize: BATCH / MACHINES, methods: `dense,${METHOD.name}` };
  const small = { ...SMALL, epochs: Math.min(SMALL.epochs, 3 * epochs), dataDir, seeds: [first] };
  /** @type {[name: string, about: string, part: any][]} */
  const parts = [
    ['alone', 'one machine', { ...large, ranks: 1, batchSize: BATCH, methods: 'dense', seeds: options.seeds }],
    ['paced', `${MACHINES} machines, links of ${rateInWords(options)}`, { ...two, seeds: [first], linkRate }],
    // Without a limit: the same accuracies and bytes in less time.
    ['fast', `${MACHINES} machines, fast links`, { ...two, seeds: others }],
    ['oneOfFour', 'a small network, alone', { ...small, ranks: 1, batchSize: RANKS * SMALL.batchSize, methods: 'dense' }],
    ['four', `a small network, ${RANKS} ranks`, { ...small, ranks: RANKS, methods: 'dense,dgc' }],
  ]; // prettier-ignore
  const wanted = parts.filter(([, , { seeds }]) => seeds.length > 0);

  const runs = /** @type {any} */ ({});
  for (const [i, [name, about, part]] of wanted.entries()) {
    output.write(`${i > 0 ? '\n' : ''}Part ${i + 1} of ${wanted.length}: ${about}\n`);
    const { exitCode, result } = await runDigits(part, output);
    if (exitCode !== 0) return { exitCode };
    runs[name] = result;
  }
  return { exitCode: 0, result: resultOf(runs, { ...options, method: METHOD }) };
}

/** Runs digits.js. Returns its exit code, and its result if that is 0. */
async function runDigits({ ranks, linkRate, args: given = [], dataDir, ...options }, output) {
  const folder = mkdtempSync(path.join(tmpdir(), 'gradring-start-'));
  const json = path.join(folder, 'result.json');
  const { epochs, batchSize, methods, seeds } = options;
  const args = [
    ...given,
    `--epochs=${epochs}`,
    `--batch-size=${batchSize}`,
    `--methods=${methods}`,
    `--seeds=${seeds}`,
  ];
  if (dataDir !== undefined) args.push(`--data-dir=${dataDir}`);
  args.push(`--json=${json}`, '--no-table');
  const stdout = progressLines(output);
  try {
    const paced = linkRate !== undefined && { linkRate };
    const { exitCode } = await launch({ ranks, script: DIGITS, args, prefix: false, stdout, ...paced });
    stdout.end();
    await finished(stdout);
    return { exitCode, result: exitCode === 0 ? JSON.parse(readFileSync(json, 'utf8')) : undefined };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

module.exports = { runTrainings };
