import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Writable } from 'node:stream';

export const ROOT = path.join(__dirname, '../..');

const folders: string[] = [];
const programs: Program[] = [];
const rankPids = new Set<number>();

/** A folder that is removed by {@link cleanUp}. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'gradring-launcher-'));
  folders.push(folder);
  return folder;
}

/** A script for ranks, in a folder of its own. */
export function script(source: string, name = 'script.js'): string {
  const file = path.join(temporaryFolder(), name);
  writeFileSync(file, source);
  return file;
}

/** The launcher's line at the end of a run whose scripts do not connect. */
export const UNCONNECTED =
  'gradring: no rank has called connect(): without it each process works alone. A script that trains one model on all ranks calls connect() of gradring, and wraps its optimizer with ring.wrap.';

/** A stream that keeps what it is given. */
export class Capture extends Writable {
  text = '';

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: () => void): void {
    this.text += chunk.toString();
    callback();
  }

  get lines(): string[] {
    return this.text.split('\n').slice(0, -1);
  }
}

/** A Node program that runs beside the test, with what it wrote so far. */
export class Program {
  stdout = '';
  stderr = '';
  readonly child: ChildProcess;
  readonly exited: Promise<{ exitCode: number | null; signal: NodeJS.Signals | null }>;

  constructor(args: string[], env: NodeJS.ProcessEnv = {}) {
    this.child = spawn(process.execPath, args, {
      cwd: temporaryFolder(),
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.child.stdout!.setEncoding('utf8').on('data', (text: string) => (this.stdout += text));
    this.child.stderr!.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
    this.exited = new Promise(resolve => this.child.once('close', (exitCode, signal) => resolve({ exitCode, signal })));
    programs.push(this);
  }

  /** Waits until the program has written all of the lines `rank <r> ready <pid>`, and returns the pids by rank. */
  async readyRanks(count: number): Promise<number[]> {
    const pids: number[] = [];
    await waitUntil(`${count} ranks to be ready`, () => {
      for (const [, rank, pid] of this.stdout.matchAll(/rank (\d+) ready (\d+)/g)) pids[Number(rank)] = Number(pid);
      return Object.keys(pids).length === count;
    });
    for (const pid of pids) rankPids.add(pid);
    return pids;
  }
}

/** `gradring …` as a user starts it. */
export function gradring(...args: string[]): Program {
  return new Program([path.join(ROOT, 'dist/cli.js'), ...args]);
}

/** The line that {@link Program.readyRanks} waits for, as a statement for scripts. */
export const SAY_READY = `require('node:fs').writeSync(1, 'rank ' + process.env.RANK + ' ready ' + process.pid + '\\n');`;

/** Ends what a test left running, and removes its folders. */
export async function cleanUp(): Promise<void> {
  for (const { child } of programs) child.kill('SIGKILL');
  for (const pid of rankPids) if (isRunning(pid)) process.kill(-pid, 'SIGKILL'); // Only if the launcher failed to.
  rankPids.clear();
  await Promise.all(programs.splice(0).map(program => program.exited));
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}

/** Whether the process runs. One that has ended but was not yet collected by its parent does not. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Waits for a condition about as long as a test may take: longer than any machine needs for what comes. */
export async function waitUntil(what: string, condition: () => boolean): Promise<void> {
  const deadline = Date.now() + 100_000;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`Waited in vain for ${what}.`);
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}
