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
    const short = ['--epochs', '1', '--batch-size', '32', ...options];
    const program = new Program([path.join(ROOT, 'scripts/start.js'), ...short], { GRADRING_BACKEND: 'wasm' });
    const { exitCode } = await program.exited;
    return { exitCode, output: program.stdout };
  }

  interface Started {
    readonly alone: Method;
    readonly dense: Method;
    readonly dgc: Method;
  }

  interface Method {
    readonly secondsToTarget: number | null;
    readonly seconds: number;
    readonly trainings: {
      readonly seed: number;
      readonly linkRate: string | null;
      readonly steps: number;
      readonly bytesSent: number;
      readonly curve: { readonly seconds: number; readonly testAccuracy: number }[];
    }[];
  }

  test('trains alone and on four ranks; only the first seed is paced', async () => {
    const json = path.join(folder, 'result.json');
    const { exitCode, output } = await start('--seeds', '7,8', '--target-accuracy', '0.3', '--json', json);
    expect({ exitCode, output }).toEqual({
      exitCode: 0,
      output: expect.stringMatching(/^Part 3 of 3: 4 ranks, fast/m),
    });
    const { alone, dense, dgc } = JSON.parse(readFileSync(json, 'utf8')) as Started;
    const ratesOf = ({ trainings }: Method) => Object.fromEntries(trainings.map(each => [each.seed, each.linkRate]));
    expect([alone, dense, dgc].map(ratesOf)).toEqual([
      { 7: null, 8: null },
      { 7: '100mbit', 8: null },
      { 7: '100mbit', 8: null },
    ]);
    for (const { trainings, seconds, secondsToTarget } of [alone, dense, dgc]) {
      // An epoch of all images: alone in batches that are as large as those of the four ranks together.
      expect(trainings.map(({ steps }) => steps)).toEqual([12, 12]);
      const { curve } = trainings.find(({ seed }) => seed === 7)!;
      expect(curve).toHaveLength(1);
      expect(secondsToTarget).toBe(curve[0]!.testAccuracy >= 0.3 ? curve[0]!.seconds : null);
      expect(seconds).toBeGreaterThanOrEqual(curve[0]!.seconds);
    }
    expect(dense.trainings[0]!.bytesSent).toBe(dense.trainings[1]!.bytesSent); // the pace changes nothing of it
    expect(alone.trainings[0]!.bytesSent).toBe(0);
    expect(output).toMatch(/4 ranks, 100 Mbit\/s\n138,698 parameters +alone +dense +DGC 99.9 %\n/);
  });

  test('ends with the exit code of ranks that fail, and has no result', async () => {
    const empty = path.join(folder, 'empty');
    mkdirSync(empty);
    const { exitCode, output } = await start('--seeds', '7', '--data-dir', empty);
    expect(exitCode).toBe(1);
    expect(output).toMatch(/^Part 1 of 2: one process alone\n[^\n]*\n$/); // and the backend
  });
});
