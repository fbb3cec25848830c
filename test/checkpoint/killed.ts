import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { cleanUpRanks, sleep, startRanks } from '../support/rings';
import { loaded, valuesIn } from './support';

const DIST = JSON.stringify(path.join(__dirname, '../../dist'));

/** Saves in a loop, as fast as it can; step s has s everywhere. Says so when a save is complete. */
const saving = (ring: string, folder: string, first: number) => `
  const { saveCheckpoint } = require(${DIST} + '/checkpoint/save-checkpoint.js');
  const ring = ${ring};
  const tensor = (name, step) => {
    const values = new Float32Array(30000).fill(step);
    return { name, type: 'F32', shape: [30000], bytes: () => new Uint8Array(values.buffer) };
  };
  for (let step = ${first}; ; step++) {
    const { rank } = ring;
    const [weights, own] = [[tensor('w', step)], [tensor('u', step)]];
    const state = () => ({ state: { rank, step } });
    await saveCheckpoint(ring, { dir: ${JSON.stringify(folder)}, keep: 1, step, weights, own, state });
    if (step === ${first}) say('saved');
  }`;

/** A training, from its last checkpoint on, that is saved in the background every other step; as {@link saving}. */
const training = (folder: string, first: number) => `
  const core = await require(${DIST} + '/core.js').connect();
  const arrays = { w: new Float32Array(30000).fill(${first} - 1) };
  const gradients = core.gradients({ w: [30000] });
  const { rank } = core;
  let step = ${first} - 1;
  const options = { dir: ${JSON.stringify(folder)}, keep: 1, every: 2, background: true, state: () => ({ rank, step }) };
  const checkpoint = core.checkpoint({ arrays, gradients }, options);
  const at = await checkpoint.resume();
  if (at.step !== step || arrays.w.some(value => value !== step)) throw new Error('resumed at ' + at.step);
  while (step++ >= 0) {
    await gradients.step({ w: new Float32Array(30000).fill(1) });
    arrays.w.fill(step);
    await checkpoint.afterStep();
    if (step === ${first} + 3) say('saved'); // where the second save is due, so the first is complete
  }`;

const ALONE = '{ rank: 0, worldSize: 1, allGather: async bytes => [bytes] }';
const CONNECTED = `await Communicator.connect().then(ring => ({
  rank: ring.rank,
  worldSize: ring.worldSize,
  allGather: bytes => ring.allGather(bytes, { variableLength: true }),
}))`;

export interface Kills {
  readonly ranks: 1 | 2 | 3;
  readonly kills: number;
  readonly background: boolean;
}

/**
 * Kills ranks that save without a pause, so many times, each at a random instant. Each time the newest whole checkpoint
 * of all ranks is of one step, and not older than the last that was told of.
 */
export async function expectWholeCheckpoints({ ranks, kills, background }: Kills): Promise<void> {
  const ring = ranks === 1 ? ALONE : CONNECTED;
  const dir = mkdtempSync(path.join(tmpdir(), 'gradring-killed-'));
  try {
    const steps: number[] = [];
    for (let kill = 0; kill < kills; kill++) {
      const first = 1 + (steps.at(-1) ?? 0);
      const processes = await startRanks(ranks, background ? training(dir, first) : saving(ring, dir, first));
      await Promise.all(processes.map(each => each.said('saved')));
      await sleep(40 * Math.random());
      for (const { child } of processes) child.kill('SIGKILL');
      const ends = await Promise.all(processes.map(({ ended }) => ended));
      expect(ends.map(({ signal }) => signal)).toEqual(Array(ranks).fill('SIGKILL'));

      const all = await loaded(ranks, dir);
      const step = all[0]!.manifest.step;
      expect(step).toBeGreaterThanOrEqual(first);
      all.forEach(({ own, path: folder } = fail(), rank) => {
        expect(own[0]!.state).toMatchObject({ state: { rank, step } });
        if (!background) expect(new Set(valuesIn(own[0], 'u'))).toEqual(new Set([step]));
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
