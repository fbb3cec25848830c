import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { completeSaves, copyOf, type PendingSave, placeSave, writeSave } from '../../src/checkpoint/save-checkpoint';
import type { Ranks } from '../../src/checkpoint/ranks';
import { watchFileOperations } from './file-operations';
import { commonFailure, inputOf, loaded, localRanks, saveAll, valueOf } from './support';

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
    localRanks(worldSize).map(async (ranks): Promise<PendingSave> => {
      const input = inputOf(ranks.rank, step, dir, { keep: 1 });
      const place = await placeSave(ranks, input, step);
      const content = await copyOf(input, ranks.rank);
      const save = { place, rank: ranks.rank, written: writeSave(input, place, ranks.rank, content) };
      return { ...save, folder: { dir, keep: 1 } };
    }),
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
  const paths = (await complete(pending.map(save => [save]))).map(valueOf);
  expect(paths).toEqual(Array(3).fill([path.join(dir, 'save-000002-step-2')]));
  expect([await loadedStep(3), saves()]).toEqual([2, ['save-000002-step-2']]);
});

test('ranks that have joined meanwhile, also as rank 0, leave it as it is', async () => {
  const [first, second] = await written(2, 2);
  const paths = (await complete([[], [first!], [second!]])).map(valueOf);
  const folder = path.join(dir, 'save-000001-step-2');
  expect(paths).toEqual([[], [folder], [folder]]);
  expect(await loadedStep(2)).toBe(2);
});

test('without a rank that is lost it is removed, and the one before stays', async () => {
  await saveAll(3, 1, dir);
  const pending = await written(3, 2);
  const paths = (await complete([[pending[0]!], [pending[2]!]])).map(valueOf);
  expect(paths).toEqual([[], []]);
  expect([await loadedStep(3), saves()]).toEqual([1, ['save-000001-step-1']]);
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
            if (++round === 3) throw new Error('rank 2 is lost');
            return all;
          },
        };
  const results = await complete(
    pending.map(save => [save]),
    failing,
  );
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  const paths = (await complete([[pending[0]!], [pending[1]!]])).map(valueOf);
  expect(paths).toEqual(Array(2).fill([path.join(dir, 'save-000002-step-2')]));
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

test('a rank that names another save, or too few files, is named', async () => {
  const pending = await written(2, 2);
  const [first, second] = pending as [PendingSave, PendingSave];
  const other = { ...second, place: { ...second.place, number: 7 } };
  expect(commonFailure(await complete([[first], [other]]))).toMatchObject({
    code: 'ERR_PROTOCOL',
    details: { rank: 1 },
  });
  const short = { ...second, all: [await second.written] };
  const failure = commonFailure(await complete([[first], [short]]));
  expect(failure.code).toBe('ERR_PROTOCOL');
});
