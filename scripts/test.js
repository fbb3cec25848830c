#!/usr/bin/env node
// `npm test`: installs and builds what is missing, then every check. `npm test -- FILTER` passes its arguments to jest.
const { spawn } = require('node:child_process');
const os = require('node:os');
const path = require('node:path');
const { install } = require('./bootstrap');

install();
const root = path.join(__dirname, '..');
const bin = script => path.join(root, 'node_modules', script);

/** @typedef {[title: string, script: string, args: string[]]} Check */

/** @type {Check[]} The longest first. */
const first = [
  ['Build, and types of src', path.join(__dirname, 'bootstrap.js'), []],
  ['Format', bin('prettier/bin/prettier.cjs'), ['--check', '--cache', '--log-level=warn', '.']],
  ['Generated code is that of schemas/', path.join(__dirname, 'schemas.js'), ['--check']],
];
/** @type {Check} */
const tests = ['Tests', bin('jest/bin/jest.js'), process.argv.slice(2)];
/** @type {Check[]} They need the build, as the tests do. */
const besideTests = [
  ['Lint and layers', bin('eslint/bin/eslint.js'), ['.']],
  ['Types of test', bin('typescript/bin/tsc'), ['--noEmit', '-p', 'test/tsconfig.json']],
  ['Types of scripts', bin('typescript/bin/tsc'), ['-p', 'scripts/tsconfig.json']],
];

const underWay = new Set();

/**
 * Runs a check. Settles when it has ended, with its exit code and with what it has written to pipes.
 *
 * @param {Check} check
 */
function run([, script, args], stdio, priority) {
  const child = spawn(process.execPath, [script, ...args], { cwd: root, stdio });
  if (priority !== undefined) os.setPriority(child.pid, priority);
  underWay.add(child);
  const output = [];
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', bytes => output.push(bytes));
  return new Promise(resolve =>
    child.once('close', status => {
      underWay.delete(child);
      resolve({ status: status ?? 1, output: Buffer.concat(output) });
    }),
  );
}

/** Tells of a check that has ended. This process fails if the check has. */
function tell([title], { status, output }) {
  process.stderr.write(`\n— ${title}\n${output}`);
  if (status === 0) return;
  console.error(`\n${title}: failed.`);
  process.exitCode ||= status;
}

/** Runs checks, as many at a time as there are processors. The first that fails ends the others, and this process. */
async function runBesideEachOther(list) {
  const left = [...list];
  const worker = async () => {
    for (let check = left.shift(); check !== undefined; check = left.shift()) {
      tell(check, await run(check, 'pipe'));
      if (!process.exitCode) continue;
      for (const other of underWay) other.kill();
      process.exit();
    }
  };
  await Promise.all(Array.from({ length: os.availableParallelism() }, worker));
}

/**
 * Runs the tests. Many of them wait for something, and the other checks get the processor then: they have the lowest
 * priority, so they take it from no test. What they say comes after the tests, whose lines it would be lost among.
 */
async function runTests() {
  console.error(`\n— ${tests[0]}`);
  const tested = run(tests, 'inherit');
  const ended = [];
  for (const check of besideTests) {
    ended.push([check, await run(check, 'pipe', os.constants.priority.PRIORITY_LOW)]);
  }
  const { status } = await tested;
  for (const [check, result] of ended) tell(check, result);
  if (status !== 0) console.error(`\n${tests[0]}: failed.`);
  process.exitCode ||= status;
}

async function main() {
  await runBesideEachOther(first);
  await runTests();
}

void main();
