import { freePort } from '../support/rings';
import { runFixture } from '../tensorflow/support';

interface Failure {
  readonly code?: string;
  readonly message?: string;
  readonly details?: { readonly rank?: number; readonly variable?: string };
}

/** Mistakes of two ranks, with the code and the words that both are told. */
const MISTAKES: [mistake: string, code: string, words: RegExp][] = [
  [
    'no callbacks',
    'ERR_COLLECTIVE_MISMATCH',
    /^Rank 0 begins model\.fit with ring\.callbacks\(\), but rank 1 takes its first optimizer step without them\. Pass ring\.callbacks\(\) to model\.fit on all ranks\./,
  ],
  [
    'no wrap on one rank',
    'ERR_INVALID_ARGUMENT',
    /^The model of rank 1 is compiled with an optimizer that is not wrapped.*ring\.wrap\(optimizer\)/,
  ],
  ['no wrap', 'ERR_INVALID_ARGUMENT', /^The model of rank 0 is compiled with an optimizer that is not wrapped/],
  [
    'verifyReplicas, broadcastVariables',
    'ERR_COLLECTIVE_MISMATCH',
    /rank 0 is in ring\.verifyReplicas, but rank 1 is in ring\.broadcastVariables\. All ranks must make the same calls, in the same order\./,
  ],
  [
    'other roots',
    'ERR_COLLECTIVE_MISMATCH',
    /rank 0 is in ring\.broadcastVariables, broadcast\(.*root 0\), but rank 1 is in ring\.broadcastVariables, broadcast\(.*root 1\)/,
  ],
  [
    'learning rate',
    'ERR_MODEL_MISMATCH',
    /^Ranks take different optimizer steps: learningRate is 0\.1 on rank 0, but 0\.05 on rank 1\. Set it to the same value on all ranks\./,
  ],
  ['learning rate, asynchronously', 'ERR_MODEL_MISMATCH', /learningRate is 0\.1 on rank 0, but 0\.05 on rank 1/],
  ['epoch', 'ERR_MODEL_MISMATCH', /: epoch is 0 on rank 0, but 1 on rank 1\. Set it to the same value/],
  [
    'steps in another order',
    'ERR_MODEL_MISMATCH',
    /^Rank 0 and rank 1 take optimizer step 1 of different optimizers: .*the ranks use several optimizers in different order/,
  ],
  [
    'fewer rows',
    'ERR_COLLECTIVE_MISMATCH',
    /^Rank 0 takes 3 steps in an epoch, but rank 1 takes 2: they have different numbers of rows, or different batch sizes\. ring\.shard/,
  ],
  [
    'fewer batches',
    'ERR_COLLECTIVE_MISMATCH',
    /^Rank 1 ended its epoch after step 2, but rank 0 continues with step 3\. Do the ranks have different numbers of rows, batch sizes or stepsPerEpoch, or does one of them stop early\?/,
  ],
  ['fewer epochs', 'ERR_COLLECTIVE_MISMATCH', /^Rank 0 trains 2 epochs, but rank 1 trains 1\./],
  [
    'another first epoch',
    'ERR_COLLECTIVE_MISMATCH',
    /^Rank 0 begins with epoch 0, but rank 1 with epoch 1\. Pass the same initialEpoch on all ranks\./,
  ],
  [
    'validation on one rank',
    'ERR_COLLECTIVE_MISMATCH',
    /^Rank 0 has validation data, but rank 1 has none\. Pass it on all ranks, or on none\./,
  ],
  ['a metric on one rank', 'ERR_COLLECTIVE_MISMATCH', /^After epoch 0, rank 1 has the metric mae, but rank 0 does not/],
  [
    'one rank stops early',
    'ERR_COLLECTIVE_MISMATCH',
    /rank 0 is in an optimizer step \(step 2\), but rank 1 is in ring\.verifyReplicas/,
  ],
  [
    'batch norm in a custom loop',
    'ERR_REPLICAS_DIVERGED',
    /differ .* at this point: 'norm\/moving_mean' and 1 more\. No gradient trains it.*ring\.averageVariables/,
  ],
  ['weights that differ', 'ERR_REPLICAS_DIVERGED', /at this point: 'differs'\. Start from the same weights/],
  [
    'no await before model.fit, and the ring is closed',
    'ERR_CLOSED',
    /^The ring was closed while model\.fit was under way\. Write await before model\.fit\./,
  ],
  [
    'no await before model.fit, and the replicas are compared',
    'ERR_REPLICAS_DIVERGED',
    /^The weights of rank 1 differ from those of rank 0 while model\.fit is under way \(is await missing before it\?\): /,
  ],
  [
    'model.fit within tf.tidy',
    'ERR_INVALID_ARGUMENT',
    /^model\.fit was called within tf\.tidy, which cannot wait for it\. Call it outside of tf\.tidy\./,
  ],
];

const SAME_ROWS = /^All 2 ranks train on the same rows.*model\.fit\(\.\.\.ring\.shard\(x, y\), …\)/;
const OTHER_SIZES = (first: number, second: number) =>
  new RegExp(
    `^Rank 0 takes ${first} rows in a step, but rank 1 takes ${second}\\..*Use the same batch size on all ranks`,
  );
const SKIPPED = (step: number, count: string) =>
  new RegExp(
    `^The gradient of 'skipped' holds NaN or infinity on rank 1, in step ${step}\\..* So far ${count} skipped\\.`,
  );

/** What two ranks may do that works, and what rank 0 warns of. */
const DOUBTFUL: [what: string, warnings: RegExp[]][] = [
  ['rows that are not divided', [SAME_ROWS]],
  ['batches that are not divided', [SAME_ROWS]],
  ['rows that the program divides', []],
  ['batches that the program divides', []],
  ['rows that are divided, and all the same', []],
  ['other batch sizes', [OTHER_SIZES(8, 4)]],
  ['other batch sizes of datasets', [OTHER_SIZES(2, 4)]],
  ['nested callbacks', []],
  ['skipped steps', [SKIPPED(0, '1 of 1 step was'), SKIPPED(2, '2 of 3 steps were'), SKIPPED(4, '4 of 5 steps were')]],
];

interface Outcomes {
  readonly failures: Record<string, Failure>;
  readonly warnings: Record<string, string[]>;
}

describe('two ranks that differ are told how', () => {
  let byRank: readonly Record<string, Failure>[];
  let warnings: readonly Record<string, string[]>[];
  beforeAll(async () => {
    const ports = await Promise.all(Array.from({ length: 2 + MISTAKES.length }, freePort));
    const outcomes = await runFixture<Outcomes>('mistakes.js', { ranks: 2, input: { ports } });
    byRank = outcomes.map(({ failures }) => failures);
    warnings = outcomes.map(each => each.warnings);
  }, 120_000);

  test.each(MISTAKES)('%s', (mistake, code, words) => {
    for (const outcomes of byRank) {
      expect(outcomes[mistake]).toMatchObject({ code, message: expect.stringMatching(words) });
      expect(outcomes[mistake]!.details?.rank).toBe(byRank[0]![mistake]!.details?.rank);
    }
  });

  test.each(DOUBTFUL)('warnings of rank 0: %s', (what, expected) => {
    for (const outcomes of byRank) expect(outcomes[what]).toEqual({});
    expect(warnings[0]![what]).toEqual(expected.map(words => expect.stringMatching(words)));
    expect(warnings[1]![what]).toEqual([]);
  });

  test.each([
    ['fewer batches', 1], // it has ended its epoch early
    ['no callbacks', 1],
    ['no wrap on one rank', 1],
    ['fewer rows', undefined],
    ['fewer epochs', undefined],
    ['other roots', undefined],
  ])('%s: the error names the rank that is wrong, if that is known: %s', (mistake, rank) => {
    for (const outcomes of byRank) expect(outcomes[mistake]!.details?.rank).toBe(rank);
  });

  test('one rank leaves early', () => {
    const [stays, leaves] = byRank.map(outcomes => outcomes['one rank leaves early']);
    expect(leaves).toEqual({});
    expect(stays).toMatchObject({ code: 'ERR_PEER_LOST', details: { rank: 1 } });
    expect(stays!.message).toMatch(/has left the ring/);
  });
});
