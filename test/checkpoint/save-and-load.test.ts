import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { watchFileOperations } from './file-operations';
import { commonFailure, floats, loadAll, loaded, saveAll, saveAllInBackground, valueOf, valuesIn } from './support';
import { casesOf, quickTest } from '../support/cases';
import { needs, testWhere } from '../support/test-where';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), 'gradring-checkpoint-'));
});
afterEach(() => {
  jest.restoreAllMocks();
  rmSync(dir, { recursive: true, force: true });
});

const saves = (from = dir) => readdirSync(from).sort();
const files = (name: string, from = dir) => readdirSync(path.join(from, name)).sort();
const save = async (...args: Parameters<typeof saveAll>) => (await saveAll(...args)).map(valueOf);

/** The steps that all ranks have loaded, after checking that all of it is there. */
async function loadedStep(
  worldSize: number,
  from: string | ((rank: number) => string) = dir,
): Promise<number | undefined> {
  const all = await loaded(worldSize, from);
  const step = all[0]?.manifest.step;
  all.forEach((each, rank) => {
    expect(each?.manifest).toEqual(all[0]?.manifest);
    if (each === undefined) return;
    expect(each.own.map(({ state }) => state)).toEqual([{ rank, step }]);
    expect(valuesIn(each.own[0], 'u')).toEqual([rank, step]);
    expect(each.weights && valuesIn(each.weights, 'w')).toEqual(rank === 0 ? [step, 1] : undefined);
  });
  return step;
}

describe('what was saved', () => {
  quickTest('is loaded by each rank: its own file, and the weights by rank 0', async () => {
    expect(await loadedStep(3)).toBeUndefined();
    expect(await loadedStep(3, path.join(dir, 'nowhere'))).toBeUndefined();
    const folder = path.join(dir, 'made', 'of', 'need');
    const paths = await save(3, 7, folder);
    expect(paths).toEqual(Array(3).fill(path.join(folder, 'save-000001-step-7')));
    const ranks = [0, 1, 2].map(rank => `rank-${rank}.safetensors`);
    expect(files('save-000001-step-7', folder)).toEqual(['manifest.json', ...ranks, 'weights.safetensors']);
    expect(await loadedStep(3, folder)).toBe(7);
  });

  quickTest('the newest is loaded, whatever its step; `keep` of them stay', async () => {
    for (const step of [100, 200, 150, 150, 9]) await save(2, step, dir, { keep: 3 });
    expect(saves()).toEqual(['save-000003-step-150', 'save-000004-step-150', 'save-000005-step-9']);
    expect(await loadedStep(2)).toBe(9);
    await save(2, 10, dir, { keep: 1 });
    expect(saves()).toEqual(['save-000006-step-10']);
  });

  quickTest('files and folders that are not ours stay', async () => {
    mkdirSync(path.join(dir, 'save-mine'));
    await save(1, 1, dir);
    writeFileSync(path.join(dir, 'save-000001-step-1', 'notes.txt'), 'x');
    await save(1, 2, dir, { keep: 1 });
    expect(saves()).toEqual(['save-000001-step-1', 'save-000002-step-2', 'save-mine']);
    expect(files('save-000001-step-1')).toEqual(['notes.txt']);
  });

  quickTest(
    'a link with the name of a save may be loaded, but what it leads to is of another run, and stays',
    async () => {
      const [other, own] = [path.join(dir, 'other'), path.join(dir, 'own')];
      await save(1, 7, other);
      const before = files('save-000001-step-7', other);
      mkdirSync(own);
      symlinkSync(path.join(other, 'save-000001-step-7'), path.join(own, 'save-000001-step-7'));
      expect(await loadedStep(1, own)).toBe(7);
      for (const step of [7, 8]) await save(1, step, own, { keep: 1, discarded: ['save-000001-step-7'] });
      expect(saves(own)).toEqual(['save-000001-step-7', 'save-000003-step-8']);
      expect(files('save-000001-step-7', other)).toEqual(before);
      expect(await loadedStep(1, other)).toBe(7);
    },
  );

  quickTest('each rank may have a disk of its own: all have the manifest, and only their own file', async () => {
    const own = (rank: number) => path.join(dir, `host-${rank}`);
    for (const step of [1, 2, 3]) await save(3, step, own);
    for (const rank of [0, 1, 2]) {
      expect(saves(own(rank))).toEqual(['save-000002-step-2', 'save-000003-step-3']);
      const rest = rank === 0 ? ['weights.safetensors'] : [];
      expect(files('save-000003-step-3', own(rank))).toEqual(['manifest.json', `rank-${rank}.safetensors`, ...rest]);
    }
    expect(await loadedStep(3, own)).toBe(3);
    // A crash before the other hosts have the manifest: one is enough.
    rmSync(path.join(own(1), 'save-000003-step-3', 'manifest.json'));
    rmSync(path.join(own(0), 'save-000003-step-3', 'manifest.json'));
    expect(await loadedStep(3, own)).toBe(3);
  });

  quickTest('a save of ranks at different steps is refused on all', async () => {
    const failure = commonFailure(await saveAll(3, 5, dir, rank => ({ step: rank === 2 ? 6 : 5 })));
    expect(failure).toMatchObject({ code: 'ERR_CHECKPOINT', details: { rank: 2 } });
    expect(failure.message).toMatch(/rank 0 is at step 5, and rank 2 at step 6/);
  });
});

describe('the order of writing', () => {
  quickTest(
    'every file is on disk before it has its name, and the manifest comes after all of them, pruning after that',
    async () => {
      await save(1, 1, dir);
      const log = watchFileOperations();
      await save(1, 2, dir, { keep: 1 });
      const written = (file: string, writes: number) => [
        `rm ${file}.0.tmp`,
        `open ${file}.0.tmp`,
        ...Array<string>(writes).fill(`write ${file}.0.tmp`),
        `sync ${file}.0.tmp`,
        `rename ${file}.0.tmp`,
        'sync save-000002-step-2',
      ];
      expect(log).toEqual([
        `mkdir ${path.basename(dir)}`,
        'mkdir save-000002-step-2',
        `sync ${path.basename(dir)}`,
        ...written('rank-0.safetensors', 2),
        ...written('weights.safetensors', 2),
        ...written('manifest.json', 1),
        'unlink manifest.json',
        'sync save-000001-step-1',
        'unlink rank-0.safetensors',
        'unlink weights.safetensors',
        'rmdir save-000001-step-1',
      ]);
    },
  );

  const CRASHES = casesOf(
    [{ ranks: 2, way: saveAll }],
    [
      { ranks: 1, way: saveAll },
      { ranks: 1, way: saveAllInBackground },
      { ranks: 3, way: saveAllInBackground },
    ],
  );

  test.each(CRASHES)(
    '$way.name: a crash of $ranks ranks before any operation, or in the middle of a write, leaves a complete one',
    async ({ ranks, way }) => {
      await save(ranks, 1, dir, { keep: 1 });
      const saved = path.join(dir, 'trial');
      const begin = () => {
        rmSync(saved, { recursive: true, force: true });
        mkdirSync(saved);
        cpSync(path.join(dir, 'save-000001-step-1'), path.join(saved, 'save-000001-step-1'), { recursive: true });
      };
      begin();
      const log = watchFileOperations();
      (await way(ranks, 2, saved, { keep: 1 })).map(valueOf);
      expect(log.length).toBeGreaterThan(20);
      const outcomes = new Set<number | undefined>();
      for (let crash = 0; crash < log.length; crash++) {
        for (const writes of ['fail', 'half'] as const) {
          jest.restoreAllMocks();
          begin();
          let isWrite = false;
          watchFileOperations((operation, number) => {
            if (number < crash) return 'do';
            if (number > crash) return 'fail';
            isWrite = operation.startsWith('write');
            return isWrite ? writes : 'fail';
          });
          const results = await way(ranks, 2, saved, { keep: 1 });
          // Ranks that prune together may need an operation less, and so be done before the last crash.
          if (results.some(({ status }) => status === 'rejected')) {
            expect(commonFailure(results).code).toBe('ERR_CHECKPOINT');
          }
          jest.restoreAllMocks();
          outcomes.add(await loadedStep(ranks, saved));
          watchFileOperations();
          await save(ranks, 3, saved, { keep: 1 }); // and what the crash has left is cleared away
          expect(saves(saved)).toHaveLength(1);
          expect(await loadedStep(ranks, saved)).toBe(3);
          if (!isWrite) break;
        }
      }
      expect(outcomes).toEqual(new Set([1, 2]));
    },
  );
});

describe('a rank that cannot write', () => {
  quickTest(
    'is named on every rank with the path; the checkpoint before stays, nothing of the new one, and the next succeeds',
    async () => {
      await save(3, 1, dir);
      watchFileOperations(operation => (operation.startsWith('write rank-1.') ? 'fail' : 'do'));
      const failure = commonFailure(await saveAll(3, 2, dir));
      expect(failure).toMatchObject({ code: 'ERR_CHECKPOINT', details: { rank: 1 } });
      expect(failure.message).toMatch(/^Rank 1: .*cannot write .*save-000002-step-2\/rank-1\.safetensors: ENOSPC/);
      jest.restoreAllMocks();
      expect(saves()).toEqual(['save-000001-step-1']);
      await save(3, 3, dir);
      expect(await loadedStep(3)).toBe(3);
    },
  );

  quickTest('has a path in which it cannot make a folder', async () => {
    const failure = commonFailure(await saveAll(2, 1, rank => (rank === 1 ? '/dev/null/x' : dir)));
    expect(failure).toMatchObject({ code: 'ERR_CHECKPOINT', details: { rank: 1 } });
    expect(failure.message).toMatch(/^Rank 1: .*cannot write \/dev\/null\/x: ENOTDIR/);
  });

  quickTest.each([0, 1])('whose state cannot be had, on rank %d', async rank => {
    const state = () => {
      throw new Error('no state today');
    };
    const failure = commonFailure(await saveAll(2, 1, dir, own => (own === rank ? { state } : {})));
    expect(failure).toMatchObject({ code: 'ERR_CHECKPOINT', details: { rank } });
    expect(failure.message).toMatch(/no state today/);
    expect(saves()).toEqual([]);
  });

  testWhere(needs.root)('a full disk, a real one', async () => {
    const disk = path.join(dir, 'disk');
    mkdirSync(disk);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'none', disk]);
    try {
      await save(2, 1, disk);
      const weights = [floats('w', Array<number>(100_000).fill(1))];
      const failure = commonFailure(await saveAll(2, 2, disk, { weights }));
      expect(failure.message).toMatch(/^Rank 0: .*weights\.safetensors: ENOSPC/);
      expect(await loadedStep(2, disk)).toBe(1);
      expect(saves(disk)).toEqual(['save-000001-step-1']);
    } finally {
      execFileSync('umount', [disk]);
    }
  });
});

describe('a damaged checkpoint', () => {
  const NEWEST = 'save-000003-step-3';
  beforeEach(async () => {
    for (const step of [1, 2, 3]) await save(2, step, dir, { keep: 3 });
  });
  const at = (file: string) => path.join(dir, NEWEST, file);
  const flip = (file: string) => {
    const bytes = readFileSync(at(file));
    bytes[bytes.length - 2]! ^= 4;
    writeFileSync(at(file), bytes);
  };
  const editManifest = (edit: (text: string) => string) =>
    writeFileSync(at('manifest.json'), edit(readFileSync(at('manifest.json'), 'utf8')));

  quickTest.each<[string, () => void, number, RegExp]>([
    ['a missing file', () => rmSync(at('rank-1.safetensors')), 1, /rank-1\.safetensors is damaged: it is missing/],
    ['a file cut off', () => writeFileSync(at('rank-1.safetensors'), ''), 1, /rank-1.* it has 0 bytes, but had \d+/],
    ['a flipped bit', () => flip('rank-1.safetensors'), 1, /rank-1\.safetensors is damaged: its checksum/],
    ['flipped weights', () => flip('weights.safetensors'), 0, /weights\.safetensors is damaged: its checksum/],
    [
      'another rank’s file',
      () => copyFileSync(at('rank-0.safetensors'), at('rank-1.safetensors')),
      1,
      /rank-1.*checksum/,
    ],
    ['an edited manifest', () => editManifest(text => text.replace('"step": 3', '"step": 4')), 0, /manifest.*checksum/],
    ['an empty manifest', () => editManifest(() => ''), 0, /manifest\.json is damaged: it is not a JSON/],
    [
      'a huge manifest',
      () => writeFileSync(at('manifest.json'), Buffer.alloc(17 * 2 ** 20)),
      0,
      /at most 16777216 are allowed/,
    ],
    [
      'another folder’s manifest',
      () => copyFileSync(path.join(dir, 'save-000002-step-2', 'manifest.json'), at('manifest.json')),
      0,
      /it belongs to another folder/,
    ],
  ])('%s: an error on every rank that names rank and path, or the one before', async (_, damage, rank, words) => {
    damage();
    const failure = commonFailure(await loadAll(2, dir));
    expect(failure).toMatchObject({ code: 'ERR_CHECKPOINT_DAMAGED', details: { rank } });
    expect(failure.message).toMatch(words);
    expect(failure.message).toContain(path.join(dir, NEWEST));
    for (const each of await loaded(2, dir, { onDamage: 'previous' })) {
      expect(each!.manifest.step).toBe(2);
      expect(each!.skipped).toEqual([{ name: NEWEST, reason: failure.message }]);
    }
  });

  quickTest('if all are, that is an error in any case, and names the newest', async () => {
    for (const name of saves()) rmSync(path.join(dir, name, 'rank-1.safetensors'));
    const failure = commonFailure(await loadAll(2, dir, { onDamage: 'previous' }));
    expect(failure).toMatchObject({ code: 'ERR_CHECKPOINT_DAMAGED', details: { rank: 1 } });
    expect(failure.message).toContain(NEWEST);
  });

  quickTest('one without a manifest is none', async () => {
    rmSync(at('manifest.json'));
    expect(await loadedStep(2)).toBe(2);
  });

  quickTest('those that were passed over go with the next save, and do not count among those kept', async () => {
    flip('rank-0.safetensors');
    await save(2, 4, dir, { keep: 2, discarded: [NEWEST] });
    expect(saves()).toEqual(['save-000002-step-2', 'save-000004-step-4']);
  });

  quickTest('what one rank cannot use, none uses', async () => {
    let calls = 0;
    const check = () => {
      if (++calls === 2) throw new Error('does not fit');
    };
    expect(commonFailure(await loadAll(2, dir, { check })).message).toMatch(/does not fit/);
    expect(existsSync(at('manifest.json'))).toBe(true);
  });
});
