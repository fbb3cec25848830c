import { LARGEST_VALUE } from '../../src/rank-values';
import { runFixture } from './support';

interface Failure {
  readonly code: string;
  readonly message: string;
  readonly details: { readonly rank?: number };
}

interface Outcomes {
  readonly results: Readonly<Record<string, Failure>>;
  readonly named: Readonly<Record<string, Failure>>;
  readonly long: Failure;
}

const GARBAGE = ['', '{', 'null', '7', '"\x1b[2J"', '[null]', '[[1]]', '{"__proto__":null}', '{"error":{"code":"x"}}'];
const NAMES = { 'moves the cursor': 'w\x1b[2J\x9b\u202e\r\n', 'is long': 'x'.repeat(2e6) };

const PROTOCOL = 'Rank 1 broke the protocol: what it told the others is not what ranks tell each other there.';

let outcomes: readonly Outcomes[];
beforeAll(async () => {
  const input = { garbage: GARBAGE, names: NAMES, largest: LARGEST_VALUE };
  outcomes = await runFixture<Outcomes>('hostile-rank.js', { ranks: 2, input });
});

test('garbage from a rank that was let in is an error that names it, wherever ranks tell each other something', () => {
  for (const { results } of outcomes) {
    expect(Object.keys(results)).toHaveLength(10 * GARBAGE.length);
    for (const [where, { code, message, details }] of Object.entries(results)) {
      expect({ where, code, message, rank: details?.rank }).toEqual({
        ...{ where, code: 'ERR_PROTOCOL', message: PROTOCOL, rank: 1 },
      });
    }
  }
});

test('names of variables are quoted as they can be shown, and not at any length', () => {
  for (const { named } of outcomes) {
    expect(named['moves the cursor']).toMatchObject({
      code: 'ERR_MODEL_MISMATCH',
      message: expect.stringContaining('but w\\u{1b}[2J\\u{9b}\\u{202e}\\u{d}\\u{a} on rank 1') as string,
    });
    const { code, message } = named['is long']!;
    expect({ code, isShort: message.length < 1_000 }).toEqual({ code: 'ERR_MODEL_MISMATCH', isShort: true });
  }
});

test('no room is made for a value that is larger than any', () => {
  for (const { long } of outcomes) {
    expect(long).toMatchObject({
      code: 'ERR_PROTOCOL',
      message: expect.stringContaining(`Rank 1 announced an array of ${LARGEST_VALUE + 1} bytes.`) as string,
      details: { rank: 1 },
    });
  }
});
