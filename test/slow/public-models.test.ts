import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { launch } from '../../src/launcher/launch';
import { Capture } from '../launcher/support';
import { largestError } from '../tensorflow/support';

const fixtures = path.join(__dirname, '../tensorflow/fixtures');
const { KINDS } = jest.requireActual<{ KINDS: string[] }>(path.join(fixtures, 'public-models.js'));
const run = promisify(execFile);

interface Tuned {
  readonly history: Record<string, number[]>;
  readonly weights: number[][];
}

interface TunedOnRing extends Tuned {
  readonly seen: number;
  readonly saves: number;
  readonly hash: string;
  readonly reloaded: number[][];
}

/** Models of the kinds that people publish, fine-tuned without compression, as the first call of each process. */
describe('a published model, fine-tuned', () => {
  let folder: string;
  let alone: Record<string, Tuned>;
  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'gradring-public-models-'));
    await run(process.execPath, [path.join(fixtures, 'public-models.js'), folder]);
    const env = { ...process.env, GRADRING_BACKEND: 'wasm' };
    const { stdout } = await run(process.execPath, [path.join(fixtures, 'fine-tune.js'), folder], { env });
    alone = JSON.parse(stdout) as Record<string, Tuned>;
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  // A ring of one has the same way into a model; that takes some kinds only.
  const cases = KINDS.flatMap((kind, i) => (i < 4 ? [1, 3] : [3]).map(ranks => [kind, ranks] as const));

  test.each(cases)('(%s) on %i ranks learns what one plain process learns', async (kind, ranks) => {
    const output = new Capture();
    const { exitCode } = await launch({
      ranks,
      script: path.join(fixtures, 'fine-tune.js'),
      args: [folder, kind],
      env: { GRADRING_BACKEND: 'wasm' },
      stdout: output,
      stderr: output,
    });
    expect({ exitCode, output: output.text }).toEqual({ exitCode: 0, output: '' });
    const tuned = Array.from({ length: ranks }, (_, rank) => {
      const name = `tuned-${kind.replaceAll(' ', '-')}-${ranks}-${rank}`;
      return JSON.parse(readFileSync(path.join(folder, name, 'result.json'), 'utf8')) as TunedOnRing;
    });
    const plain = alone[kind]!;
    for (const { history, weights, reloaded, seen, saves, hash } of tuned) {
      expect(hash).toBe(tuned[0]!.hash);
      expect({ seen, saves }).toEqual({ seen: 2, saves: 2 });
      expect(reloaded).toEqual(weights);
      expect(Object.keys(history)).toEqual(Object.keys(plain.history));
      for (const [name, values] of Object.entries(history)) {
        expect(largestError(values, plain.history[name]!)).toBeLessThan(1e-6);
      }
      expect(largestError(weights.flat(), plain.weights.flat())).toBeLessThan(1e-5);
      expect(weights).not.toEqual([]);
    }
  });
});
