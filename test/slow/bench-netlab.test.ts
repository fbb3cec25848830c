import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gradring, isRunning, Program, ROOT, temporaryFolder, waitUntil } from '../launcher/support';
import { ownedLab, partsOf, removeLabs } from './support/netlab';
import { describeWith } from './support/programs';
import { freePort } from '../support/rings';
import { needs, testWhere } from '../support/test-where';

afterEach(removeLabs);

/** The built package in a folder of its own, with another netlab, or none. */
function packageWith(netlab: string | undefined): string {
  const folder = temporaryFolder();
  cpSync(path.join(ROOT, 'dist'), path.join(folder, 'dist'), { recursive: true });
  cpSync(path.join(ROOT, 'package.json'), path.join(folder, 'package.json'));
  symlinkSync(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'));
  mkdirSync(path.join(folder, 'scripts'));
  if (netlab !== undefined) {
    writeFileSync(path.join(folder, 'scripts/netlab'), netlab);
    chmodSync(path.join(folder, 'scripts/netlab'), 0o755);
  }
  return path.join(folder, 'dist/cli.js');
}

testWhere(needs.root)('the ranks are handed to netlab, and rows tell the fraction of the line rate', async () => {
  // Stands in for the real one: checks what it is asked, then runs the command twice on this host.
  const cli = packageWith(`#!/usr/bin/env node
    const { spawn } = require('node:child_process');
    const [...args] = process.argv.slice(2);
    const end = args.indexOf('--');
    if (args.slice(0, end).join(' ') !== 'with 2 --rate 100mbit --no-prefix') process.exit(9);
    for (const RANK of ['0', '1']) {
      const env = { ...process.env, RANK, WORLD_SIZE: '2', MASTER_ADDR: '127.0.0.1', MASTER_PORT: '${await freePort()}' };
      spawn(args[end + 1], args.slice(end + 2), { env, stdio: 'inherit' });
    }`);
  const size = ['--min-bytes', '4K', '--max-bytes', '4K', '--iterations', '2', '--warm-up', '1'];
  const program = new Program([cli, 'bench', 'all-reduce', '-n', '2', ...size, '--netlab', '100mbit', '--json']);
  expect(await program.exited).toEqual({ exitCode: 0, signal: null });
  const row = JSON.parse(program.stdout) as { busbwGBps: number; lineFraction: number };
  expect(row.lineFraction).toBeCloseTo(row.busbwGBps * 80, 3);
});

testWhere(needs.root)('a wrong result that rank 0 tells of is exit code 1', async () => {
  const row = { timeUs: { min: 1, p50: 1, p99: 1 }, bytes: 4, busbwGBps: 1, wrong: 3 };
  const cli = packageWith(`console.log(JSON.stringify({ row: ${JSON.stringify(row)} }));`);
  const program = new Program([cli, 'bench', 'barrier', '-n', '2', '--netlab', '1gbit', '--json']);
  expect((await program.exited).exitCode).toBe(1);
  expect(JSON.parse(program.stdout)).toMatchObject({ wrong: 3 });
});

testWhere(needs.root)('its failure is this one’s', async () => {
  const cli = packageWith(`console.error('netlab: no bridges here'); process.exit(2);`);
  const program = new Program([cli, 'bench', 'barrier', '-n', '2', '--netlab', '1gbit']);
  expect((await program.exited).exitCode).toBe(2);
  expect(program.stderr).toBe('netlab: no bridges here\n');
});

test('where it cannot be, it says why', async () => {
  const program = new Program([packageWith(undefined), 'bench', 'barrier', '-n', '2', '--netlab', '1gbit']);
  expect((await program.exited).exitCode).toBe(2);
  expect(program.stderr).toMatch(
    /^gradring: ERR_INVALID_ARGUMENT: --netlab needs (Linux|root|.*netlab, which is not there)/,
  );
});

describeWith(['ip'], 'a benchmark in a network lab, killed by SIGKILL,', () => {
  test('leaves neither ranks nor the lab', async () => {
    const size = ['--min-bytes', '16M', '--max-bytes', '16M'];
    const program = gradring('bench', 'all-reduce', '-n', '2', ...size, '--netlab', '1mbit'); // takes minutes
    const { pid } = program.child;
    const netlab = () => numbers(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8'))[0];
    await waitUntil('netlab to start', () => netlab() !== undefined);
    const lab = ownedLab(`p${netlab()!.toString(36)}`);
    const ranks = () => [0, 1].map(rank => processesIn(`nl-${lab}-${rank}`));
    await waitUntil('the ranks to run', () => ranks().every(pids => pids.length > 0));
    const pids = [netlab()!, ...ranks().flat()];

    program.child.kill('SIGKILL');
    await waitUntil('the lab to be gone', () => partsOf(lab).length === 0);
    expect(pids.filter(isRunning)).toEqual([]);
  });
});

function processesIn(namespace: string): number[] {
  return numbers(spawnSync('ip', ['netns', 'pids', namespace], { encoding: 'utf8' }).stdout);
}

const numbers = (text: string) => text.split(/\s+/).filter(Boolean).map(Number);
