import { awaitOthers } from '../../src/comm-thread/await-others';
import { GradringError } from '../../src/errors';
import type { RankState } from '../../src/transport/control/roll-call';
import { SoloTransport } from '../../src/transport/transport';
import { Operation, Purpose } from '../../src/wire/frame';

const BARRIER = {
  ...{ operation: Operation.Barrier, purpose: Purpose.Call, elementType: 'none', reduction: 'none' },
  ...{ elementCount: 0, parameter: 0 },
};

const at = (sequence: number, isCalling = false) =>
  ({ call: BARRIER, sequence, isCalling, sinceMs: 0, step: undefined }) as RankState;

/** Rank 0 of three. What the others are at is told by one answer after the other. */
class AskedTransport extends SoloTransport {
  override readonly worldSize = 3 as 1;
  hasLostNeighbour = false;
  asked = 0;

  constructor(private readonly told: [RankState | undefined, RankState | undefined][]) {
    super();
  }

  override async check({ whole }: { whole: boolean } = { whole: false }): Promise<void> {
    if (whole && this.hasLostNeighbour) this.failure = new GradringError('ERR_PEER_LOST', 'Rank 2 has left the ring.');
    if (this.failure) throw this.failure;
  }

  override readonly rollCall = {
    attend: () => undefined,
    ask: () => void this.asked++,
    answers: () => {
      const states = this.told[Math.min(this.asked, this.told.length) - 1] ?? [];
      return new Map(states.flatMap((state, i) => (state ? [[i + 1, state] as const] : [])));
    },
  };
}

const GIVEN_UP_MS = 5_000;

test('it returns when all others have done it, and asks again until then', async () => {
  const transport = new AskedTransport([
    [undefined, at(6)],
    [at(7, true), at(7)],
    [at(7), at(8, true)],
  ]);
  await awaitOthers(transport, 7, GIVEN_UP_MS);
  expect(transport.asked).toBe(3);
});

test('who has called nothing yet has not done collective 0', async () => {
  const none = { ...at(0), call: { ...BARRIER, operation: Operation.None } } as RankState;
  const transport = new AskedTransport([
    [none, at(0)],
    [at(0), at(0)],
  ]);
  await awaitOthers(transport, 0, GIVEN_UP_MS);
  expect(transport.asked).toBe(2);
});

test('when the ring fails, so does it, with what the ring has failed with', async () => {
  const transport = new AskedTransport([[at(7), at(7, true)]]);
  const failure = new GradringError('ERR_PEER_LOST', 'Rank 2 is gone.');
  setTimeout(() => (transport.failure = failure), 30);
  await expect(awaitOthers(transport, 7, GIVEN_UP_MS)).rejects.toBe(failure);
});

test('a neighbour that has left may still be passing on what others had said; if they do not answer after that, the ring is given up', async () => {
  const known = new AskedTransport([[at(7), at(7)]]);
  known.hasLostNeighbour = true;
  await awaitOthers(known, 7, GIVEN_UP_MS);
  const unknown = new AskedTransport([[at(7), undefined]]);
  unknown.hasLostNeighbour = true;
  await expect(awaitOthers(unknown, 7, GIVEN_UP_MS)).rejects.toThrow('Rank 2 has left the ring.');
  expect(unknown.asked).toBe(1);
});

test('alone, nobody is waited for; and nobody for ever', async () => {
  await awaitOthers(new SoloTransport(), 7, GIVEN_UP_MS);
  await awaitOthers(new AskedTransport([[undefined, undefined]]), 7, 50);
});
