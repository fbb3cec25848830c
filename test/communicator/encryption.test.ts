import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { Communicator } from '../../src/communicator/communicator';
import type { ConnectInput } from '../../src/rendezvous/connect-options';
import { isEncrypted } from '../../src/rendezvous/run-security';
import { casesOf, quickTest } from '../support/cases';
import { linkPorts } from '../support/listening-ports';
import {
  cleanUpRanks,
  closeRing,
  failureOf,
  freePort,
  sleep,
  startRanks,
  until,
  WITHOUT_KOFFI,
} from '../support/rings';
import { mechanismAt } from '../support/strangers';
import { Tap } from '../support/tap';
import { needs, testWhere } from '../support/test-where';

const TOKEN = randomBytes(32).toString('hex');

afterEach(cleanUpRanks);

const join = (rank: number, options: ConnectInput) =>
  Communicator.connect({ rank, worldSize: 3, runToken: TOKEN, transport: 'tcp', ...options });

async function expectSums(ring: readonly Communicator[]): Promise<void> {
  const sums = await Promise.all(ring.map(rank => rank.allReduce(Int32Array.of(rank.rank + 1))));
  expect(sums).toEqual([Int32Array.of(6), Int32Array.of(6), Int32Array.of(6)]);
}

/** Settles when somebody listens at a port of this host. */
async function listening(port: number): Promise<void> {
  const isThere = () =>
    new Promise<boolean>(resolve => {
      const socket = connect({ port, host: '127.0.0.1' }, () => resolve(true)).on('error', () => resolve(false));
      socket.once('connect', () => socket.destroy());
    });
  while (!(await isThere())) await sleep(20);
}

quickTest('TCP that leaves the host is encrypted, and on loopback if asked for', () => {
  const endpoints = ['tcp://10.0.0.5:1', 'tcp://[fe80::1]:1', 'tcp://127.0.0.1:1', 'tcp://[::1]:1', 'ipc:///tmp/a:1'];
  const encrypted = (mode: 'auto' | 'on' | 'off') => endpoints.map(endpoint => isEncrypted(endpoint, mode));
  expect(encrypted('auto')).toEqual([true, true, false, false, false]);
  expect(encrypted('on')).toEqual([true, true, true, true, false]);
  expect(encrypted('off')).toEqual([false, false, false, false, false]);
  expect(isEncrypted('tcp://[::ffff:127.0.0.1]:1', 'auto')).toBe(false); // as ZeroMQ tells of 127.0.0.1
});

type Mode = [encryption: 'on' | 'auto' | 'off', runToken: string, mechanism: string];
const MODES = casesOf<Mode>(
  [['on', TOKEN, 'CURVE']],
  [
    ['auto', TOKEN, 'NULL'],
    ['off', TOKEN, 'NULL'],
  ],
);

testWhere(needs.linux).each(MODES)(
  'with encryption %s, the links of a ring over loopback speak it',
  async (encryption, runToken, mechanism) => {
    const program = `
      const ring = await Communicator.connect(${JSON.stringify({ transport: 'tcp', encryption, runToken })});
      say('stands');
      await new Promise(resolve => process.stdin.once('data', resolve));
      const sum = await ring.allReduce(Int32Array.of(1));
      if (require('node:util').inspect(ring, { depth: 10, showHidden: true }).includes('${TOKEN}')) say('a secret');
      await ring.close();
      say(sum);
      process.exit();`;
    const ranks = await startRanks(2, program, WITHOUT_KOFFI);
    await Promise.all(ranks.map(rank => rank.said('stands')));
    const ports = await linkPorts(ranks.map(({ child }) => child.pid!));
    expect(await Promise.all(ports.map(port => mechanismAt(port)))).toEqual([mechanism, mechanism]);
    ranks.forEach(({ child }) => child.stdin!.end('go'));
    for (const { ended } of ranks) expect(await ended).toMatchObject({ exitCode: 0, stdout: 'stands\n2\n' });
  },
);

describe('the rendezvous', () => {
  quickTest('lets nobody in without the token, and the ring still forms', async () => {
    const masterPort = await freePort();
    const early = [join(0, { masterPort }), join(1, { masterPort })];
    const stranger = { masterPort, connectTimeoutMs: 500 };
    const others: ConnectInput[] = [{ runToken: randomBytes(32).toString('hex') }, { encryption: 'off' }];
    for (const error of await Promise.all(others.map(other => failureOf(join(2, { ...stranger, ...other }))))) {
      expect(error).toMatchObject({ code: 'ERR_RENDEZVOUS_TIMEOUT', rank: 0 });
      expect(error.message).toMatch(/the same GRADRING_RUN_TOKEN/);
    }
    const ring = await Promise.all([...early, join(2, { masterPort })]);
    await expectSums(ring);
    await closeRing(ring);
  });

  quickTest('of a stranger in the place of rank 0 is not joined', async () => {
    const masterPort = await freePort();
    const impostors = [
      join(0, { masterPort, connectTimeoutMs: 1_500, runToken: randomBytes(32).toString('hex') }),
      join(1, { masterPort, connectTimeoutMs: 1_000 }),
    ].map(failureOf);
    const [impostor, misled] = await Promise.all(impostors);
    expect(impostor!.message).toMatch(/ranks 1, 2 did not come/); // it never heard of rank 1
    expect(misled).toMatchObject({ code: 'ERR_RENDEZVOUS_TIMEOUT', rank: 0 });
  });

  quickTest('refuses a rank with another idea of encryption', async () => {
    const masterPort = await freePort();
    const end = new AbortController();
    const first = failureOf(join(0, { masterPort, signal: end.signal }));
    expect(await failureOf(join(1, { masterPort, encryption: 'on' }))).toMatchObject({
      code: 'ERR_RENDEZVOUS_REFUSED',
      message: expect.stringMatching(/Rank 1 has encryption 'on', rank 0 has 'auto'/) as string,
    });
    end.abort();
    expect(await first).toMatchObject({ code: 'ERR_ABORTED' });
  });

  test.each(casesOf([true], [false]))(
    'gives nothing to a replayed join, nor away the token (encryption: %s)',
    async encrypted => {
      const masterPort = await freePort();
      const encryption = encrypted ? 'on' : 'off';
      const tap = new Tap();
      const early = [join(0, { masterPort, encryption, runId: 'this-run' })];
      await listening(masterPort); // a proxy that finds nobody would be asked twice, and what it keeps would be no one conversation
      const viaTap = { masterPort: await tap.before(masterPort), encryption, runId: 'this-run' } as const;
      early.push(join(1, viaTap));
      const word = encrypted ? 'INITIATE' : 'this-run';
      while (!tap.sent.some(({ bytes }) => bytes.includes(word))) await sleep(20);
      await sleep(100); // and whatever belongs to it
      const replayed = connect({ port: masterPort, host: '127.0.0.1' }).on('error', () => undefined);
      let answer = Buffer.alloc(0);
      replayed.on('data', (bytes: Buffer) => (answer = Buffer.concat([answer, bytes])));
      let isHungUp = false;
      replayed.on('close', () => (isHungUp = true));
      for (const { bytes, answered } of tap.sent) {
        await until(() => answer.length >= answered || isHungUp); // ZeroMQ hangs up on who speaks out of turn
        replayed.write(bytes);
      }
      const isRefused = () => answer.includes('Two processes claim rank 1');
      await until(() => isRefused() || isHungUp);
      replayed.destroy();
      expect(isRefused()).toBe(!encrypted);
      const ring = await Promise.all([...early, join(2, { masterPort, encryption, runId: 'this-run' })]);
      await expectSums(ring);
      await closeRing(ring);
      await tap.close();
      expect(tap.bytes.includes('this-run')).toBe(!encrypted);
      for (const form of [TOKEN, Buffer.from(TOKEN, 'hex').toString('latin1')]) {
        expect(tap.bytes.toString('latin1')).not.toContain(form);
      }
    },
  );
});
