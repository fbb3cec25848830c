import { spawnSync } from 'node:child_process';
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Finding } from '../../src/doctor/finding';

const CLI = path.join(__dirname, '../../dist/cli.js');

/** How long it takes is the speed of the slowest backend. */
function doctor(args: string[], { cwd, env = {} }: { cwd?: string; env?: NodeJS.ProcessEnv } = {}) {
  return spawnSync(process.execPath, [CLI, 'doctor', ...args], {
    cwd,
    encoding: 'utf8',
    env: { ...process.env, ...env },
  });
}

test('tells what is here, for programs', () => {
  const { status, stdout } = doctor(['--json']);
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

describe('on a machine with troubles', () => {
  let project: string;
  let status: number | null;
  let stdout: string;
  beforeAll(() => {
    project = realpathSync(mkdtempSync(path.join(tmpdir(), 'gradring-doctor-')));
    writeFileSync(path.join(project, 'package.json'), '{}');
    const env = { XDG_CACHE_HOME: path.join(project, 'cache') };
    const notes = JSON.stringify(path.join(__dirname, '../../dist/native-tensorflow/link-note.js'));
    const note = ['-e', `require(${notes}).writeNote('tfjs-node', '/a/venv')`];
    spawnSync(process.execPath, note, { cwd: project, env: { ...process.env, ...env } });
    const slowClock = path.join(project, 'slow-clock.js');
    writeFileSync(slowClock, 'const now = performance.now.bind(performance); performance.now = () => 1000 * now();');
    const slow = { NODE_OPTIONS: `--require ${slowClock}` };
    ({ status, stdout } = doctor(['--master-addr', 'no-such-host.invalid'], {
      cwd: project,
      env: { ...env, ...slow },
    }));
  }, 90_000);
  afterAll(() => rmSync(project, { recursive: true }));

  test('a link that npm has removed is a warning, with the command that makes it again', () => {
    expect(stdout).toMatch(
      /^warning +tfjs-node +.*npx gradring link-tensorflow --package tfjs-node --from \/a\/venv\b/m,
    );
  });

  test('a master that nobody knows is a problem, and the rest is told all the same', () => {
    expect(stdout).toMatch(/^problem +Network +MASTER_ADDR is 'no-such-host\.invalid'/m);
    expect(stdout).toMatch(/^ok +Node +v/m);
    expect(status).toBe(1);
  });

  test('the speed of a slow backend has two digits, and is not 0', () => {
    const [, gigaflops] = /^ok +cpu +works: (\S+) GFLOP\/s in a matrix product$/m.exec(stdout)!;
    expect(Number(gigaflops)).toBeGreaterThan(0);
    expect(Number(gigaflops)).toBeLessThan(0.1);
    expect(gigaflops).toBe(String(Number(Number(gigaflops).toPrecision(2))));
  });
});
