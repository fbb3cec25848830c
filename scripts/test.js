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

/** @type {Check[][]} The second list needs the build. The longest first. */
const checks = [
  [
    ['Build, and types of src', path.join(__dirname, 'bootstrap.js'), []],
    ['Format', bin('prettier/bin/prettier.cjs'), ['--check', '--cache', '--log-level=warn', '.']],
    ['Generated code is that of schemas/', path.join(__dirname, 'schemas.js'), ['--check']],
  ],
  [
    ['Lint and layers', bin('eslint/bin/eslint.js'), ['.']],
    ['Types of test', bin('typescript/bin/tsc'), ['--noEmit', '-p', 'test/tsconfig.json']],
    ['Types of scripts', bin('typescript/bin/tsc'), ['-p', 'scripts/tsconfig.json']],
  ],
];
/** @type {Check} */
const tests = ['Tests', bin('jest/bin/jest.js'), process.argv.slice(2)];

const underWay = new Set();

/**
 * Runs a check, and settles when it has passed. If it fails, it ends the others and this process.
 *
 * @param {Check} check
 */
function run([title, script, args], stdio) {
  const child = spawn(process.execPath, [script, ...args], { cwd: root, stdio });
  underWay.add(child);
  const output = [];
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', bytes => output.push(bytes));
  return new Promise(resolve =>
    child.once('close', status => {
      underWay.delete(child);
      if (stdio !== 'inherit') process.stderr.write(`\n— ${title}\n${Buffer.concat(output)}`);
      if (status === 0) return resolve();
      console.error(`\n${title}: failed.`);
      for (const other of underWay) other.kill();
      process.exit(status ?? 1);
    }),
  );
}

/** Runs checks, as many at a time as there are processors. */
async function runBesideEachOther(list) {
  const left = [...list];
  const worker = async () => {
    for (let check = left.shift(); check !== undefined; check = left.shift()) await run(check, 'pipe');
  };
  await Promise.all(Array.from({ length: os.availableParallelism() }, worker));
}

async function main() {
  for (const list of checks) await runBesideEachOther(list);
  console.error(`\n— ${tests[0]}`);
  await run(tests, 'inherit');
}

void main();
