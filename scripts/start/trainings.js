// The trainings of `npm start`.
const { mkdtempSync, readFileSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { finished } = require('node:stream/promises');
const { launch } = require('../../dist/launcher/launch');
const { TRAINING_OPTIONS } = require('../train/digits-options');
const { progressLines } = require('../train/progress-lines');
const { rateInWords, resultOf } = require('./result');

const RANKS = 4;
const DIGITS = path.join(__dirname, '../train/digits.js');

/**
 * Trains alone, and on four ranks with and without compression. Returns the exit code, and the result if that is 0.
 *
 * @param {object} options Those of `npm start`.
 * @param {NodeJS.WriteStream} output
 */
async function runTrainings(options, output) {
  const [first, ...others] = options.seeds;
  const { linkRate } = options;
  // The first training of a process is slower, until its code is compiled. So the one whose time counts comes last, or
  // is the longest by far.
  const alone = { 'batch-size': RANKS * options['batch-size'], seeds: [...others, first] };
  const parts = [
    { about: 'one process alone', ranks: 1, methods: 'dense', ...alone },
    {
      about: `${RANKS} ranks, links of ${rateInWords(options)}`,
      ranks: RANKS,
      methods: 'dense,dgc',
      seeds: [first],
      linkRate,
    },
    // Without a limit: the same accuracies and bytes in less time.
    { about: `${RANKS} ranks, fast links`, ranks: RANKS, methods: 'dense,dgc', seeds: others },
  ].filter(({ seeds }) => seeds.length > 0);

  const results = [];
  for (const [i, part] of parts.entries()) {
    output.write(`${i > 0 ? '\n' : ''}Part ${i + 1} of ${parts.length}: ${part.about}\n`);
    const { exitCode, result } = await runDigits({ ...options, linkRate: undefined, ...part }, output);
    if (exitCode !== 0) return { exitCode };
    results.push(result);
  }
  return { exitCode: 0, result: resultOf(results, options) };
}

/** Runs digits.js. Returns its exit code, and its result if that is 0. */
async function runDigits({ ranks, methods, linkRate, ...options }, output) {
  const folder = mkdtempSync(path.join(tmpdir(), 'gradring-start-'));
  const json = path.join(folder, 'result.json');
  const given = TRAINING_OPTIONS.filter(name => options[name] !== undefined);
  const args = given.map(name => `--${name}=${[options[name]].flat().join()}`);
  args.push(`--methods=${methods}`, `--json=${json}`, '--no-table');
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
