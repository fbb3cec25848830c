import type { GradringError, SerializedError } from '../../src/errors';
import { FailureAgreement } from '../../src/transport/control/failure-agreement';
import { neighbourOf, opposite, type Side } from '../../src/transport/ring-place';
import { random } from '../support/random';

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

const error = (code: SerializedError['code'], rank?: number): SerializedError => ({
  ...{ code, message: `${code} of ${rank}`, details: rank === undefined ? {} : { rank } },
});
const lossOf = (rank: number) => error('ERR_PEER_LOST', rank);

/** Ranks joined by links that keep their order, each as fast or slow as `next` has it. */
class Ring {
  readonly agreed: (GradringError | undefined)[];
  readonly ranks: FailureAgreement[];
  private readonly links = new Map<string, { side: Side; to: number; origin: number; error: SerializedError }[]>();

  /**
   * @param cut Links that carry nothing: `3` is the one to the right of rank 3.
   * @param silent Ranks that show no life.
   */
  constructor(
    readonly worldSize: number,
    private readonly next: () => number,
    private readonly cut = new Set<number>(),
    private readonly silent = new Set<number>(),
  ) {
    this.agreed = new Array<undefined>(worldSize).fill(undefined);
    const ring = { ringId: 1n, generation: 0, worldSize };
    this.ranks = this.agreed.map(
      (_, rank) =>
        new FailureAgreement({
          rank,
          neighbourOf: (of, side) => neighbourOf(ring, of, side),
          tell: (side, origin, error) => {
            const to = neighbourOf(ring, rank, side);
            if (this.cut.has(side === 'right' ? rank : to)) return;
            const link = this.links.get(`${rank} ${side}`) ?? [];
            this.links.set(`${rank} ${side}`, [...link, { side: opposite(side), to, origin, error }]);
          },
          giveUpIfSilent: side => this.silent.has(neighbourOf(ring, rank, side)),
          missing: side => lossOf(neighbourOf(ring, rank, side)),
          onAgreed: failure => {
            expect(this.agreed[rank]).toBeUndefined(); // told once
            this.agreed[rank] = failure;
          },
        }),
    );
  }

  /** What happens meanwhile happens in between, in any order. Ends when nothing more is under way. */
  run(meanwhile: (() => void)[] = []): void {
    for (;;) {
      const ready = [...this.links].filter(([, messages]) => messages.length > 0);
      const choice = Math.floor(this.next() * (ready.length + meanwhile.length));
      if (ready.length + meanwhile.length === 0) return;
      if (choice >= ready.length) meanwhile.splice(choice - ready.length, 1)[0]!();
      else {
        const { to, side, origin, error } = ready[choice]![1].shift()!;
        this.ranks[to]!.hear(side, origin, error);
      }
    }
  }

  /** How they see one that is dead: first there is no link any more, then they say so. */
  lose(lost: number): (() => void)[] {
    const beside: [number, Side][] = [
      [(lost + this.worldSize - 1) % this.worldSize, 'right'],
      [(lost + 1) % this.worldSize, 'left'],
    ];
    return beside.map(([rank, side]) => () => {
      this.ranks[rank]!.lose(side);
      this.ranks[rank]!.find(lossOf(lost));
    });
  }
}

const summaryOf = (failure: GradringError | undefined) => failure && `${failure.code} ${failure.rank}`;

test('if several ranks find failures at about the same time, all raise the same, without waiting for a clock', () => {
  const next = random(1);
  let contested = 0;
  for (let round = 0; round < 500; round++) {
    const worldSize = 2 + Math.floor(next() * 6);
    const ring = new Ring(worldSize, next);
    const codes = ['ERR_TIMEOUT', 'ERR_COLLECTIVE_MISMATCH', 'ERR_PROTOCOL', 'ERR_PEER_LOST'] as const;
    const found = new Set<string>();
    const finders = Array.from({ length: 1 + Math.floor(next() * 3) }, () => () => {
      const rank = Math.floor(next() * worldSize);
      const code = codes[Math.floor(next() * codes.length)]!;
      // A neighbour is lost only where a link is, as in the tests below.
      const cause = error(code, code === 'ERR_PEER_LOST' ? rank : Math.floor(next() * worldSize));
      if (!ring.ranks[rank]!.begun) found.add(cause.message);
      ring.ranks[rank]!.find(cause);
    });
    ring.run(finders);
    const summaries = new Set(ring.agreed.map(summaryOf));
    expect(summaries.size).toBe(1);
    expect(ring.agreed).not.toContain(undefined);
    contested += found.size > 1 ? 1 : 0;
  }
  expect(contested).toBeGreaterThan(75);
});

test('of a rank that is dead all others know, without waiting for a clock', () => {
  const next = random(2);
  for (let round = 0; round < 250; round++) {
    const worldSize = 3 + Math.floor(next() * 5);
    const lost = Math.floor(next() * worldSize);
    const ring = new Ring(worldSize, next, new Set([lost, (lost + worldSize - 1) % worldSize]));
    ring.run(ring.lose(lost));
    ring.agreed.forEach((failure, rank) => {
      expect(summaryOf(failure)).toBe(rank === lost ? undefined : `ERR_PEER_LOST ${lost}`);
    });
  }
});

test('of two that die together each part of the ring names the lower one', () => {
  const next = random(3);
  for (let round = 0; round < 100; round++) {
    const ring = new Ring(6, next, new Set([0, 1, 3, 4])); // 1 and 4 are dead
    ring.run([...ring.lose(1), ...ring.lose(4)]);
    jest.runAllTimers(); // who had heard already found nothing of its own
    for (const part of [
      [2, 3],
      [5, 0],
    ]) {
      const summaries = new Set(part.map(rank => summaryOf(ring.agreed[rank])));
      expect([['ERR_PEER_LOST 1'], ['ERR_PEER_LOST 4']]).toContainEqual([...summaries]);
    }
  }
  const ring = new Ring(6, () => 0.999, new Set([0, 1, 3, 4])); // all is found before any word arrives
  ring.run([...ring.lose(1), ...ring.lose(4)]);
  expect([0, 2, 3, 5].map(rank => summaryOf(ring.agreed[rank]))).toEqual(Array(4).fill('ERR_PEER_LOST 1'));
});

test('a cut link: both ends miss each other, and all say which link it is', () => {
  const ring = new Ring(4, () => 0.999, new Set([1])); // between 1 and 2; found before any word arrives
  const ends: [number, Side, number][] = [[1, 'right', 2], [2, 'left', 1]]; // prettier-ignore
  ring.run(
    ends.map(([rank, side, lost]) => () => {
      ring.ranks[rank]!.lose(side);
      ring.ranks[rank]!.find(lossOf(lost));
    }),
  );
  for (const failure of ring.agreed) {
    expect(failure).toMatchObject({ code: 'ERR_PEER_LOST', rank: 1 });
    expect(failure!.message).toMatch(/^The link between rank 1 and rank 2 is broken: both are running/);
  }
});

test('a cut link: whichever end notices first, and if the other never does by itself, all say which link it is', () => {
  const next = random(4);
  for (let round = 0; round < 250; round++) {
    const worldSize = 3 + Math.floor(next() * 5);
    const left = Math.floor(next() * worldSize);
    const right = (left + 1) % worldSize;
    const ring = new Ring(worldSize, next, new Set([left]));
    const ends: [number, Side, number][] = [[left, 'right', right], [right, 'left', left]]; // prettier-ignore
    const notice = ends.map(([rank, side, lost]) => () => {
      ring.ranks[rank]!.lose(side);
      ring.ranks[rank]!.find(lossOf(lost));
    });
    ring.run(round % 2 === 0 ? notice : [notice[(round >> 1) % 2]!]);
    const lower = Math.min(left, right);
    expect(ring.agreed.map(summaryOf)).toEqual(Array(worldSize).fill(`ERR_PEER_LOST ${lower}`));
    for (const failure of ring.agreed) expect(failure!.message).toMatch(/^The link between /);
  }
});

test('a silent rank: its left neighbour notices, all know without waiting for a clock, and nobody tells it', () => {
  const next = random(5);
  for (let round = 0; round < 250; round++) {
    const worldSize = 2 + Math.floor(next() * 6);
    const lost = Math.floor(next() * worldSize);
    const ring = new Ring(worldSize, next, new Set(), new Set([lost])); // its links carry what it does not read yet
    ring.run([ring.lose(lost)[0]!]);
    ring.agreed.forEach((failure, rank) => {
      expect(summaryOf(failure)).toBe(rank === lost ? undefined : `ERR_PEER_LOST ${lost}`);
    });
  }
});

test('where no word can tell that all is known, a second does', () => {
  const ring = new Ring(4, () => 0, new Set([1, 2])); // rank 2 is stopped, and only rank 1 has noticed yet
  ring.run([ring.lose(2)[0]!]);
  expect(ring.agreed).toEqual(Array(4).fill(undefined));
  jest.advanceTimersByTime(1_000);
  expect([0, 1, 3].map(rank => summaryOf(ring.agreed[rank]))).toEqual(Array(3).fill('ERR_PEER_LOST 2'));
});

test('what explains the others comes first: not a deadline that passed, nor a rank that is gone', () => {
  const order = [lossOf(0), error('ERR_TIMEOUT', 0), error('ERR_COLLECTIVE_MISMATCH', 3), error('ERR_TIMEOUT')];
  for (const [found, expected] of [
    [order, 'ERR_COLLECTIVE_MISMATCH 3'],
    [[order[0], order[1], order[3]], 'ERR_PEER_LOST 0'],
    [[order[1], order[3], error('ERR_TIMEOUT', 2)], 'ERR_TIMEOUT 0'],
  ] as const) {
    const ring = new Ring(4, () => 0.999);
    ring.run(found.map((cause, rank) => () => ring.ranks[rank]!.find(cause!)));
    expect(ring.agreed.map(summaryOf)).toEqual(Array(4).fill(expected));
  }
});
