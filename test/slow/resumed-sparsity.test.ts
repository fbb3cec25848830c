import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { runFixture } from '../tensorflow/support';

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(path.join(tmpdir(), 'gradring-sparsity-'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

describe('a training that was interrupted', () => {
  interface Fit {
    readonly densities: number[];
    readonly hash: string;
  }
  type Fits = Record<'known' | 'unknown', Fit>;

  const run = (fits: object[]) => runFixture<Record<string, Fits>>('resumed-fit.js', { ranks: 2, input: { fits } });

  test('keeps the sparsity with which it began, and has the same bits', async () => {
    // Within the first epoch, whose end tells how many steps an epoch has, and after it.
    const stops = [8, 24].map(stopAfter => ({
      name: `stopped-${stopAfter}`,
      dir: path.join(dir, `${stopAfter}`),
      stopAfter,
    }));
    const stopped = await run([{ name: 'whole' }, ...stops]);
    const resumed = await run(stops.map(({ name, dir: folder }) => ({ name, dir: folder })));
    const whole = stopped.map(fits => fits['whole']!);
    for (const { name, stopAfter } of stops) {
      for (const rank of [0, 1]) {
        for (const kind of ['known', 'unknown'] as const) {
          const [all, before, after] = [whole[rank]!, stopped[rank]![name]!, resumed[rank]![name]!].map(
            fits => fits[kind],
          );
          expect(before!.densities).toHaveLength(stopAfter);
          expect([...before!.densities, ...after!.densities]).toEqual(all!.densities);
          expect(after!.hash).toBe(all!.hash);
        }
      }
    }
    for (const rank of [0, 1]) {
      expect(new Set(whole[rank]!.known.densities)).toEqual(new Set([0.104166666666667]));
      expect(new Set(whole[rank]!.unknown.densities)).toEqual(new Set([0.25, 0.104166666666667]));
    }
  }, 120_000);
});
