import { createServer } from 'node:net';
import { Communicator } from '../../src/communicator/communicator';
import { type ConnectInput, resolveConnectOptions } from '../../src/rendezvous/connect-options';
import type { GradringError } from '../../src/errors';
import { isSlow, quickTest, slowTest } from '../support/cases';
import { closeRing, failureOf, freePort } from '../support/rings';

describe('what a rank is told', () => {
  const errorOf = (input: ConnectInput, env: NodeJS.ProcessEnv): Partial<GradringError> => {
    try {
      return { message: `accepted as ${JSON.stringify(resolveConnectOptions(input, env))}` };
    } catch (error) {
      return error as GradringError;
    }
  };

  quickTest.each<[NodeJS.ProcessEnv, RegExp]>([
    [{ RANK: '0', WORLD_SIZE: '0' }, /WORLD_SIZE is '0'/],
    [{ RANK: '2', WORLD_SIZE: '2' }, /RANK is 2.*WORLD_SIZE is 2.*0 … 1/],
    [{ RANK: '-1', WORLD_SIZE: '2' }, /RANK is '-1'/],
    [{ RANK: '1' }, /RANK is set but WORLD_SIZE is not/],
    [{ RANK: '1', WORLD_SIZE: '' }, /RANK is set but WORLD_SIZE is not/],
    [{ WORLD_SIZE: '2' }, /WORLD_SIZE is set but RANK is not/],
    [{ RANK: 'one', WORLD_SIZE: '2' }, /RANK is 'one'/],
    [{ RANK: '0', WORLD_SIZE: '1e1' }, /WORLD_SIZE is '1e1'/],
    [{ RANK: '0', WORLD_SIZE: '1.5' }, /WORLD_SIZE is '1.5'/],
    [{ RANK: '0', WORLD_SIZE: '70000' }, /WORLD_SIZE is '70000'/],
    [{ RANK: '0', WORLD_SIZE: '2', LOCAL_RANK: 'x' }, /LOCAL_RANK is 'x'/],
    [{ RANK: '0', WORLD_SIZE: '2', MASTER_PORT: '0' }, /MASTER_PORT is '0'/],
    [{ RANK: '0', WORLD_SIZE: '2', MASTER_PORT: '65536' }, /MASTER_PORT is '65536'/],
    [{ GRADRING_TIMEOUT_MS: 'soon' }, /GRADRING_TIMEOUT_MS is 'soon'/],
    [{ GRADRING_CONNECT_TIMEOUT_MS: '-5' }, /GRADRING_CONNECT_TIMEOUT_MS is '-5'/],
    [{ GRADRING_HEARTBEAT_TIMEOUT_MS: '1e99' }, /GRADRING_HEARTBEAT_TIMEOUT_MS is '1e99'/],
    [{ GRADRING_STALL_MS: '-1' }, /GRADRING_STALL_MS is '-1'.*from 0 to/],
    [{ GRADRING_TRANSPORT: 'pigeon' }, /GRADRING_TRANSPORT is 'pigeon'/],
    [{ GRADRING_ENCRYPTION: 'yes' }, /GRADRING_ENCRYPTION is 'yes'.*auto, on, off/],
    [
      { RANK: '0', WORLD_SIZE: '2', GRADRING_RUN_TOKEN: 'secret' },
      /^GRADRING_RUN_TOKEN is not a run token(?!.*secret)/,
    ],
    [{ RANK: '0', WORLD_SIZE: '2', MASTER_ADDR: '10.0.0.5' }, /10\.0\.0\.5.*GRADRING_RUN_TOKEN.*--token-file/],
    [{ GRADRING_LINK_RATE: '100 Mbit' }, /GRADRING_LINK_RATE is '100 Mbit'; it must be a rate such as 10mbit/],
    [{ GRADRING_STOP_AFTER: '55' }, /^GRADRING_STOP_AFTER is '55'; it must be a time such as 90s, 55m or 11\.5h/],
    [{ GRADRING_IFACE: 'eth99' }, /GRADRING_IFACE is 'eth99'; it must be a network interface .* address: .*\blo\b/],
    [{ GRADRING_PORT_RANGE: '30000' }, /GRADRING_PORT_RANGE is '30000'; it must be the first and the last port/],
    [{ GRADRING_ADVERTISE_ADDR: 'here' }, /GRADRING_ADVERTISE_ADDR is 'here'; it must be an IP address/],
    [{ RANK: '0', WORLD_SIZE: '2', GRADRING_ENCRYPTION: 'on' }, /Encryption is on.*GRADRING_RUN_TOKEN/],
  ])('by an environment of %j is refused', (env, words) => {
    const error = errorOf({}, env);
    expect(error.message).toMatch(words);
    expect(error.code).toBe('ERR_INVALID_ENVIRONMENT');
  });

  quickTest.each<[ConnectInput, RegExp]>([
    [{ rank: 0, worldSize: 0 }, /WORLD_SIZE is '0'/],
    [{ rank: 3, worldSize: 3 }, /RANK is 3/],
    [{ rank: 1 }, /WORLD_SIZE is not/],
    [{ rank: NaN, worldSize: 3 }, /RANK is 'NaN'/],
    [{ rank: 0.5, worldSize: 3 }, /RANK is '0.5'/],
    [{ rank: 0, worldSize: 2, masterPort: 1e6 }, /MASTER_PORT/],
    [{ timeoutMs: 0 }, /timeoutMs is '0'/],
    [{ timeoutMs: 1.5 }, /timeoutMs is '1.5'/],
    [{ connectTimeoutMs: Infinity }, /connectTimeoutMs is 'Infinity'/],
    [{ heartbeatTimeoutMs: -1 }, /heartbeatTimeoutMs is '-1'/],
    [{ stallMs: 0.5 }, /stallMs is '0.5'/],
    [{ timeoutMs: '5' as never }, /timeoutMs is '5'/],
    [{ timeoutMs: 2 ** 31 }, /timeoutMs is '2147483648'/],
    [{ transport: 'pigeon' as never }, /transport is 'pigeon'.*auto, tcp, ipc/],
    [{ encryption: 'yes' as never }, /encryption is 'yes'.*auto, on, off/],
    [{ linkRate: '1kbit' }, /^linkRate is '1kbit'; it must be a rate/],
    [{ linkDelay: '2m' }, /^linkDelay is '2m'; it must be a time such as 50ms/],
    [{ linkDelay: '201ms' }, /^linkDelay is '201ms'; it must be a time such as 50ms/],
    [{ linkJitter: '1ms' }, /^linkJitter is 1ms, but there is no linkDelay/],
    [{ linkDelay: '1ms', linkJitter: '1ms' }, /^linkJitter is 1ms; it must be less than linkDelay/],
    [{ linkDelay: '1ms', transport: 'ipc' }, /^transport is 'ipc', but links with a delay use TCP/],
    ...['55', '0m', '-5m', '55 m', '1d', '1h30m'].map((stopAfter): [ConnectInput, RegExp] => {
      return [{ stopAfter }, RegExp(`^stopAfter is '${stopAfter}'; it must be a time such as 90s, 55m or 11\\.5h`)];
    }),
    [{ stopAfter: 55 as never }, /^stopAfter is '55'; it must be a text/],
    [{ iface: 'eth99' }, /^iface is 'eth99'; it must be a network interface/],
    [{ advertiseAddr: 5 as never }, /^advertiseAddr is '5'; it must be a text/],
    [{ threads: 0 }, /^threads is '0'; it must be a whole number from 1 to 64/],
    [{ threads: 1.5 }, /^threads is '1.5'; it must be a whole number from 1 to 64/],
    [{ timeline: 5 as never }, /^timeline is '5'; it must be a text/],
    [{ portRange: '9-1' }, /^portRange is '9-1'; it must be the first and the last port/],
    [{ advertiseAddr: '::1' }, /^advertiseAddr is '::1'; it must be an IP address/],
    [{ runToken: 'secret'.padEnd(64, 'x') }, /runToken.*is not a run token(?!.*secret)/],
  ])('by options of %j is refused', (input, words) => {
    const error = errorOf(input, {});
    expect(error.message).toMatch(words);
    expect(error.code).toBe('ERR_INVALID_ARGUMENT');
  });

  quickTest('by options wins over the environment, and nothing makes a ring of one', () => {
    const env = { RANK: '1', WORLD_SIZE: '4', LOCAL_RANK: '1', GRADRING_TIMEOUT_MS: '7', GRADRING_TRANSPORT: '' };
    expect(resolveConnectOptions({ rank: 2, timeoutMs: 9 }, env)).toMatchObject({
      ...{ rank: 2, worldSize: 4, localRank: 2, timeoutMs: 9, transport: 'auto' },
    });
    expect(resolveConnectOptions({}, env)).toMatchObject({ rank: 1, localRank: 1, timeoutMs: 7 });
    expect(resolveConnectOptions({}, {})).toMatchObject({ rank: 0, worldSize: 1, timeoutMs: 300_000, stallMs: 30_000 });
    expect(resolveConnectOptions({ stallMs: 0 }, { GRADRING_STALL_MS: '5' })).toMatchObject({ stallMs: 0 });
    const timelines = [{ GRADRING_TIMELINE: 'a' }, { GRADRING_TIMELINE: '' }, {}].map(
      variables => resolveConnectOptions({}, variables).timeline,
    );
    expect(timelines).toEqual(['a', undefined, undefined]);
    expect(resolveConnectOptions({ timeline: 'b' }, { GRADRING_TIMELINE: 'a' }).timeline).toBe('b');
  });

  quickTest.each<[NodeJS.ProcessEnv]>([
    [{ RANK: '0', WORLD_SIZE: '2' }],
    [{ RANK: '0', WORLD_SIZE: '2', MASTER_ADDR: 'localhost' }],
    [{ RANK: '0', WORLD_SIZE: '2', MASTER_ADDR: '::1' }],
    [{ RANK: '0', WORLD_SIZE: '2', MASTER_ADDR: '[::1]' }],
    [{ RANK: '0', WORLD_SIZE: '1', MASTER_ADDR: '10.0.0.5' }],
    [{ RANK: '0', WORLD_SIZE: '2', MASTER_ADDR: '10.0.0.5', GRADRING_ENCRYPTION: 'off' }],
    [{ RANK: '0', WORLD_SIZE: '2', MASTER_ADDR: '10.0.0.5', GRADRING_RUN_TOKEN: 'aB'.repeat(32) }],
  ])('by an environment of %j is accepted: nobody off this host can come, or there is a token', env => {
    expect(resolveConnectOptions({}, env).runToken).toBe(env['GRADRING_RUN_TOKEN']?.toLowerCase());
  });

  quickTest('is checked before anything is opened', async () => {
    expect(await failureOf(Communicator.connect({ rank: 2, worldSize: 2 }))).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
    });
  });
});

describe('the rendezvous', () => {
  const joinAll = (worldSize: number, masterPort: number, ranks: number[], more: ConnectInput = {}) =>
    ranks.map(rank => Communicator.connect({ rank, worldSize, masterPort, connectTimeoutMs: 30_000, ...more }));

  const expectToWork = async (ring: Communicator[]): Promise<void> => {
    const sums = await Promise.all(ring.map(rank => rank.allReduce(Int32Array.of(rank.rank + 1))));
    expect(sums).toEqual([Int32Array.of(6), Int32Array.of(6), Int32Array.of(6)]);
    await closeRing(ring);
  };

  quickTest('refuses a rank that has come already, and the ring still forms', async () => {
    const masterPort = await freePort();
    const twice = joinAll(3, masterPort, [1, 1]);
    const others = joinAll(3, masterPort, [0]);
    const error = await Promise.any(twice.map(failureOf)); // of the one that comes later
    expect(error).toMatchObject({
      code: 'ERR_RANK_TAKEN',
      message: expect.stringMatching(/rank 1 of 3/) as string,
    });
    await expectToWork(await Promise.all([...others, Promise.any(twice), ...joinAll(3, masterPort, [2])]));
  });

  if (isSlow) {
    test.each<[what: string, stray: ConnectInput, words: RegExp]>([
      ['another world size', { worldSize: 4 }, /Rank 2 has WORLD_SIZE 4, rank 0 has 3/],
      ['another run', { runId: 'other' }, /run 'other'/],
    ])('refuses %s, and the ring still forms', async (_, stray, words) => {
      const masterPort = await freePort();
      const early = joinAll(3, masterPort, [0, 1]);
      expect(await failureOf(Communicator.connect({ rank: 2, worldSize: 3, masterPort, ...stray }))).toMatchObject({
        code: 'ERR_RENDEZVOUS_REFUSED',
        message: expect.stringMatching(words) as string,
      });
      await expectToWork(await Promise.all([...early, ...joinAll(3, masterPort, [2])]));
    });
  }

  quickTest('tells every rank which ones did not come', async () => {
    const joining = joinAll(5, await freePort(), [0, 1, 3], { connectTimeoutMs: 3_000 });
    for (const error of await Promise.all(joining.map(failureOf))) {
      expect(error).toMatchObject({
        code: 'ERR_RENDEZVOUS_TIMEOUT',
        message: expect.stringMatching(/Of 5 ranks, ranks 2, 4 did not come .* 3000 ms/) as string,
      });
    }
  });

  slowTest('tells every rank why the one that they miss was refused', async () => {
    const masterPort = await freePort();
    const joining = joinAll(3, masterPort, [0, 1], { connectTimeoutMs: 6_000 }).map(failureOf);
    const other = await failureOf(Communicator.connect({ rank: 2, worldSize: 4, masterPort, connectTimeoutMs: 6_000 }));
    expect(other).toMatchObject({ code: 'ERR_RENDEZVOUS_REFUSED' });
    for (const error of await Promise.all(joining)) {
      expect(error).toMatchObject({
        code: 'ERR_RENDEZVOUS_TIMEOUT',
        message: expect.stringMatching(
          /rank 2 did not come .*Refused: Rank 2 has WORLD_SIZE 4, rank 0 has 3/,
        ) as string,
      });
    }
  });

  quickTest('fails when rank 0 is not there, and says so', async () => {
    const joining = joinAll(3, await freePort(), [1, 2], { connectTimeoutMs: 500 });
    for (const error of await Promise.all(joining.map(failureOf))) {
      expect(error).toMatchObject({
        ...{ code: 'ERR_RENDEZVOUS_TIMEOUT', rank: 0 },
        message: expect.stringMatching(/Is rank 0 running.*MASTER_ADDR/) as string,
      });
    }
  });

  quickTest('fails at once on rank 0 when the port is in use', async () => {
    const server = createServer();
    const masterPort = await new Promise<number>(resolve => {
      server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port));
    });
    const error = await failureOf(Communicator.connect({ rank: 0, worldSize: 2, masterPort }));
    expect(error).toMatchObject({
      code: 'ERR_ADDRESS_IN_USE',
      message: expect.stringContaining(`Port ${masterPort} is in use`) as string,
    });
    await new Promise(resolve => server.close(resolve));
  });
});
