import { MessageRunner } from '../../src/comm-thread/message-runner';
import type { Communicator } from '../../src/communicator/communicator';
import type { Transport } from '../../src/transport/transport';
import { casesOf, quickTest } from '../support/cases';
import { cleanUpRanks, closeRings, failureOf, ringOf, startRanks } from '../support/rings';

afterEach(closeRings);
afterEach(cleanUpRanks);

const one = (value: number) => Float32Array.of(value);
const matching = (words: RegExp) => expect.stringMatching(words) as string;

quickTest(
  'messages of one tag keep their order, and those of other tags and collectives do not wait for them',
  async () => {
    const [first, second] = (await ringOf(2)) as [Communicator, Communicator];
    const sent = [1, 2, 3].map(value => first.send(one(value), 1));
    const other = first.send(Uint8Array.of(7), 1, { tag: 65_535 });
    await Promise.all([first.barrier(), second.barrier()]); // nobody has received anything yet
    expect(await second.receive(0, { tag: 65_535 })).toEqual(Uint8Array.of(7));
    await other;
    const received = await Promise.all(sent.map(() => second.receive(0)));
    expect(received).toEqual([1, 2, 3].map(one));
    await Promise.all(sent);
  },
);

quickTest(
  'an array is copied when it is sent, unless it is shared; what is received belongs to the caller',
  async () => {
    const [first, second] = (await ringOf(2)) as [Communicator, Communicator];
    const array = Float64Array.of(1, 2);
    const shared = first.allocate('int32', 3);
    shared.set([4, 5, 6]);
    const sent = [first.send(array, 1), first.send(shared.subarray(1), 1)];
    array.fill(0);
    const received = [await second.receive(0), await second.receive<Int32Array>(0)] as const;
    await Promise.all(sent);
    expect(received).toEqual([Float64Array.of(1, 2), Int32Array.of(5, 6)]);
    received[1].fill(0);
    expect([...shared]).toEqual([4, 5, 6]);
    first.free(shared);
  },
);

quickTest('the ranks between forward messages while their programs are busy, and the Sync forms sleep', async () => {
  const ranks = await startRanks(
    4,
    `const ring = await Communicator.connect();
    const { rank } = ring;
    await ring.barrier();
    if (rank % 2 === 1) {
      const busy = new Int32Array(new SharedArrayBuffer(4));
      ring.receiveSync((rank + 1) % 4); // the thread sleeps; what the others send goes through it
      ring.sendSync(Uint8Array.of(rank), (rank + 1) % 4);
    } else {
      const other = 2 - rank;
      const [received] = await Promise.all([ring.receive(other), ring.send(new Float32Array(2e6).fill(rank + 1), other)]);
      ring.sendSync(Uint8Array.of(0), (rank + 3) % 4);
      say('received ' + received.length + ' of ' + received[0] + ', and of ' + ring.receiveSync((rank + 3) % 4)[0]);
    }
    await ring.close();`,
  );
  const ends = await Promise.all(ranks.map(({ ended }) => ended));
  expect(ends.map(({ stdout, stderr }) => stdout + stderr)).toEqual([
    'received 2000000 of 3, and of 3\n',
    '',
    'received 2000000 of 1, and of 1\n',
    '',
  ]);
});

describe('ranks that leave', () => {
  quickTest('a message arrives although its sender leaves at once', async () => {
    const ring = await ringOf(4);
    const received = ring[2]!.receive(0);
    await ring[0]!.send(new Uint8Array(3_000_000).fill(3), 2);
    await ring[0]!.close();
    expect((await received).length).toBe(3_000_000);
    expect((await received)[2_999_999]).toBe(3);
  });

  const LEAVERS = casesOf<[string, number, number[]]>(
    [['a rank on the way', 3, [0, 2]]],
    [
      ['the sender', 2, [0]],
      ['the receiver', 0, [2]],
    ],
  );

  test.each(LEAVERS)('%s has left: the ends that wait fail, with its rank', async (_, leaver, ends) => {
    const ring = await ringOf(4);
    await ring[leaver]!.close();
    const calls = new Map<number, () => Promise<unknown>>([
      [0, () => ring[0]!.receive(2)],
      [2, () => ring[2]!.send(one(1), 0)],
    ]);
    for (const error of await Promise.all(ends.map(rank => failureOf(calls.get(rank)!())))) {
      expect(error).toMatchObject({ code: 'ERR_PEER_LOST', rank: leaver });
      expect(error.message).toContain(`Rank ${leaver} (`);
      expect(error.message).toContain('has left the ring: its program ended, or closed it, before rank');
    }
  });

  quickTest('a rank has left that is not on the way: messages go on', async () => {
    const ring = await ringOf(4);
    await ring[1]!.close();
    expect(await Promise.all([ring[0]!.receive(2), ring[2]!.send(one(1), 0)])).toEqual([one(1), undefined]);
  });

  quickTest('one that leaves while the other end waits is noticed, too', async () => {
    const ring = await ringOf(3);
    const waiting = [failureOf(ring[0]!.receive(2)), failureOf(ring[1]!.send(one(1), 2))];
    await ring[2]!.close();
    for (const error of await Promise.all(waiting)) expect(error).toMatchObject({ code: 'ERR_PEER_LOST', rank: 2 });
  });
});

quickTest('an abort ends the ring for all, as in a collective', async () => {
  const ring = await ringOf(3);
  const controller = new AbortController();
  const waiting = [
    failureOf(ring[0]!.receive(1, { signal: controller.signal })),
    failureOf(ring[2]!.send(one(1), 0)),
    failureOf(ring[1]!.barrier()),
  ];
  controller.abort('enough');
  const failures = await Promise.all(waiting);
  for (const failure of failures) expect(failure).toMatchObject({ code: 'ERR_ABORTED', rank: 0 });
  expect(failures[0]!.cause).toBe('enough');
  expect(failures[1]!.message).toContain('(Rank 2 was in send(rank 0, tag 0).)');
});

quickTest('a call that waits too long ends the ring, and names the rank that it waited for', async () => {
  const ring = await ringOf(2, { timeoutMs: 300 });
  const error = await failureOf(ring[0]!.receive(1, { tag: 3 }));
  expect(error).toMatchObject({ code: 'ERR_TIMEOUT', rank: 1, details: { operation: 'receive(rank 1, tag 3)' } });
  expect(error.message).toContain('Rank 0 waited 300 ms to receive from rank 1 (tag 3): it has not called send');
  expect(await failureOf(ring[1]!.send(one(1), 0))).toMatchObject({ code: 'ERR_TIMEOUT', rank: 1 });
});

quickTest('a call that waits for long is reported, after twice as long again', async () => {
  jest.useFakeTimers();
  try {
    const said: string[] = [];
    const never = () => new Promise<never>(() => undefined);
    const transport: Partial<Transport> = { rank: 2, messenger: { send: never, receive: never } };
    const runner = new MessageRunner(transport as Transport, { timeoutMs: 1e6, stallMs: 30_000 }, line =>
      said.push(line),
    );
    void runner.send(0, 5, { elementType: 'uint8', bytes: new Uint8Array(1) });
    void runner.send(0, 5, { elementType: 'uint8', bytes: new Uint8Array(1) }); // waits for the one before
    await jest.advanceTimersByTimeAsync(100_000);
    expect(said).toEqual(
      [30, 90].map(
        s =>
          `gradring: rank 2 has waited ${s} s to send to rank 0 (tag 5): it has not called receive, or has not taken all of it yet.`,
      ),
    );
  } finally {
    jest.useRealTimers();
  }
});

quickTest('wrong arguments are errors before anything is sent', async () => {
  const ring = await ringOf(2);
  const [first] = ring as [Communicator, Communicator];
  const refused = (words: RegExp) => ({ code: 'ERR_INVALID_ARGUMENT', message: matching(words) });
  expect(await failureOf(first.send(one(1), 2))).toMatchObject(refused(/^to is 2; it must be a rank, 0 … 1/));
  expect(await failureOf(first.receive(0))).toMatchObject(refused(/^from is 0, this rank itself: ring.receive takes/));
  expect(await failureOf(first.send([1] as never, 1))).toMatchObject(refused(/^ring.send takes a Float32Array/));
  for (const tag of [-1, 65_536, 0.5, 'x' as never]) {
    expect(await failureOf(first.receive(1, { tag }))).toMatchObject(refused(/^tag is .*; it must be a whole number/));
  }
  expect(await failureOf(first.receive(1, { tags: 1 } as never))).toMatchObject(refused(/tags/));
  expect(() => first.sendSync(one(1), 0)).toThrow('this rank itself');
  await Promise.all(ring.map(rank => rank.barrier()));
  const [alone] = (await ringOf(1)) as [Communicator];
  expect(await failureOf(alone.send(one(1), 1))).toMatchObject(refused(/^to is 1/));
});
