import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { Communicator } from '../../src/communicator/communicator';
import type { ConnectInput } from '../../src/rendezvous/connect-options';
import type { GradringError } from '../../src/errors';
import { findFreePort, requireFreePort } from '../../src/rendezvous/master-port';

const DIST = path.join(__dirname, '../../dist');

/** A port that nobody listens at, and that nobody who asks for any port gets meanwhile. */
export const freePort = (): Promise<number> => findFreePort('127.0.0.1');

/**
 * So many free ports, one after the other. They lie below those that Linux gives to connections, and each worker of
 * Jest has its own, so nobody takes them meanwhile.
 */
export async function freeRange(count: number): Promise<number[]> {
  const start = 20_000 + 1_000 * Number(process.env['JEST_WORKER_ID']);
  for (let first = start; ; first += count) {
    const ports = Array.from({ length: count }, (_, i) => first + i);
    const areFree = Promise.all(ports.map(port => requireFreePort('127.0.0.1', port, '')));
    if (await areFree.then(Boolean, () => false)) return ports;
  }
}

/** Settles when somebody listens there. */
export async function untilListening(port: number): Promise<void> {
  const listens = (): Promise<boolean> =>
    new Promise(resolve => {
      const socket = connect(port, '127.0.0.1', () => resolve(true)).once('error', () => resolve(false));
      socket.once('connect', () => socket.destroy());
    });
  while (!(await listens())) await sleep(20);
}

/** All ranks of a ring, in this process. */
export async function connectRing(worldSize: number, options: ConnectInput = {}): Promise<Communicator[]> {
  const masterPort = await freePort();
  const ranks = Array.from({ length: worldSize }, (_, rank) => rank);
  return Promise.all(ranks.map(rank => Communicator.connect({ rank, worldSize, masterPort, ...options })));
}

const open: Communicator[] = [];

/** {@link connectRing}, for a test that ends with {@link closeRings}. */
export async function ringOf(...args: Parameters<typeof connectRing>): Promise<Communicator[]> {
  const ring = await connectRing(...args);
  open.push(...ring);
  return ring;
}

/** Closes what {@link ringOf} has connected. */
export function closeRings(): Promise<void> {
  return closeRing(open.splice(0));
}

export async function closeRing(ring: readonly Communicator[]): Promise<void> {
  await Promise.all(ring.map(communicator => communicator.close()));
}

/** What a promise that must fail fails with. */
export async function failureOf(promise: Promise<unknown>): Promise<GradringError> {
  const result = await promise.then(
    value => ({ value }),
    (error: GradringError) => ({ error }),
  );
  if ('error' in result) return result.error;
  throw new Error(`It was to fail, but gave ${String(result.value)}.`);
}

export const sleep = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms));

/** Waits for a condition; the test's own limit is what ends a wait in vain. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(2);
}

/** How a rank's process ended, and what it wrote. */
export interface RankEnd {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A rank as a process of its own. */
export class RankProcess {
  stdout = '';
  stderr = '';
  readonly child: ChildProcess;
  readonly ended: Promise<RankEnd>;

  /** @param openFiles How many files the process may have open; by default as many as this one. */
  constructor(source: string, env: NodeJS.ProcessEnv, openFiles?: number) {
    const prelude = `
      const { Communicator } = require(${JSON.stringify(path.join(DIST, 'communicator/communicator.js'))});
      const say = text => require('node:fs').writeSync(1, text + '\\n');
      const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
      const tell = error => say('error ' + error.code + ' ' + error.rank);
      (async () => {\n`;
    const limit = openFiles === undefined ? '' : `ulimit -n ${openFiles} && `;
    const node = [process.execPath, '-e', `${prelude}${source}\n})();`];
    this.child = spawn('sh', ['-c', `${limit}exec "$0" "$@"`, ...node], {
      env: { ...process.env, ...NOTE_FOLDERS, ...env },
      stdio: 'pipe',
    });
    this.child.stdout!.setEncoding('utf8').on('data', (text: string) => (this.stdout += text));
    this.child.stderr!.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
    this.ended = new Promise(resolve =>
      this.child.once('close', (exitCode, signal) =>
        resolve({ exitCode, signal, stdout: this.stdout, stderr: this.stderr }),
      ),
    );
  }

  /** Waits for a line on standard output, about as long as a test may take. */
  async said(line: string): Promise<void> {
    const deadline = Date.now() + 100_000;
    while (!this.stdout.split('\n').includes(line)) {
      if (Date.now() > deadline || this.child.exitCode !== null) {
        throw new Error(`A rank never said '${line}' but: ${this.stdout}${this.stderr}`);
      }
      await sleep(10);
    }
  }
}

const processes: RankProcess[] = [];
const folders: string[] = [];
const notedFolders = path.join(os.tmpdir(), `grt-noted-${process.pid}`);

/** Environment of ranks, for {@link foldersLeft}. */
export const NOTE_FOLDERS = {
  NODE_OPTIONS: `--require ${JSON.stringify(path.join(__dirname, 'note-folders.js'))}`,
  NOTED_FOLDERS: notedFolders,
};

/** Environment of ranks that cannot make system calls. So the links of a ring that stands keep their ports open. */
export const WITHOUT_KOFFI = {
  NODE_OPTIONS: `${NOTE_FOLDERS.NODE_OPTIONS} --require ${JSON.stringify(path.join(__dirname, 'no-koffi.js'))}`,
};

/**
 * Starts a ring of processes. Each runs the body of an async function, which finds `Communicator`, `say(line)`,
 * `tell(error)` and `sleep(ms)`.
 *
 * @param openFiles How many files each may have open; by default as many as this process.
 */
export async function startRanks(
  worldSize: number,
  source: string | ((rank: number) => string),
  env: NodeJS.ProcessEnv = {},
  openFiles?: number,
): Promise<RankProcess[]> {
  const port = await freePort();
  const place = { WORLD_SIZE: String(worldSize), MASTER_PORT: String(port) };
  const ranks = Array.from({ length: worldSize }, (_, rank) => {
    const text = typeof source === 'string' ? source : source(rank);
    return new RankProcess(text, { ...place, RANK: String(rank), ...env }, openFiles);
  });
  processes.push(...ranks);
  return ranks;
}

/** A folder that the test's end removes. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'grt-'));
  folders.push(folder);
  return folder;
}

/** What the ranks that a test started have made and not removed. */
export function foldersLeft(): string[] {
  const made = existsSync(notedFolders) ? readFileSync(notedFolders, 'utf8').split('\n') : [];
  return made.filter(folder => folder !== '' && existsSync(folder));
}

/** Ends what a test left running, and removes what that made. */
export async function cleanUpRanks(): Promise<void> {
  for (const { child } of processes) child.kill('SIGKILL');
  await Promise.all(processes.splice(0).map(rank => rank.ended));
  for (const folder of [...folders.splice(0), ...foldersLeft(), notedFolders])
    rmSync(folder, { recursive: true, force: true });
}
