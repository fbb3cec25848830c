import { spawn, spawnSync } from 'node:child_process';
import path from 'node:path';
import { isRunning, ROOT, script, temporaryFolder, waitUntil } from '../launcher/support';

/** What a rank raised, as its script told. */
export interface Raised {
  readonly code: string;
  readonly rank?: number;
  readonly address?: string;
  readonly operation?: string;
  readonly step?: number;
  readonly message: string;
}

/** How a run under `gradring run` ended, and what it left behind. */
export interface FaultyRun {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** By rank. */
  readonly raised: Raised[];
  /** Files in /dev/shm and in the folder for temporary files. */
  readonly left: string[];
  /** Ranks that outlived the run. */
  readonly orphans: number[];
  /** The launcher's words on why the run failed. */
  readonly summary: string;
}

export interface FaultOptions {
  readonly env?: NodeJS.ProcessEnv;
  /** Options of `gradring run`. */
  readonly args?: string[];
  /** Shell commands before the run, in namespaces of its own for mounts and users. */
  readonly prepare?: string;
  /** What to run instead, a script that tells what it raised as these do. */
  readonly script?: string;
  /** What happens when all ranks are ready. */
  readonly during?: (pids: number[], output: { stdout: string; stderr: string }) => Promise<void> | void;
}

/** Whether a run can have a /dev/shm of its own here, where no other program leaves files. */
export const canIsolate = spawnSync('unshare', ['-Urm', 'mount', '-t', 'tmpfs', 'none', '/dev/shm']).status === 0;

/**
 * Scripts find `Communicator`, `ring` (connected), `say(line)`, `sleep(ms)`, and `raise(error)`, which tells what the
 * rank raised and sets the exit code 1. When they are `ready()`, the test goes on.
 */
export const PRELUDE = `
  const { writeSync } = require('node:fs');
  const { Communicator } = require(${JSON.stringify(path.join(ROOT, 'dist/communicator/communicator.js'))});
  const say = line => writeSync(1, line + '\\n');
  const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
  const ready = () => say('rank ' + process.env.RANK + ' ready ' + process.pid);
  const raise = ({ code, message, details }) => {
    say('raised ' + process.env.RANK + ' ' + JSON.stringify({ code, message, ...details }));
    process.exitCode = 1;
  };`;

/** Calls until it fails. `before` runs first, on every rank. */
export const untilFailure = (before = '', call = 'await ring.allReduce(new Float32Array(100_000))') => `
  const ring = await Communicator.connect();
  await ring.barrier();
  ${before}
  ready();
  try { for (;;) { ${call}; } } catch (error) { raise(error); }`;

/** Runs the body of an async function on so many ranks, to the end. */
export async function runFaulty(ranks: number, source: string, options: FaultOptions = {}): Promise<FaultyRun> {
  const { env = {}, args = [], prepare = 'true', during } = options;
  const file = options.script ?? script(`${PRELUDE}\n(async () => {\n${source}\n})();`);
  const temporary = temporaryFolder();
  const command = [process.execPath, path.join(ROOT, 'dist/cli.js'), 'run', '-n', String(ranks), '--no-prefix'];
  const line = `${prepare} && { "$@"; code=$?; ls -A /dev/shm "$TMPDIR" | sed 's/^/left /'; exit $code; }`;
  const shell = ['-c', canIsolate ? `mount -t tmpfs none /dev/shm && ${line}` : line, 'sh', ...command, ...args, file];
  const [program, ...words] = canIsolate ? ['unshare', '-Urm', 'sh', ...shell] : ['sh', ...shell];
  const child = spawn(program!, words, {
    env: { ...process.env, TMPDIR: temporary, GRADRING_TIMEOUT_MS: '20000', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  const ended = new Promise<number | null>(resolve => child.once('close', resolve));
  const pidsOf = () => {
    const pids: number[] = [];
    for (const [, rank, pid] of output.stdout.matchAll(/^rank (\d+) ready (\d+)$/gm)) pids[Number(rank)] = Number(pid);
    return pids;
  };
  try {
    if (during !== undefined) {
      await waitUntil('all ranks to be ready', () => Object.keys(pidsOf()).length === ranks || child.exitCode !== null);
      await during(pidsOf(), output);
    }
    const exitCode = await ended;
    const raised = raisedIn(output.stdout);
    const left = [...output.stdout.matchAll(/^left ([^:]+)$/gm)].map(([, name]) => name!);
    const orphans = Object.values(pidsOf()).filter(isRunning);
    const summary = /^gradring: rank .*root cause.*$/m.exec(output.stderr)?.[0] ?? '';
    return { exitCode, ...output, raised, left, orphans, summary };
  } finally {
    child.kill('SIGKILL');
    for (const pid of Object.values(pidsOf())) if (isRunning(pid)) process.kill(pid, 'SIGKILL');
  }
}

/** What ranks told that they raised, by rank. */
export function raisedIn(stdout: string): Raised[] {
  const raised: Raised[] = [];
  for (const [, rank, text] of stdout.matchAll(/^raised (\d+) (.*)$/gm))
    raised[Number(rank)] = JSON.parse(text!) as Raised;
  return raised;
}

/** All survivors raised the same, and nothing is left of the run. */
export function expectAgreed(run: FaultyRun, survivors: number[], expected: Partial<Raised>): void {
  const { raised, left, orphans, stdout, stderr } = run;
  const told = survivors.map(rank => {
    const { code, rank: lost, operation, step } = raised[rank] ?? { code: `nothing: ${stdout}${stderr}` };
    return { code, rank: lost, operation, step };
  });
  const { code, rank } = told[0]!;
  expect(told).toEqual(told.map(one => ({ ...one, code, rank })));
  for (const one of told) expect(one).toMatchObject(expected);
  expect({ left, orphans }).toEqual({ left: [], orphans: [] });
}
