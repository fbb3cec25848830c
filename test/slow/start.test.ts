import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { cleanUp, Program, ROOT } from '../launcher/support';

afterEach(cleanUp);

describe('npm start', () => {
  let folder: string;
  beforeEach(() => (folder = mkdtempSync(path.join(tmpdir(), 'gradring-start-'))));
  afterEach(() => rmSync(folder, { recursive: true }));

  /** Runs it in a fraction of its time. */
  async function start(...options: string[]) {
    const args = [path.join(ROOT, 'scripts/start.js'), '--epochs', '1', ...options];
    const program = new Program(args, { GRADRING_BACKEND: 'wasm' });
    const { exitCode } = await program.exited;
    return { exitCode, output: program.stdout };
  }

  interface Method {
    readonly secondsToTarget: number | null;
    readonly seconds: number;
    readonly curve: { readonly seconds: number; readonly testAccuracy: number }[];
    readonly trainings: {
      readonly seed: number;
      readonly linkRate: string | null;
      readonly steps: number;
      readonly bytesSent: number;
    }[];
  }

  interface Started {
    readonly gain: {
      readonly alone: Method;
      readonly dense: Method;
      readonly compressed: Method & { readonly compressionRatio: number };
      readonly speedup: number | null;
      readonly denseSpeedup: number | null;
    };
    readonly replicasIdentical: boolean;
  }

  test('trains on one machine and on two, then a small network on four ranks; only the first seed is paced', async () => {
    const json = path.join(folder, 'result.json');
    const { exitCode, output } = await start('--seeds', '7,8', '--target-accuracy', '0.1', '--json', json);
    expect({ exitCode, output }).toEqual({
      exitCode: 0,
      output: expect.stringMatching(/^Part 3 of 5: 2 machines, fast links/m),
    });
    const { gain, replicasIdentical } = JSON.parse(readFileSync(json, 'utf8')) as Started;
    const all = [gain.alone, gain.dense, gain.compressed];
    const ratesOf = ({ trainings }: Method) => Object.fromEntries(trainings.map(each => [each.seed, each.linkRate]));
    expect(all.map(ratesOf)).toEqual([
      { 7: null, 8: null },
      { 7: '50mbit', 8: null },
      { 7: '50mbit', 8: null },
    ]);
    for (const { trainings, seconds, secondsToTarget, curve } of all) {
      // An epoch of all images: on one machine in batches that are as large as those of two together.
      expect(trainings.map(({ steps }) => steps)).toEqual([9, 9]);
      expect(curve).toHaveLength(1);
      expect(secondsToTarget).toBe(curve[0]!.testAccuracy >= 0.1 ? curve[0]!.seconds : null);
      expect(seconds).toBeGreaterThanOrEqual(curve[0]!.seconds);
    }
    expect(gain.dense.trainings[0]!.bytesSent).toBe(gain.dense.trainings[1]!.bytesSent); // the pace changes nothing of it
    expect(gain.compressed.compressionRatio).toBeGreaterThan(60);
    expect(gain.alone.trainings[0]!.bytesSent).toBe(0);
    expect(replicasIdentical).toBe(true);
    expect(output).toMatch(/2 machines, 50 Mbit\/s\n678,218 parameters +alone +dense +lowRank\(\)\n/);
    expect(output).toMatch(/\n138,698 parameters, 4 ranks +alone +dense +DGC 99.9 %\n/);
  }, 300_000);

  test('ends with the exit code of ranks that fail, and has no result', async () => {
    const empty = path.join(folder, 'empty');
    mkdirSync(empty);
    const { exitCode, output } = await start('--seeds', '7', '--data-dir', empty);
    expect(exitCode).toBe(1);
    expect(output).toMatch(/^Part 1 of 4: one machine\n[^\n]*\n$/); // and the backend
  });
});
