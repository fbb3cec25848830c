#!/usr/bin/env node
// Feeds mutated bytes to everything that reads data from outside: from peers, files and the environment (test/fuzz/).
// Use it by hand, after `npm run build`:
//   npm run fuzz -- --inputs 10000000 --seed 7         the same seed gives the same inputs
//   npm run fuzz -- --seconds 60 --target gradient-payload
//   npm run fuzz -- --target frame --replay FILE       runs one input, such as the file of a crash
const { createHash } = require('node:crypto');
const { readFileSync, writeFileSync } = require('node:fs');
const { parseArgs } = require('node:util');
const { harness } = require('./harness');

const { fuzz } = harness('fuzz/fuzz');
const { DEFAULT_TARGETS, TARGETS } = harness('fuzz/targets');

const DEFAULT_INPUTS = '1000000';
const PROGRESS_SECONDS = 5;

const { values: given } = parseArgs({
  options: {
    inputs: { type: 'string' },
    seconds: { type: 'string' },
    seed: { type: 'string', default: '1' },
    target: { type: 'string', default: 'all' },
    replay: { type: 'string' },
  },
});

/** The number in an option, or Infinity if it is not given. */
function number(name, value) {
  const parsed = value === undefined ? Infinity : Number(value);
  if (Number.isNaN(parsed) || parsed < 0) fail(`--${name} must be a number, not ${value}.`);
  return parsed;
}

function fail(words) {
  console.error(words);
  process.exit(2);
}

function summary({ inputs, features, seconds, outcomes }) {
  const accepted = [...outcomes].reduce((sum, [outcome, count]) => sum + (isAccepted(outcome) ? count : 0), 0);
  const rate = Math.round(inputs / seconds);
  return `${inputs} inputs, ${accepted} accepted, ${features} features, ${rate} inputs/s`;
}

function isAccepted(outcome) {
  return /^(accepted|not finite at the origin)/.test(outcome);
}

/** Writes the input of a crash to a file, and says how to run it again. */
function reportCrash(name, { bytes, error }) {
  const digest = createHash('sha256').update(bytes).digest('hex').slice(0, 12);
  const file = `fuzz-crash-${name}-${digest}.bin`;
  writeFileSync(file, bytes);
  console.log(`${name}: CRASH: ${error.stack}`);
  console.log(`The input is in ${file}. Again: npm run fuzz -- --target ${name} --replay ${file}`);
}

function run(name) {
  let told = 0;
  const report = fuzz(TARGETS[name](), {
    seed: number('seed', given.seed),
    inputs: number('inputs', given.inputs ?? (given.seconds === undefined ? DEFAULT_INPUTS : undefined)),
    seconds: number('seconds', given.seconds),
    onProgress: report => {
      if (report.seconds < told + PROGRESS_SECONDS) return;
      told = report.seconds;
      console.error(`${name}: ${summary(report)}`);
    },
  });
  console.log(`${name}, seed ${given.seed}: ${summary(report)}`);
  const byCount = [...report.outcomes].sort(([, a], [, b]) => b - a);
  for (const [outcome, count] of byCount) console.log(`${String(count).padStart(12)}  ${outcome}`);
  if (report.crash === undefined) return true;
  reportCrash(name, report.crash);
  return false;
}

const names = given.target === 'all' ? DEFAULT_TARGETS : [given.target];
if (!names.every(name => name in TARGETS)) fail(`--target must be one of: all, ${Object.keys(TARGETS).join(', ')}.`);
if (given.replay !== undefined) {
  if (names.length !== 1) fail('--replay needs the --target of the input.');
  console.log(TARGETS[names[0]]().run(readFileSync(given.replay)).outcome);
} else if (names.filter(name => !run(name)).length > 0) {
  process.exitCode = 1;
}
