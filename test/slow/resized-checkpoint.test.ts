import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { CheckpointRuns, type Loop, type LoopRun, type Outcome, resultsOf } from '../tensorflow/checkpoint-runs';

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(path.join(tmpdir(), 'gradring-resume-'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

describe('a ring of another size', () => {
  const floatsOf = (hex: string) => {
    const bytes = Buffer.from(hex, 'hex');
    return Array.from(new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)));
  };
  /** Element by element, in double precision. */
  const mean = (all: number[][]) => all[0]!.map((_, i) => all.reduce((sum, each) => sum + each[i]!, 0) / all.length);
  const arrays = (runs: readonly LoopRun[], when: 'state' | 'resumedState', name: string) =>
    runs.map(run => floatsOf(run[when][`momentum/${name}`]!));

  const SIZES = [1, 2, 3, 4] as const;
  const redistribute = { options: { residuals: 'redistribute' } };
  const loop = { name: 'momentum', to: 25, resume: true } as const;
  const dense = { compression: { warmUp: 'dense' }, folder: 'dense' };
  const powerSgd = { name: 'powerSgd', optimizer: 'momentum', compressor: 'powerSgd', folder: 'resized' };
  /** What rings of these sizes resume. */
  const RESUMED: Record<(typeof SIZES)[number], Record<string, Loop>> = {
    1: { 'of 4': { ...loop, ...redistribute, folder: 'of-4' } },
    2: {
      'of 4': { ...loop, ...redistribute, folder: 'of-4' },
      'of 3': { ...loop, ...redistribute, folder: 'of-3' },
      dense: { ...loop, ...redistribute, ...dense },
    },
    3: {
      'of 2': { ...loop, ...redistribute, folder: 'of-2' },
      dropped: { ...loop, to: 22, options: { residuals: 'drop' }, folder: 'of-2' },
      'no policy': { ...loop, to: 22, folder: 'of-2' },
      powerSgd: { ...loop, ...redistribute, ...powerSgd },
    },
    4: { 'of 1': { ...loop, ...redistribute, folder: 'of-1' } },
  };

  const saved: Record<string, LoopRun[]> = {};
  const resumed: Record<number, Record<string, Outcome<LoopRun>[]>> = {};
  const run = (size: number, loops: readonly Loop[]) =>
    new CheckpointRuns(size, () => dir).add<LoopRun>('loop', loops)();
  beforeAll(async () => {
    for (const size of SIZES) {
      const save = { name: 'momentum', to: 20, save: true } as const;
      const loops: Loop[] = [{ ...save, folder: `of-${size}` }];
      if (size === 2) loops.push({ ...save, ...powerSgd });
      if (size === 3) loops.push({ ...save, ...dense });
      const outcomes = await run(size, loops);
      loops.forEach(({ folder }, i) => (saved[folder!] = resultsOf(outcomes[i]!)));
    }
    for (const size of SIZES) {
      const outcomes = await run(size, Object.values(RESUMED[size]));
      resumed[size] = Object.fromEntries(Object.keys(RESUMED[size]).map((name, i) => [name, outcomes[i]!]));
    }
  }, 120_000);

  test.each([
    { from: 4, to: 2 },
    { from: 4, to: 1 },
    { from: 3, to: 2 },
    { from: 2, to: 3 },
    { from: 1, to: 4 },
  ])('$from to $to, redistribute: what is still to be applied is preserved', ({ from, to }) => {
    const [before, after] = [saved[`of-${from}`]!, resultsOf(resumed[to]![`of ${from}`]!)];
    for (const name of ['w/residual', 'w/momentum', 'b/residual']) {
      const means = [mean(arrays(before, 'state', name)), mean(arrays(after, 'resumedState', name))] as const;
      means[0].forEach((value, i) => expect(means[1][i]).toBeCloseTo(value, 5));
      expect(means[0].some(value => Math.abs(value) > 1e-4)).toBe(true);
    }
    // The momentum of the average is the same on all ranks.
    const [shared] = arrays(before, 'state', 'b/momentum');
    for (const own of arrays(after, 'resumedState', 'b/momentum')) expect(own).toEqual(shared);
    const w = arrays(after, 'resumedState', 'w/residual');
    expect(w.map(values => values.some(value => value !== 0))).toEqual(w.map((_, rank) => rank < from));
    after.forEach(({ at, weights }, rank) => {
      expect(at!.step).toBe(20);
      expect(at!.state === undefined).toBe(rank >= from);
      expect(weights.slice(0, 4)).toEqual(after[0]!.weights.slice(0, 4));
    });
  });

  test('PowerSGD goes on from the same matrix, on a new rank too, and nothing that it keeps is lost', () => {
    const [before, after] = [saved['resized']!, resultsOf(resumed[3]!['powerSgd']!)];
    const shared = before[0]!.state['powerSgd/w/shared']!;
    expect(shared).toMatch(/[1-9a-f]/);
    expect(after.map(({ resumedState }) => resumedState['powerSgd/w/shared'])).toEqual([shared, shared, shared]);
    const residuals = (runs: readonly LoopRun[], when: 'state' | 'resumedState') =>
      mean(runs.map(run => floatsOf(run[when]['powerSgd/w/residual']!)));
    const kept = residuals(before, 'state');
    residuals(after, 'resumedState').forEach((value, i) => expect(value).toBeCloseTo(kept[i]!, 5));
    expect(kept.some(value => Math.abs(value) > 1e-4)).toBe(true);
  });

  test('in a dense warm-up all momenta are the average’s', () => {
    const [shared] = arrays(saved['dense']!, 'state', 'w/momentum');
    for (const own of arrays(resultsOf(resumed[2]!['dense']!), 'resumedState', 'w/momentum'))
      expect(own).toEqual(shared);
  });

  test('drop: residuals and own momenta begin at zero', () => {
    const after = resultsOf(resumed[3]!['dropped']!);
    for (const name of ['w/residual', 'w/momentum', 'b/residual']) {
      for (const own of arrays(after, 'resumedState', name)) expect(own.every(value => value === 0)).toBe(true);
    }
    const [shared] = arrays(saved['of-2']!, 'state', 'b/momentum');
    for (const own of arrays(after, 'resumedState', 'b/momentum')) expect(own).toEqual(shared);
    expect(after[0]!.counters[0]).toBe(22);
  });

  test('without a policy it is an error that names the option', () => {
    for (const { message } of resumed[3]!['no policy']!) {
      expect(message).toMatch(/saved by 2 ranks, and this ring has 3.*residuals: 'redistribute'.*'drop'/);
    }
  });
});
