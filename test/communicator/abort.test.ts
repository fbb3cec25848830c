import type { CallOptions, Communicator } from '../../src/communicator/communicator';
import { Communicator as Connected } from '../../src/communicator/communicator';
import { casesOf, quickTest } from '../support/cases';
import { closeRing, connectRing, failureOf, freePort, sleep, untilListening } from '../support/rings';

const array = () => Float32Array.of(1);

const CALLS: [name: string, call: (rank: Communicator, options: CallOptions) => Promise<unknown>][] = [
  ['allReduce', (rank, options) => rank.allReduce(array(), options)],
  ['reduceScatter', (rank, options) => rank.reduceScatter(array(), options)],
  ['allGather', (rank, options) => rank.allGather(array(), options)],
  ['broadcast', (rank, options) => rank.broadcast(array(), options)],
  ['reduce', (rank, options) => rank.reduce(array(), options)],
  ['gather', (rank, options) => rank.gather(array(), options)],
  ['scatter', (rank, options) => rank.scatter(array(), { from: new Float32Array(rank.worldSize), ...options })],
  ['allToAll', (rank, options) => rank.allToAll(new Float32Array(rank.worldSize), options)],
  ['sendReceive', (rank, options) => rank.sendReceive(array(), options)],
  ['barrier', (rank, options) => rank.barrier(options)],
  [
    'send and receive',
    (rank, options) => {
      const { rank: own, worldSize } = rank;
      if (worldSize === 1) return rank.barrier(options);
      const [to, from] = [(own + 1) % worldSize, (own + worldSize - 1) % worldSize];
      return Promise.all([rank.send(array(), to, options), rank.receive(from, options)]);
    },
  ],
  ['broadcastObject', (rank, options) => rank.broadcastObject({}, options)],
  ['allGatherObject', (rank, options) => rank.allGatherObject({}, options)],
  ['gatherObject', (rank, options) => rank.gatherObject({}, options)],
  [
    'sparseAllReduce',
    (rank, options) => rank.sparseAllReduce({ indices: Uint32Array.of(0), values: array(), elementCount: 1 }, options),
  ],
];

describe.each(casesOf([2], [1, 3]))('a ring of %i', worldSize => {
  let ring: Communicator[];
  beforeAll(async () => {
    ring = await connectRing(worldSize);
  });
  afterAll(() => closeRing(ring));

  test.each(CALLS)('%s sends nothing if its signal is aborted, and takes one that is not', async (_, call) => {
    const reason = new Error('the user has left');
    const error = await failureOf(call(ring[0]!, { signal: AbortSignal.abort(reason) }));
    expect(error).toMatchObject({ code: 'ERR_ABORTED', cause: reason });
    const none = await failureOf(call(ring[0]!, { signal: 'stop' as unknown as AbortSignal }));
    expect(none).toMatchObject({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringContaining('AbortSignal') });

    const controllers = ring.map(() => new AbortController());
    await Promise.all(ring.map((rank, i) => call(rank, { signal: controllers[i]!.signal })));
    for (const controller of controllers) controller.abort(); // too late: it does nothing
    await Promise.all(ring.map(rank => rank.barrier()));
  });

  test('the Sync forms look at the signal, too', () => {
    const [first] = ring as [Communicator];
    const signal = AbortSignal.abort();
    const refused = expect.objectContaining({ code: 'ERR_ABORTED' });
    expect(() => first.allReduceSync(array(), { signal })).toThrow(refused);
    expect(() => first.barrierSync({ signal })).toThrow(refused);
    expect(() => first.allToAllSync(new Float32Array(worldSize), { signal })).toThrow(refused);
  });
});

quickTest.each(['broadcastObject', 'group'] as const)(
  'between the parts of %s it ends the call or the ring for all ranks, or comes too late: none waits',
  async name => {
    const ring = await connectRing(2);
    const [first, second] = ring as [Communicator, Communicator];
    const controller = new AbortController();
    const part = name === 'group' ? 'allGather' : 'broadcast';
    const call = first[part].bind(first) as (...given: unknown[]) => Promise<unknown>;
    let parts = 0;
    Object.assign(first, {
      [part]: async (...given: unknown[]) => {
        const result = await call(...given);
        if (++parts === 1) controller.abort('enough');
        return result;
      },
    });
    const { signal } = controller;
    const calls =
      name === 'group'
        ? [first.group(1, { signal }), second.group(1)]
        : [first.broadcastObject({}, { signal }), second.broadcastObject({})];
    const [own, other] = await Promise.allSettled<unknown>(calls);
    if (name === 'group') {
      expect(own).toMatchObject({ reason: { code: 'ERR_ABORTED', rank: 0, cause: 'enough' } });
      expect(other).toMatchObject({ reason: { code: 'ERR_ABORTED', rank: 0 } });
    }
    const after = await Promise.allSettled([first.barrier(), second.barrier()]);
    expect(after[1]!.status).toBe(after[0]!.status);
    await closeRing(ring);
  },
);

quickTest('a group says the reason of its signal, too, when the ring fails before its last part', async () => {
  const ring = await connectRing(2);
  const [first, second] = ring as [Communicator, Communicator];
  const controller = new AbortController();
  const { signal } = controller;
  const allGather = first.allGather.bind(first) as (...given: unknown[]) => Promise<unknown>;
  let parts = 0;
  Object.assign(first, {
    allGather: async (...given: unknown[]) => {
      const result = await allGather(...given);
      if (++parts !== 2) return result;
      const receiving = failureOf(first.receive(1, { signal }));
      controller.abort('enough');
      await receiving; // the ring has failed
      return result;
    },
  });
  const failures = await Promise.all([failureOf(first.group(1, { signal })), failureOf(second.group(1))]);
  expect(failures[0]).toMatchObject({ code: 'ERR_ABORTED', rank: 0, cause: 'enough' });
  expect(failures[1]).toMatchObject({ code: 'ERR_ABORTED', rank: 0 });
  await closeRing(ring);
});

quickTest('within a collective it ends the ring, on all ranks, with the rank that aborted', async () => {
  const ring = await connectRing(3);
  const controller = new AbortController();
  const waiting = [
    failureOf(ring[0]!.allReduce(new Float32Array(1_000_000))),
    failureOf(ring[1]!.allReduce(new Float32Array(1_000_000), { signal: controller.signal })),
    failureOf(ring[1]!.barrier()), // has not begun
  ];
  await sleep(50);
  controller.abort('reason');
  const failures = await Promise.all(waiting);
  failures.push(await failureOf(ring[2]!.barrier())); // comes when the ring has failed
  for (const failure of failures) expect(failure).toMatchObject({ code: 'ERR_ABORTED', rank: 1 });
  expect(failures[1]).toMatchObject({
    cause: 'reason',
    details: { operation: 'allReduce(sum, float32[1000000])', rank: 1 },
  });
  expect(failures[0]!.message).toMatch(/Rank 1 has aborted a call.*Rank 0 was in allReduce/);
  await closeRing(ring);
});

quickTest('a call that waits for earlier ones can be aborted', async () => {
  const ring = await connectRing(2);
  const controller = new AbortController();
  const first = failureOf(ring[0]!.barrier());
  const second = failureOf(ring[0]!.barrier({ signal: controller.signal }));
  controller.abort();
  for (const failure of await Promise.all([first, second])) {
    expect(failure).toMatchObject({ code: 'ERR_ABORTED', rank: 0 });
  }
  expect(await failureOf(ring[1]!.barrier())).toMatchObject({ code: 'ERR_ABORTED', rank: 0 });
  await closeRing(ring);
});

quickTest('connect stops waiting, and leaves nothing behind: a ring can form at the same port', async () => {
  const masterPort = await freePort();
  const controllers = [new AbortController(), new AbortController()];
  const waiting = controllers.map(({ signal }, rank) =>
    failureOf(Connected.connect({ rank, worldSize: 3, masterPort, signal })),
  );
  await untilListening(masterPort);
  controllers[1]!.abort('enough');
  expect(await waiting[1]).toMatchObject({ code: 'ERR_ABORTED', rank: 1, cause: 'enough' });
  controllers[0]!.abort();
  expect(await waiting[0]).toMatchObject({ code: 'ERR_ABORTED', rank: 0 });
  const ring = await Promise.all([0, 1].map(rank => Connected.connect({ rank, worldSize: 2, masterPort })));
  await Promise.all(ring.map(rank => rank.barrier()));
  await closeRing(ring);
});

quickTest('connect does not begin with a signal that is aborted', async () => {
  const signal = AbortSignal.abort('before');
  expect(await failureOf(Connected.connect({ rank: 0, worldSize: 2, masterPort: 1, signal }))).toMatchObject({
    code: 'ERR_ABORTED',
    cause: 'before',
  });
  expect(await failureOf(Connected.connect({ signal: 7 as never }))).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
});
