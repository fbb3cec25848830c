import { spawnSync } from 'node:child_process';
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Finding } from '../../src/doctor/finding';
import { cleanUp, temporaryFolder } from '../launcher/support';

const CLI = path.join(__dirname, '../../dist/cli.js');

afterEach(cleanUp);

function doctor(...args: string[]) {
  return doctorIn({ env: process.env }, ...args);
}

function doctorIn({ cwd, env }: { cwd?: string; env: NodeJS.ProcessEnv }, ...args: string[]) {
  return spawnSync(process.execPath, [CLI, 'doctor', ...args], {
    cwd,
    encoding: 'utf8',
    env: { ...env, NO_COLOR: '1' },
  });
}

test('tells what is here, for programs', () => {
  const { status, stdout } = doctor('--json');
  const { ok, findings } = JSON.parse(stdout) as { ok: boolean; findings: Finding[] };
  const of = (what: string) => findings.find(finding => finding.what === what);
  expect(of('Node')).toMatchObject({ verdict: 'ok', details: { version: process.version } });
  expect(of('ZeroMQ')?.details).toMatchObject({ curve: true });
  expect(of('WebAssembly')).toMatchObject({ verdict: 'ok', details: { simd: true, sharedMemory: true } });
  expect(of('TensorFlow.js')).toMatchObject({ verdict: 'ok', words: expect.stringMatching(/^[\d.]+, one copy/) });
  for (const backend of ['wasm', 'cpu']) {
    expect(of(backend)).toMatchObject({ verdict: 'ok', details: { proof: { device: 'CPU' } } });
  }
  expect(of('A training')?.details['backend']).toBeTruthy();
  expect(findings.map(({ what }) => what)).toEqual(
    expect.arrayContaining(['Cores', 'Memory', 'Network', 'tfjs-node-gpu']),
  );
  expect({ ok, status }).toEqual({ ok: true, status: 0 });
}, 90_000);

test('a link that npm has removed is a warning, with the command that makes it again', () => {
  const project = realpathSync(mkdtempSync(path.join(tmpdir(), 'gradring-doctor-')));
  const inProject = { cwd: project, env: { ...process.env, XDG_CACHE_HOME: path.join(project, 'cache') } };
  try {
    writeFileSync(path.join(project, 'package.json'), '{}');
    const notes = JSON.stringify(path.join(__dirname, '../../dist/native-tensorflow/link-note.js'));
    spawnSync(process.execPath, ['-e', `require(${notes}).writeNote('tfjs-node', '/a/venv')`], inProject);
    const { findings } = JSON.parse(doctorIn(inProject, '--json').stdout) as { findings: Finding[] };
    expect(findings.find(({ what }) => what === 'tfjs-node')).toMatchObject({
      verdict: 'warning',
      words: expect.stringContaining('npx gradring link-tensorflow --package tfjs-node --from /a/venv'),
      details: { state: 'link lost' },
    });
  } finally {
    rmSync(project, { recursive: true });
  }
}, 90_000);

test('a master that nobody knows is a problem', () => {
  const { status, stdout } = doctor('--master-addr', 'no-such-host.invalid');
  expect(stdout).toMatch(/^problem +Network +MASTER_ADDR is 'no-such-host\.invalid'/m);
  expect(stdout).toMatch(/^ok +Node +v/m);
  expect(status).toBe(1);
}, 90_000);

test('the speed of a slow backend has two digits, and is not 0', () => {
  const slowClock = path.join(temporaryFolder(), 'slow-clock.js');
  writeFileSync(slowClock, 'const now = performance.now.bind(performance); performance.now = () => 1000 * now();');
  const { stdout } = spawnSync(process.execPath, [CLI, 'doctor', '--json'], {
    encoding: 'utf8',
    env: { ...process.env, NODE_OPTIONS: `--require ${slowClock}` },
  });
  const { findings } = JSON.parse(stdout) as { findings: Finding[] };
  const { words, details } = findings.find(({ what }) => what === 'cpu')!;
  const { gigaflops } = details['proof'] as { gigaflops: number };
  expect(gigaflops).toBeGreaterThan(0);
  expect(gigaflops).toBeLessThan(0.1);
  expect(words).toBe(`works: ${Number(gigaflops.toPrecision(2))} GFLOP/s in a matrix product`);
}, 90_000);
