import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

/** Programs in a project that has the package and its dependencies, and no TensorFlow.js. */

const ROOT = path.join(__dirname, '../..');
const run = promisify(execFile);

let project: string;

/** Makes the project for the tests of a file. */
export function useProject(): void {
  beforeAll(() => {
    project = mkdtempSync(path.join(tmpdir(), 'gradring-core-'));
    const modules = path.join(project, 'node_modules');
    const installed = path.join(modules, 'gradring');
    mkdirSync(modules);
    const isKept = (file: string) => !/\.map$|\/\.[^/]+$/.test(file);
    cpSync(path.join(ROOT, 'dist'), path.join(installed, 'dist'), { recursive: true, filter: isKept });
    cpSync(path.join(ROOT, 'package.json'), path.join(installed, 'package.json'));
    const description = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
      dependencies: Record<string, string>;
    };
    // A link is resolved to the package itself, which finds its own dependencies where it is.
    for (const name of Object.keys(description.dependencies)) {
      symlinkSync(path.join(ROOT, 'node_modules', name), path.join(modules, name), 'dir');
    }
  });
  afterAll(() => rmSync(project, { recursive: true, force: true }));
}

/** What a program prints, line by line, in order. */
export async function program(name: string, source: string, options: string[] = [], env = {}): Promise<string[]> {
  writeFileSync(path.join(project, name), source);
  const where = { cwd: project, timeout: 60_000, env: { ...process.env, ...env } };
  const { stdout } = await run(process.execPath, [...options, name], where);
  return stdout.trim().split('\n').sort();
}

/** The arguments of Node that start so many ranks. */
export const runOf = (ranks: number) => ['node_modules/gradring/dist/cli.js', 'run', '-n', `${ranks}`, '--no-prefix'];

/** As a user would write it: a linear model, whose gradients are worked out by hand. */
const TRAINING = `
  const ring = await connect();
  const weights = { w: new Float32Array(3), b: new Float32Array(1) };
  weights.w.fill(ring.rank); // all ranks begin as rank 0 does
  await ring.broadcastVariables(weights);

  const gradients = ring.gradients({ w: [3], b: [] }, { momentum: 0.9, compression: dgc({ steps: 200 }) });
  const checkpoint = ring.checkpoint({ arrays: weights, gradients }, { dir: process.env.SAVED ?? 'saved', every: 100 });
  const { step: first } = await checkpoint.resume();
  for (let step = first; step < 200; step++) {
    const x = [1, 2, 3].map(i => Math.sin(i * (step + 10 * ring.rank))); // each rank has rows of its own
    const y = 2 * x[0] - x[1] + 0.5 * x[2] + 3;
    const error = x.reduce((sum, value, i) => sum + value * weights.w[i], weights.b[0]) - y;
    const updates = await gradients.step({ w: Float32Array.from(x, value => error * value), b: Float32Array.of(error) });
    for (const name of ['w', 'b']) updates[name].forEach((update, i) => (weights[name][i] -= 0.02 * update));
    if (ring.rank === 1 && step === Number(process.env.STOP)) process.kill(process.pid, 'SIGTERM');
    await checkpoint.afterStep();
  }
  const hash = await ring.verifyReplicas(weights);
  const { bytesSent, denseBytes } = gradients.statistics;
  const learnt = [...weights.w, ...weights.b].map(value => value.toFixed(1)).join(' ');
  console.log(ring.rank, 'of', ring.worldSize, 'from', first, learnt, bytesSent > 0, denseBytes > 0, hash.slice(0, 8));
  gradients.dispose();
  await ring.close();`;

export const COMMON_JS = `const { connect, dgc } = require('gradring/core');\n(async () => {${TRAINING}\n})();\n`;

/** What a rank has learnt, by the line that it prints. */
export const hashOf = (line: string) => line.split(' ').at(-1)!;

/** So many ranks train, alike, and go on from a checkpoint in other processes. Returns the hash of what they learnt. */
export async function expectTraining(ranks: number): Promise<string> {
  const env = { SAVED: `saved-${ranks}` };
  const lines = await program('train.cjs', COMMON_JS, runOf(ranks), env);
  const expected = (first: number) =>
    Array.from({ length: ranks }, (_, rank) => {
      const sends = `${first === 0 && ranks > 1}`; // the statistics are those of this process
      return expect.stringMatching(
        new RegExp(`^${rank} of ${ranks} from ${first} 2\\.0 -1\\.0 0\\.5 3\\.0 ${sends} ${sends} [0-9a-f]{8}$`),
      );
    });
  expect(lines).toEqual(expected(0));
  const hashes = lines.map(hashOf);
  expect(new Set(hashes).size).toBe(1);
  const source = `import { connect, dgc } from 'gradring/core';\n${TRAINING}`;
  const again = await program('train.mjs', source, runOf(ranks), env);
  expect(again).toEqual(expected(200));
  expect(again.map(hashOf)).toEqual(hashes);
  return hashes[0]!;
}
