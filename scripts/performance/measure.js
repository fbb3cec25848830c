#!/usr/bin/env node
// Measures what docs/performance.md shows, and writes docs/data/performance.json: everything, or only what is named.
// Use it as root, on a machine with no other work, after `npm run build`. Gloo needs PyTorch, the comparison also Open
// MPI. Takes half an hour.
//   node scripts/performance/measure.js
//   node scripts/performance/measure.js codec compress
const { spawnSync } = require('node:child_process');
const { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { thisMachine } = require('../../dist/study/results');
const { MEASUREMENTS } = require('./measurements');

const root = path.join(__dirname, '../..');
const RESULTS = path.join(root, 'docs/data/performance.json');
const PROGRAMS = { 'npx gradring': [process.execPath, path.join(root, 'dist/cli.js')], node: [process.execPath] };

/** Runs a command. Returns the objects that it prints, or that it writes to FILE. */
function rowsOf(command) {
  const folder = mkdtempSync(path.join(tmpdir(), 'gradring-performance-'));
  const file = path.join(folder, 'result.json');
  try {
    const name = Object.keys(PROGRAMS).find(program => command.startsWith(`${program} `));
    const words = name === undefined ? command : command.slice(name.length + 1);
    const [program, ...args] = [...(PROGRAMS[name] ?? []), ...words.replace('FILE', file).split(' ')];
    const { status, signal, error, stdout } = spawnSync(program, args, {
      ...{ cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 2 ** 28 },
    });
    if (status !== 0) throw new Error(`${command} ended with ${error?.message ?? signal ?? `exit code ${status}`}.`);
    if (existsSync(file)) return [JSON.parse(readFileSync(file, 'utf8'))];
    const lines = [...stdout.matchAll(/^(?:\[\d+\] )?(\{.*)$/gm)]; // perhaps after the number of a rank
    if (lines.length === 0) throw new Error(`${command} printed no result.`);
    return lines.map(([, line]) => JSON.parse(line));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function measure(name) {
  const { commands, pick } = MEASUREMENTS[name];
  const runs = commands.map((command, i) => {
    console.error(`${name} ${i + 1}/${commands.length}  ${command}`);
    const rows = rowsOf(command);
    return { command, rows: pick === undefined ? rows : rows.flatMap(pick) };
  });
  const results = existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, 'utf8')) : { version: 1, measurements: {} };
  results.measurements[name] = { at: new Date().toISOString(), machine: thisMachine(), runs };
  writeFileSync(RESULTS, `${JSON.stringify(results, null, 1)}\n`);
}

const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(MEASUREMENTS);
const unknown = names.find(name => !(name in MEASUREMENTS));
if (unknown !== undefined) {
  console.error(`There is no measurement '${unknown}'. There are: ${Object.keys(MEASUREMENTS).join(', ')}.`);
  process.exit(1);
}
for (const name of names) {
  try {
    measure(name);
  } catch (error) {
    console.error(`${name} is left as it was: ${error.message}`);
    process.exitCode = 1;
  }
}
