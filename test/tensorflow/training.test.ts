import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { runFixture, TEST_BACKEND } from './support';

const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

interface Epoch {
  readonly local: Record<string, number>;
  readonly seen: Record<string, number>;
  readonly localMoving: number[][];
  readonly moving: number[][];
  readonly hash: string;
  readonly density: number;
}
interface Shards {
  readonly batches: [number[][], number[][]];
  readonly leaked: number;
  readonly losses: number[];
  readonly steps: number;
  readonly alone: number[];
  readonly pair: [number[], number[]];
  readonly list: [number[], number[]];
  readonly record: { a: number[]; b: number[] };
  readonly kinds: unknown;
  readonly inputsLeft: boolean;
}
interface Training {
  readonly beginning: string;
  readonly epochs: Epoch[];
  readonly history: Record<string, number[]>;
  readonly rates: number[];
  readonly dgcRates: number[];
  readonly unwarmedRates: number[];
  readonly twiceRates: number[];
  readonly resumedRates: number[][];
  readonly lateRefusal: { readonly code: string; readonly message: string };
  readonly refusal: { readonly code: string; readonly message: string };
  readonly stoppedAfter: number;
  /** By what is shared out. */
  readonly shards: Shards[];
}

const WORLD_SIZE = 3;
const DATA = [
  { rows: 10, batchSize: 1 },
  { rows: 21, batchSize: 3 }, // 7 batches
  { rows: 2, batchSize: 1 }, // fewer than ranks
];

let ranks: readonly Training[];
beforeAll(async () => {
  ranks = await runFixture<Training>('train.js', { ranks: WORLD_SIZE, backend: 'wasm', input: DATA });
});

describe('three ranks train a convolutional network with batch norm', () => {
  const epochOf = (epoch: number) => ranks.map(({ epochs }) => epochs[epoch]!);

  test('from different weights, they are bit-identical after every epoch', () => {
    expect(new Set(ranks.map(({ beginning }) => beginning)).size).toBe(WORLD_SIZE);
    const hashes = [0, 1, 2, 3].map(epoch => new Set(epochOf(epoch).map(({ hash }) => hash)));
    for (const ofEpoch of hashes) expect(ofEpoch.size).toBe(1);
    expect(new Set(hashes.flatMap(ofEpoch => [...ofEpoch])).size).toBe(4); // and they do learn
  });

  test.each([0, 1, 2, 3])(
    'epoch %d: a callback in `also` sees the mean of the ranks’ metrics, as does the history',
    epoch => {
      const epochs = epochOf(epoch);
      const names = Object.keys(epochs[0]!.local);
      expect(names.sort()).toEqual(['acc', 'loss']);
      expect(new Set(epochs.map(({ local }) => local['loss'])).size).toBe(WORLD_SIZE);
      for (const name of names) {
        const expected = mean(epochs.map(({ local }) => local[name]!));
        for (const { seen } of epochs) expect(seen[name]).toBeCloseTo(expected, 6);
        for (const { history } of ranks) expect(history[name]![epoch]).toBe(epochs[0]!.seen[name]);
      }
      for (const name of ['val_acc', 'val_loss']) {
        expect(new Set(epochs.map(({ seen }) => seen[name])).size).toBe(1);
        for (const { history } of ranks) expect(history[name]![epoch]).toBe(epochs[0]!.seen[name]);
      }
    },
  );

  test.each([0, 1, 2, 3])('epoch %d: the moving statistics become their mean', epoch => {
    const epochs = epochOf(epoch);
    expect(epochs[0]!.localMoving).not.toEqual(epochs[1]!.localMoving);
    epochs[0]!.moving.forEach((values, weight) =>
      values.forEach((value, i) => {
        expect(value).toBeCloseTo(mean(epochs.map(({ localMoving }) => localMoving[weight]![i]!)), 5);
      }),
    );
    for (const { moving } of epochs) expect(moving).toEqual(epochs[0]!.moving);
  });

  test('the warm-up follows the epochs', () => {
    for (const { epochs } of ranks) {
      const densities = epochs.map(({ density }) => density);
      expect(densities).toEqual([0.25, 0.25, expect.closeTo(0.1), expect.closeTo(0.1)]);
    }
  });

  test('earlyStopping in `also` ends all ranks after the same epoch', () => {
    expect(ranks.map(({ stoppedAfter }) => stoppedAfter)).toEqual([2, 2, 2]);
  });

  test('learningRateWarmUp raises the rate from a third, and then leaves it', () => {
    const expected = [0.4 / 3, 2 / 9, 14 / 45, 0.4, 0.4, 0.4].map(rate => expect.closeTo(rate));
    for (const { rates } of ranks) expect(rates).toEqual(expected);
  });

  test('learningRateWarmUp: true does so over the warm-up of dgc(), here 2 epochs of 2 steps', () => {
    const expected = [0.4 / 3, 0.2, 0.8 / 3, 1 / 3, 0.4, 0.4].map(rate => expect.closeTo(rate));
    for (const { dgcRates, unwarmedRates } of ranks) {
      expect(dgcRates).toEqual(expected);
      expect(unwarmedRates).toEqual(Array(6).fill(expect.closeTo(0.4)));
    }
  });

  test('it counts the steps of the optimizer, as dgc() does: over a second fit, and over a resumed one', () => {
    const rising = [0.4 / 3, 0.2, 0.8 / 3, 1 / 3, 0.4, 0.4, 0.4, 0.4].map(rate => expect.closeTo(rate));
    for (const { twiceRates, resumedRates } of ranks) {
      expect(twiceRates).toEqual(rising);
      // Each also has the rate after the fit: the full one.
      expect(resumedRates).toEqual([
        [...rising.slice(0, 2), rising[4]],
        [...rising.slice(2, 6), rising[4]],
        [rising[4]],
      ]);
    }
  });

  test('where the length of the warm-up is known only later, it needs { steps }', () => {
    for (const { lateRefusal } of ranks) {
      expect(lateRefusal).toEqual({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringContaining('Pass { steps }') });
    }
  });

  test('without dgc() there is no warm-up that it could follow', () => {
    for (const { refusal } of ranks) {
      expect(refusal).toEqual({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringContaining('Pass { steps }') });
    }
  });
});

describe.each(DATA)('$rows rows in batches of $batchSize for three ranks', ({ rows, batchSize }) => {
  const all = Array.from({ length: rows }, (_, row) => row);
  const sorted = (values: Iterable<number>) => [...new Set(values)].sort((a, b) => a - b);
  let shards: readonly Shards[];
  beforeAll(() => {
    const i = DATA.findIndex(data => data.rows === rows);
    shards = ranks.map(rank => rank.shards[i]!);
  });

  test('of a dataset, all ranks get as many batches in every pass, every row is seen, and no tensor is left', () => {
    const steps = Math.ceil(Math.ceil(rows / batchSize) / WORLD_SIZE);
    for (const { batches, leaked } of shards) {
      expect(batches[0]).toHaveLength(steps);
      expect(batches[1]).toEqual(batches[0]);
      expect(leaked).toBe(0);
    }
    expect(sorted(shards.flatMap(({ batches }) => batches[0].flat()))).toEqual(all);
    const first = shards.map(({ batches }) => batches[0][0]![0]);
    if (rows >= WORLD_SIZE * batchSize) expect(first).toEqual([0, batchSize, 2 * batchSize]);
  });

  test('fitDataset takes as many steps on all ranks and ends', () => {
    const steps = 3 * Math.ceil(Math.ceil(rows / batchSize) / WORLD_SIZE);
    for (const shard of shards) {
      expect(shard.steps).toBe(steps);
      expect(shard.losses).toEqual(shards[0]!.losses);
      expect(shard.losses).toHaveLength(3);
    }
  });

  test('of tensors, lists and records of them, all ranks get as many rows, the same of each, and every row is seen', () => {
    for (const { alone, pair, list, record } of shards) {
      expect(alone).toHaveLength(Math.ceil(rows / WORLD_SIZE));
      for (const other of [...pair, ...list, record.a, record.b]) expect(other).toEqual(alone);
    }
    expect(sorted(shards.flatMap(({ alone }) => alone))).toEqual(all);
    expect(shards[0]!.kinds).toEqual([[Math.ceil(rows / WORLD_SIZE), 1], 'int32']);
    expect(shards[0]!.inputsLeft).toBe(true);
  });
});

test('a script run by node alone is a ring of one, without a socket', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'gradring-alone-'));
  try {
    writeFileSync(path.join(folder, 'input.json'), 'null');
    const { RANK, WORLD_SIZE, ...inherited } = process.env;
    expect([RANK, WORLD_SIZE]).toEqual([undefined, undefined]);
    const env = { ...inherited, GRADRING_BACKEND: TEST_BACKEND ?? 'cpu', TEST_FOLDER: folder };
    await promisify(execFile)(process.execPath, [path.join(__dirname, 'fixtures/alone.js')], { env });
    const result = JSON.parse(readFileSync(path.join(folder, 'rank-0.json'), 'utf8'));
    const none = { bytesSent: 0, bytesReceived: 0 };
    expect(result).toMatchObject({ sockets: 0, rank: 0, worldSize: 1, traffic: none, rows: 8 });
    expect(result.losses[5]).toBeLessThan(result.losses[0]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
