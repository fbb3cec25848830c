import { inspect } from 'node:util';
import { Communicator } from '../../src/communicator/communicator';
import { closeRing, connectRing, failureOf, freePort, freeRange } from '../support/rings';

const RUN_TOKEN = 'ab'.repeat(32);

describe('a ring of 4', () => {
  let ring: Communicator[];
  beforeAll(async () => {
    ring = await connectRing(4, { encryption: 'on', transport: 'tcp', runToken: RUN_TOKEN });
  });
  afterAll(() => closeRing(ring));

  test('divides into rings with the ranks in their order, one of which has no group', async () => {
    const colours = ['b', 7, 'b', null] as const;
    const groups = await Promise.all(ring.map((rank, i) => rank.group(colours[i]!)));
    expect(groups.map(group => group && [group.rank, group.worldSize, group.localRank])).toEqual([
      [0, 2, 0],
      [0, 1, 0],
      [1, 2, 1],
      undefined,
    ]);
    const [sums, whole] = await Promise.all([
      Promise.all(groups.map((group, i) => group?.allReduce(Int32Array.of(10 ** i)))),
      Promise.all(ring.map((rank, i) => rank.allReduce(Int32Array.of(10 ** i)))),
    ]);
    expect(sums.map(sum => sum?.[0])).toEqual([101, 10, 101, undefined]);
    expect(whole.map(([sum]) => sum)).toEqual([1111, 1111, 1111, 1111]);
    await Promise.all(groups.map(group => group?.close()));
    expect(await failureOf(groups[0]!.barrier())).toMatchObject({ code: 'ERR_CLOSED' });
    await Promise.all(ring.map(rank => rank.barrier()));
  });

  test('the token of the run is not printed', () => {
    expect(inspect(ring[0], { depth: 10, showHidden: true })).not.toContain(RUN_TOKEN);
    expect(JSON.stringify((ring[0] as unknown as { options: object }).options)).not.toContain(RUN_TOKEN);
  });

  test('groups of groups', async () => {
    const halves = await Promise.all(ring.map(rank => rank.group(Math.floor(rank.rank / 2))));
    const ones = await Promise.all(halves.map(half => half!.group(half!.rank)));
    expect(ones.map(one => one!.worldSize)).toEqual([1, 1, 1, 1]);
    await Promise.all(halves.map(half => half!.close()));
    for (const one of ones) expect(await failureOf(one!.barrier())).toMatchObject({ code: 'ERR_CLOSED' });
  });

  test('other colours are refused before anything is sent', async () => {
    for (const colour of [1.5, NaN, undefined, {}, [1]] as never[]) {
      expect(await failureOf(ring[0]!.group(colour))).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    }
    expect(await failureOf(ring[0]!.group(1, { signal: AbortSignal.abort() }))).toMatchObject({ code: 'ERR_ABORTED' });
    expect(await failureOf(ring[0]!.group(1, { root: 1 } as never))).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    await Promise.all(ring.map(rank => rank.barrier()));
  });

  test('if no port is left for a group, its ranks learn why, and the other groups form', async () => {
    // Rank 0 would have to find a place for peers at an interface that has no address any more.
    const { options } = ring[0] as unknown as { options: object };
    const before = { ...options };
    Object.assign(options, { masterAddr: '192.0.2.1', iface: 'no-such-interface' });
    const results = await Promise.all(
      ring.map((rank, i) => rank.group([0, 1, 0, null][i]!).catch((error: unknown) => error)),
    );
    Object.assign(options, before);
    expect(results[0]).toMatchObject({ code: 'ERR_ADDRESS_IN_USE' });
    expect(results[2]).toMatchObject({ code: 'ERR_ADDRESS_IN_USE', message: (results[0] as Error).message });
    expect((results[1] as Communicator).worldSize).toBe(1);
    await Promise.all(ring.map(rank => rank.barrier()));
  });

  test('an elastic run has none, and no messages', async () => {
    const [first] = ring;
    Object.assign(first!, { isElastic: true });
    const array = Float32Array.of(1);
    const calls = { group: () => first!.group(1), send: () => first!.send(array, 1), receive: () => first!.receive(1) };
    for (const [name, call] of Object.entries(calls)) {
      expect(await failureOf(call())).toMatchObject({
        code: 'ERR_INVALID_ARGUMENT',
        message: expect.stringContaining(`ring.${name} is not for elastic runs`),
      });
    }
    expect(() => first!.sendSync(array, 1)).toThrow('ring.send is not for elastic runs');
    expect(() => first!.receiveSync(1)).toThrow('ring.receive is not for elastic runs');
    Object.assign(first!, { isElastic: false });
  });
});

test('groups that form at the same time within a range of ports are those of their ranks', async () => {
  const ports = await freeRange(60);
  const ring = await connectRing(4, { portRange: `${ports[0]}-${ports.at(-1)}`, transport: 'tcp' });
  for (let round = 0; round < 2; round++) {
    const groups = await Promise.all(ring.map(rank => rank.group(rank.rank % 2)));
    const sums = await Promise.all(groups.map((group, i) => group!.allReduce(Int32Array.of(10 ** i))));
    expect(sums.map(([sum]) => sum)).toEqual([101, 1010, 101, 1010]);
    await Promise.all(groups.map(group => group!.close()));
  }
  await closeRing(ring);
});

test('a ring that is closed while groups form leaves none', async () => {
  const ring = await connectRing(2);
  const forming = Promise.all(ring.map(rank => failureOf(rank.group(1))));
  await closeRing(ring);
  for (const { code } of await forming) expect(['ERR_CLOSED', 'ERR_PEER_LOST']).toContain(code);
});

test('a ring of one has groups, of its class', async () => {
  class Own extends Communicator {}
  const alone = await Own.connect({ rank: 0, worldSize: 1, masterPort: await freePort() });
  const group = await alone.group('any');
  expect(group).toBeInstanceOf(Own);
  expect(await group!.allReduce(Int32Array.of(3))).toEqual(Int32Array.of(3));
  expect(await alone.group(null)).toBeUndefined();
  await alone.close();
  expect(await failureOf(group!.barrier())).toMatchObject({ code: 'ERR_CLOSED' });
});
