import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { cleanUpRanks, sleep, startRanks } from '../support/rings';
import { loaded, valuesIn } from './support';

/** Saves in a loop, as fast as it can; step s has s everywhere. Says so when a save is complete, if asked to. */
const saving = (ring: string, folder: string, first: number) => `
  const { saveCheckpoint } = require(${JSON.stringify(path.join(__dirname, '../../dist/checkpoint/save-checkpoint.js'))});
  const ring = ${ring};
  const tensor = (name, step) => {
    const values = new Float32Array(30000).fill(step);
    return { name, type: 'F32', shape: [30000], bytes: () => new Uint8Array(values.buffer) };
  };
  for (let step = ${first}; ; step++) {
    const { rank } = ring;
    const [weights, own] = [[tensor('w', step)], [tensor('u', step)]];
    const state = () => ({ rank, step });
    await saveCheckpoint(ring, { dir: ${JSON.stringify(folder)}, keep: 1, step, weights, own, state });
    if (step === ${first}) say('saved');
  }`;

const ALONE = '{ rank: 0, worldSize: 1, allGather: async bytes => [bytes] }';
const CONNECTED = `await Communicator.connect().then(ring => ({
  rank: ring.rank,
  worldSize: ring.worldSize,
  allGather: bytes => ring.allGather(bytes, { variableLength: true }),
}))`;

/**
 * Kills ranks that save without a pause, so many times, each at a random instant. Each time the newest whole checkpoint
 * of all ranks is of one step, and not older than the last that was told of.
 */
export async function expectWholeCheckpoints(ranks: 1 | 2, kills: number): Promise<void> {
  const ring = ranks === 1 ? ALONE : CONNECTED;
  const dir = mkdtempSync(path.join(tmpdir(), 'gradring-killed-'));
  try {
    const steps: number[] = [];
    for (let kill = 0; kill < kills; kill++) {
      const first = 1 + (steps.at(-1) ?? 0);
      const processes = await startRanks(ranks, saving(ring, dir, first));
      await Promise.all(processes.map(each => each.said('saved')));
      await sleep(40 * Math.random());
      for (const { child } of processes) child.kill('SIGKILL');
      const ends = await Promise.all(processes.map(({ ended }) => ended));
      expect(ends.map(({ signal }) => signal)).toEqual(Array(ranks).fill('SIGKILL'));

      const all = await loaded(ranks, dir);
      const step = all[0]!.manifest.step;
      expect(step).toBeGreaterThanOrEqual(first);
      all.forEach(({ own, path: folder } = fail(), rank) => {
        expect(own[0]!.state).toEqual({ rank, step });
        expect(new Set(valuesIn(own[0], 'u'))).toEqual(new Set([step]));
        expect(existsSync(path.join(folder, 'manifest.json'))).toBe(true);
      });
      expect(new Set(valuesIn(all[0]!.weights, 'w'))).toEqual(new Set([step]));
      steps.push(step);
    }
  } finally {
    await cleanUpRanks();
    rmSync(dir, { recursive: true, force: true });
  }
}

function fail(): never {
  throw new Error('There is no checkpoint.');
}
