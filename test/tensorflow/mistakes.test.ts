import { freePort } from '../support/rings';
import { runFixture } from './support';

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
];

describe('two ranks that differ are told how', () => {
  let byRank: readonly Record<string, Failure>[];
  beforeAll(async () => {
    const ports = await Promise.all(Array.from({ length: 2 * MISTAKES.length }, freePort));
    byRank = await runFixture('mistakes.js', { ranks: 2, input: { ports } });
  }, 120_000);

  test.each(MISTAKES)('%s', (mistake, code, words) => {
    for (const outcomes of byRank) {
      expect(outcomes[mistake]).toMatchObject({ code, message: expect.stringMatching(words) });
      expect(outcomes[mistake]!.details?.rank).toBe(byRank[0]![mistake]!.details?.rank);
    }
  });

  test('one rank leaves early', () => {
    const [stays, leaves] = byRank.map(outcomes => outcomes['one rank leaves early']);
    expect(leaves).toEqual({});
    expect(stays).toMatchObject({ code: 'ERR_PEER_LOST', details: { rank: 1 } });
    expect(stays!.message).toMatch(/has left the ring/);
  });
});
