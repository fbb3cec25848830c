import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { completeSaves, type PendingSave, type Sums } from '../../src/checkpoint/save-checkpoint';
import type { Ranks } from '../../src/checkpoint/ranks';
import { watchFileOperations } from './file-operations';
import { begin, commonFailure, inputOf, loaded, localRanks, saveAll, valueOf } from './support';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), 'gradring-background-'));
});
afterEach(() => {
  jest.restoreAllMocks();
  rmSync(dir, { recursive: true, force: true });
});

const saves = () => readdirSync(dir).sort();
const loadedStep = async (worldSize: number) => (await loaded(worldSize, dir))[0]?.manifest.step;

/** A save whose files are written, by rank. */
async function written(worldSize: number, step: number): Promise<PendingSave[]> {
  const pending = await Promise.all(
    localRanks(worldSize).map(ranks => begin(ranks, inputOf(ranks.rank, step, dir, { keep: 1 }))),
  );
  await Promise.allSettled(pending.map(save => save.written));
  return pending;
}

/** Completes it in a ring of as many ranks as there are lists of saves. */
const complete = (saves: readonly (readonly PendingSave[])[], rankOf = (ranks: Ranks) => ranks) =>
  Promise.allSettled(localRanks(saves.length).map((ranks, i) => completeSaves(rankOf(ranks), saves[i]!)));

test('a save is complete when all ranks have completed it, and not before', async () => {
  await saveAll(3, 1, dir);
  const pending = await written(3, 2);
  expect(await loadedStep(3)).toBe(1);
  const completions = (await complete(pending.map(save => [save]))).map(valueOf);
  expect(completions).toEqual(Array(3).fill([{ isComplete: true, root: 0 }]));
  expect([await loadedStep(3), saves()]).toEqual([2, ['save-000002-step-2']]);
});

test('ranks that have joined meanwhile, also as rank 0, leave it as it is', async () => {
  const [first, second] = await written(2, 2);
  const completions = (await complete([[], [first!], [second!]])).map(valueOf);
  expect(completions).toEqual(Array(3).fill([{ isComplete: true, root: 1 }]));
  expect(await loadedStep(2)).toBe(2);
});

test('without a rank that is lost it is not complete, and the one before stays; the next save removes it', async () => {
  await saveAll(3, 1, dir, { keep: 1 });
  const pending = await written(3, 2);
  const completions = (await complete([[pending[0]!], [pending[2]!]])).map(valueOf);
  expect(completions).toEqual(Array(2).fill([{ isComplete: false, root: 0 }]));
  expect(await loadedStep(3)).toBe(1);
  await saveAll(3, 4, dir, { keep: 1 });
  expect([await loadedStep(3), saves()]).toEqual([4, ['save-000003-step-4']]);
});

test('it does not lose what some ranks have completed when another is lost', async () => {
  await saveAll(3, 1, dir);
  const pending = await written(3, 2);
  // Rank 1 fails in the last collective. By then rank 0 has removed the save before.
  let round = 0;
  const failing = (ranks: Ranks): Ranks =>
    ranks.rank !== 1
      ? ranks
      : {
          ...ranks,
          allGather: async bytes => {
            const all = await ranks.allGather(bytes);
            if (++round === 4) throw new Error('rank 2 is lost');
            return all;
          },
        };
  const results = await complete(
    pending.map(save => [save]),
    failing,
  );
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  // The disk fails, too, when it is completed again: all is there already.
  watchFileOperations(() => 'fail');
  const completions = (await complete([[pending[0]!], [pending[1]!]])).map(valueOf);
  expect(completions).toEqual(Array(2).fill([{ isComplete: true, root: 0 }]));
  jest.restoreAllMocks();
  expect([await loadedStep(3), saves()]).toEqual([2, ['save-000002-step-2']]);
});

test('a rank that could not write is named on all when it is completed; nothing of the save stays', async () => {
  await saveAll(2, 1, dir);
  watchFileOperations(operation => (operation.startsWith('write rank-1.') ? 'fail' : 'do'));
  const pending = await written(2, 2);
  const failure = commonFailure(await complete(pending.map(save => [save])));
  expect(failure).toMatchObject({ code: 'ERR_CHECKPOINT', details: { rank: 1 } });
  expect([await loadedStep(2), saves()]).toEqual([1, ['save-000001-step-1']]);
});

test('if one folder cannot be written, the save in the other is complete', async () => {
  const [first, second] = await written(2, 2);
  watchFileOperations(operation => (operation.startsWith('write rank-') ? 'fail' : 'do'));
  const [third, fourth] = await written(2, 3);
  const failure = commonFailure(
    await complete([
      [third!, first!],
      [fourth!, second!],
    ]),
  );
  expect(failure).toMatchObject({ code: 'ERR_CHECKPOINT', details: { rank: 0 } });
  expect([await loadedStep(2), saves()]).toEqual([2, ['save-000001-step-2']]);
});

test.each<[string, (save: PendingSave, sums: Sums[]) => PendingSave[]]>([
  ['another save', save => [{ ...save, place: { ...save.place, number: 7 } }]],
  ['the part of another', save => [{ ...save, rank: 0 }]],
  ['too few saves', save => [save]],
  ['more than there are ranks', (save, [first, own]) => [{ ...save, all: [first!, own!, own!] }, save]],
  ['other files of the others', (save, [, own]) => [{ ...save, all: [{ ...own!, weights: own!.own }, own!] }, save]],
])('a rank that tells of %s is named, and nothing is removed', async (_, lie) => {
  await saveAll(2, 1, dir, { keep: 1 });
  const [first, second] = (await written(2, 2)) as [PendingSave, PendingSave];
  const sums = await Promise.all([first.written, second.written]);
  const failure = commonFailure(await complete([[first, first], lie(second, sums)]));
  expect(failure).toMatchObject({ code: 'ERR_PROTOCOL', details: { rank: 1 } });
  expect(await loadedStep(2)).toBe(1);
});
