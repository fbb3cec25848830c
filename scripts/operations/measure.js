#!/usr/bin/env node
// Compares the operations of TensorFlow.js (test/operations) on backends with results and gradients of 64 bits, and
// prints what came of it as JSON. `measure.js wasm cpu` does so here. `measure.js --project DIR tfjs-node` does it in
// a project that has installed gradring as it is built here, and has run `npx gradring link-tensorflow`. With --write,
// docs/data/operations.json keeps it, and docs/reference/operations.md shows it.
const { writeFileSync } = require('node:fs');
const path = require('node:path');
const { parseArgs } = require('node:util');
const { harness } = require('../harness');
const { committedOperations, writePage } = require('./write-docs');

const { runOn, runReference, summarise } = harness('operations/compare');

async function main() {
  const { values, positionals: backends } = parseArgs({
    options: { project: { type: 'string' }, write: { type: 'boolean' } },
    allowPositionals: true,
  });
  const [reference, ...runs] = await Promise.all([
    runReference(),
    ...backends.map(backend => runOn(backend, values.project && path.resolve(values.project))),
  ]);
  const measured = backends.map((backend, i) => {
    const { versions, untried } = runs[i];
    return [backend, { versions, untried, operations: summarise(runs[i], reference) }];
  });
  const results = Object.fromEntries(measured);
  if (!values.write) return console.log(JSON.stringify(results));
  const text = JSON.stringify({ ...committedOperations(), ...results }, rounded, 1);
  writeFileSync(path.join(__dirname, '../../docs/data/operations.json'), `${text}\n`);
  writePage();
}

/** Errors change with each version, so one digit of them is enough. */
function rounded(_, value) {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(1)) : value;
}

main();
