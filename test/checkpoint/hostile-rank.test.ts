import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { loadCheckpoint } from '../../src/checkpoint/load-checkpoint';
import type { Ranks } from '../../src/checkpoint/ranks';
import { saveCheckpoint } from '../../src/checkpoint/save-checkpoint';
import { commonFailure, inputOf, localRanks, saveAll } from './support';

let folder: string;
let dir: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'grt-'));
  dir = path.join(folder, 'checkpoints');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Two ranks, one of which lies: `lies` has what it says instead, by the number of the round. */
function ranksWith(liar: 0 | 1, lies: Readonly<Record<number, unknown>>): Ranks[] {
  return localRanks(2).map(ranks => {
    if (ranks.rank !== liar) return ranks;
    let round = 0;
    const bytesOf = (lie: unknown) => new TextEncoder().encode(typeof lie === 'string' ? lie : JSON.stringify(lie));
    return {
      ...ranks,
      allGather: (own: Uint8Array) => {
        const lie = lies[round++];
        return ranks.allGather(lie === undefined ? own : bytesOf(lie));
      },
    };
  });
}

const load = (ranks: readonly Ranks[]) =>
  Promise.allSettled(
    ranks.map(each =>
      loadCheckpoint(each, { dir, onDamage: 'error', ranksToRead: () => [each.rank], check: () => undefined }),
    ),
  );

const save = (ranks: readonly Ranks[], step: number) =>
  Promise.allSettled(ranks.map(each => saveCheckpoint(each, inputOf(each.rank, step, dir))));

const saved = () => (existsSync(dir) ? readdirSync(dir) : []);

test.each(['../elsewhere/save-000001-step-1', 'save-000001-step-1/..', 'save-000001-step-1\n', '/etc', 7])(
  'a rank names the save %j: nobody looks for it',
  async name => {
    await saveAll(2, 1, dir);
    cpSync(dir, path.join(folder, 'elsewhere'), { recursive: true });
    const failure = commonFailure(await load(ranksWith(1, { 0: { value: [{ name, number: 1 }] } })));
    expect(failure).toMatchObject({ code: 'ERR_PROTOCOL', details: { rank: 1 } });
  },
);

test('a save whose number is not that of its name is none', async () => {
  await saveAll(2, 1, dir);
  const lie = { value: [{ name: 'save-000001-step-1', number: 2 }] };
  expect(commonFailure(await load(ranksWith(1, { 0: lie })))).toMatchObject({ code: 'ERR_PROTOCOL' });
});

test.each(['', 'null', '7', '{"value":{"step":2}}', '{"value":{"step":2,"number":1e300}}', '{"error":{"code":"x"}}'])(
  'what a rank says is no part of a save: %s',
  async lie => {
    await saveAll(2, 1, dir);
    const failure = commonFailure(await save(ranksWith(1, { 0: lie }), 2));
    expect(failure).toMatchObject({ code: 'ERR_PROTOCOL', details: { rank: 1 } });
    expect(saved()).toEqual(['save-000001-step-1']);
  },
);

test.each([{}, { own: { bytes: -1, crc32: 0 } }, { own: null }])(
  'the sum of a file is none, %j, and what was written is removed',
  async sum => {
    await saveAll(2, 1, dir);
    const failure = commonFailure(await save(ranksWith(1, { 2: { value: sum } }), 2));
    expect(failure).toMatchObject({ code: 'ERR_PROTOCOL', details: { rank: 1 } });
    expect(saved()).toEqual(['save-000001-step-1']);
  },
);

test.each([7, [7], [{ place: { number: 2, step: 2, worldSize: 2 }, rank: -1 }]])(
  'what a rank says is no save that it has written: %j',
  async parts => {
    await saveAll(2, 1, dir);
    const failure = commonFailure(await save(ranksWith(1, { 1: { value: parts } }), 2));
    expect(failure).toMatchObject({ code: 'ERR_PROTOCOL', details: { rank: 1 } });
    expect(saved()).toContain('save-000001-step-1');
  },
);

test('a rank says that it was not there when the save began', async () => {
  await saveAll(2, 1, dir);
  const failure = commonFailure(await save(ranksWith(1, { 1: { value: [] } }), 2));
  expect(failure.code).toBe('ERR_PROTOCOL');
  expect(saved()).toContain('save-000001-step-1');
});

test('rank 0 has no weights, or keeps nothing: the other rank removes no save', async () => {
  await saveAll(2, 1, dir);
  const own = { bytes: 1, crc32: 1 };
  for (const lies of [{ 2: { value: { own } } }, { 3: { value: [] } }, { 3: { value: [7] } }]) {
    const [, other] = await save(ranksWith(0, lies), 2);
    expect(other).toMatchObject({ status: 'rejected', reason: { code: 'ERR_PROTOCOL', rank: 0 } });
    expect(saved()).toContain('save-000001-step-1');
    rmSync(dir, { recursive: true });
    await saveAll(2, 1, dir);
  }
});

test('the error of another rank is told as it can be shown', async () => {
  const error = { code: 'ERR_CHECKPOINT', message: '\x1b[2Jdisk\r', details: { rank: 1, variable: '\x07' } };
  const failure = commonFailure(await load(ranksWith(1, { 0: { error } })));
  expect(failure).toMatchObject({ code: 'ERR_CHECKPOINT', message: 'Rank 1: \\u{1b}[2Jdisk\\u{d}' });
});
