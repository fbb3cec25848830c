import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const fixture = (name: string) => path.join(__dirname, '../tensorflow/fixtures', name);

// JavaScript looks `fit` up before it evaluates `ring.callbacks()` among its arguments, so a process each.
describe('the first model.fit of a process', () => {
  let folder: string;
  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'gradring-first-fit-'));
    await run(process.execPath, [fixture('public-models.js'), folder]);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  test.each(['sequential', 'functional', 'loaded'])('of a %s model saves, and calls all callbacks', async kind => {
    const idioms = ['beside, after', 'beside, before', 'also', 'the only one', 'fitDataset'];
    const outcomes = idioms.map(async idiom => {
      const env = { ...process.env, GRADRING_BACKEND: 'cpu' };
      const { stdout } = await run(process.execPath, [fixture('first-fit.js'), kind, idiom, folder], { env });
      return [idiom, JSON.parse(stdout)] as const;
    });
    const whole = { epochs: 2, saves: 2 };
    // The first of ring.callbacks(…) is the ring's own, without those of `also`.
    expect(Object.fromEntries(await Promise.all(outcomes))).toEqual({
      ...Object.fromEntries(idioms.map(idiom => [idiom, whole])),
      'the only one': { epochs: 0, saves: 2 },
    });
  });
});
