#!/usr/bin/env node
// Compares the dense all-reduce of gradring with those of Gloo and Open MPI on this machine. They take turns, so that
// all meet the same noise. A library that is not installed (PyTorch for that Python; mpicc and mpirun) is left out, and
// a message says so. `--before FOLDER` names a built clone of an earlier version of gradring, which takes turns, too.
//
//     node scripts/compare-peers.js --ranks 2,4 --python python3
const { execFileSync, spawnSync } = require('node:child_process');
const { mkdtempSync, rmSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { parseArgs } = require('node:util');

const root = path.join(__dirname, '..');
const { values } = parseArgs({
  options: {
    ranks: { type: 'string', default: '2,4' },
    elements: { type: 'string', default: '1,256,4096,16384,262144,1048576,4194304,25600000' },
    iterations: { type: 'string', default: '11' },
    rounds: { type: 'string', default: '3' },
    python: { type: 'string', default: 'python3' },
    before: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});
const elements = values.elements.split(',').map(Number);
const scratch = mkdtempSync(path.join(os.tmpdir(), 'gradring-peers-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));

const lines = (command, args) =>
  execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], timeout: 600_000 })
    .split('\n')
    .filter(line => line.startsWith('{'))
    .map(line => JSON.parse(line));

/** Small arrays are repeated more often. */
const iterationsOf = count => String(Math.max(Number(values.iterations), Math.min(1000, Math.floor(5e7 / count))));

/** After this time V8 has little left to compile. */
const WARM_UP = '5s';

const gradring = (transport, folder) => ranks =>
  elements.flatMap(count => {
    const bytes = String(4 * count);
    const size = ['--min-bytes', bytes, '--max-bytes', bytes, '--no-check', '--json'];
    size.push('--iterations', iterationsOf(count), '--warm-up', WARM_UP);
    const args = [
      path.join(folder, 'dist/cli.js'),
      'bench',
      'all-reduce',
      '-n',
      ranks,
      '--transport',
      transport,
      '--encryption',
      'off', // like the other libraries
      ...size,
    ];
    return lines(process.execPath, args).map(row => ({ elements: row.elements, p50Us: row.timeUs.p50 }));
  });

function gloo(ranks) {
  const sizes = ['--elements', values.elements, '--iterations', elements.map(iterationsOf).join()];
  return lines(values.python, [path.join(__dirname, 'peers/gloo.py'), '--ranks', ranks, ...sizes]);
}

function openMpi(ranks) {
  const overTcp = ['--mca', 'btl', 'tcp,self', '--mca', 'btl_tcp_if_include', 'lo'];
  const program = [path.join(scratch, 'open-mpi'), ...elements.flatMap(count => [iterationsOf(count), String(count)])];
  return lines('mpirun', ['--allow-run-as-root', '--oversubscribe', ...overTcp, '-np', ranks, ...program]);
}

const peers = { 'gradring tcp': gradring('tcp', root), 'gradring ipc': gradring('ipc', root) };
if (values.before !== undefined) {
  peers['before tcp'] = gradring('tcp', values.before);
  peers['before ipc'] = gradring('ipc', values.before);
}
if (spawnSync(values.python, ['-c', 'import torch.distributed']).status === 0) peers.gloo = gloo;
else console.error(`Gloo is left out: ${values.python} has no PyTorch.`);
const compiler = ['-O3', path.join(__dirname, 'peers/open-mpi.c'), '-o', path.join(scratch, 'open-mpi')];
if (spawnSync('mpicc', compiler).status === 0) peers['open mpi tcp'] = openMpi;
else console.error('Open MPI is left out: mpicc is absent, or cannot compile a program of MPI.');

const median = numbers => numbers.sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

for (const ranks of values.ranks.split(',')) {
  /** Library → elements → one p50 for each round. */
  const times = Object.fromEntries(Object.keys(peers).map(peer => [peer, new Map(elements.map(n => [n, []]))]));
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const [peer, measure] of Object.entries(peers)) {
      for (const row of measure(ranks)) times[peer].get(row.elements).push(row.p50Us);
    }
  }
  const rows = elements.map(count => {
    const p50Us = Object.fromEntries(Object.keys(peers).map(peer => [peer, median(times[peer].get(count))]));
    const best = Math.min(...['gloo', 'open mpi tcp'].map(peer => p50Us[peer] ?? Infinity));
    const ratio = peer => Number((best / p50Us[peer]).toFixed(2));
    return {
      ranks: Number(ranks),
      bytes: 4 * count,
      p50Us,
      tcpToBest: ratio('gradring tcp'),
      ipcToBest: ratio('gradring ipc'),
    };
  });
  if (values.json) rows.forEach(row => console.log(JSON.stringify(row)));
  else console.table(rows.map(({ p50Us, ...row }) => ({ ...row, ...p50Us })));
}
