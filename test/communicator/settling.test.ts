import { untilAllHaveDone } from '../../src/communicator/settling';
import { GradringError } from '../../src/errors';
import { type RankState, SoloTransport } from '../../src/transport/transport';
import { Operation } from '../../src/wire/frame';

const BARRIER = { operation: Operation.Barrier, elementType: 'none', reduction: 'none', elementCount: 0, parameter: 0 };

const at = (sequence: number, isCalling = false) =>
  ({ call: BARRIER, sequence, isCalling, sinceMs: 0, step: undefined }) as RankState;

/** Rank 0 of three. What the others are at is told by one answer after the other. */
class AskedTransport extends SoloTransport {
  override readonly worldSize = 3 as 1;
  override failed = false as never;
  override isWhole = true as never;
  asked = 0;

  constructor(private readonly told: [RankState | undefined, RankState | undefined][]) {
    super();
  }

  override ask(): void {
    this.asked++;
  }

  override answers(): ReadonlyMap<number, RankState> {
    const states = this.told[Math.min(this.asked, this.told.length) - 1] ?? [];
    return new Map(states.flatMap((state, i) => (state ? [[i + 1, state] as const] : [])));
  }
}

const GIVEN_UP_MS = 5_000;

test('it returns when all others have done it, and asks again until then', async () => {
  const transport = new AskedTransport([
    [undefined, at(6)],
    [at(7, true), at(7)],
    [at(7), at(8, true)],
  ]);
  await untilAllHaveDone(transport, 7, GIVEN_UP_MS);
  expect(transport.asked).toBe(3);
});

test('who has called nothing yet has not done collective 0', async () => {
  const none = { ...at(0), call: { ...BARRIER, operation: Operation.None } } as RankState;
  const transport = new AskedTransport([
    [none, at(0)],
    [at(0), at(0)],
  ]);
  await untilAllHaveDone(transport, 0, GIVEN_UP_MS);
  expect(transport.asked).toBe(2);
});

test('when the ring fails, so does it, with what the ring has failed with', async () => {
  const transport = new AskedTransport([[at(7), at(7, true)]]);
  const failure = new GradringError('ERR_PEER_LOST', 'Rank 2 is gone.');
  transport.fail = () => Promise.resolve(failure);
  setTimeout(() => (transport.failed = true as never), 30);
  await expect(untilAllHaveDone(transport, 7, GIVEN_UP_MS)).rejects.toBe(failure);
});

test('if a neighbour has left before it was known, the ring is given up', async () => {
  const transport = new AskedTransport([[at(7), undefined]]);
  transport.isWhole = false as never;
  await expect(untilAllHaveDone(transport, 7, GIVEN_UP_MS)).rejects.toMatchObject({
    code: 'ERR_PEER_LOST',
    rank: 2,
  });
});

test('alone, nobody is waited for; and nobody for ever', async () => {
  await untilAllHaveDone(new SoloTransport(), 7, GIVEN_UP_MS);
  await untilAllHaveDone(new AskedTransport([[undefined, undefined]]), 7, 50);
});
