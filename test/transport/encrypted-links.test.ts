import { curveKeyPair } from 'zeromq';
import { curveClient } from '../../src/transport/control/curve';
import { closeAllSockets } from '../../src/transport/control/open-sockets';
import { casesOf, quickTest } from '../support/cases';
import { Crowd } from '../support/crowd';
import { openFiles } from '../support/listening-ports';
import { until } from '../support/rings';
import { dawdle, intrude, knock, sendGigabyte, VISITS } from '../support/strangers';
import { Tap } from '../support/tap';
import { expectToWork, StrangerWatch, transports } from '../support/transports';

afterAll(closeAllSockets); // the authenticator of this thread

type Ring = Awaited<ReturnType<typeof transports>>;

/** With what a stranger who speaks ZeroMQ may come, and what it hears. */
const KEYS: Record<string, (ring: Ring) => [curve: object, outcome: RegExp]> = {
  'no key': () => [{}, /^handshake:error/],
  'keys of another ring': () => [curveClient(curveKeyPair(), curveKeyPair().publicKey), /^handshake:error/],
  'the key of the rank it visits, and one of its own': ({ keys }) => [
    curveClient(curveKeyPair(), keys[0]!.publicKey),
    /^handshake:error:auth$/,
  ],
  'the key of a rank that is not the neighbour': ({ keys }) => [
    curveClient(keys[1]!, keys[0]!.publicKey),
    /^handshake:error:auth$/,
  ],
  'the public key of the neighbour without the secret one': ({ keys }) => [
    curveClient({ ...curveKeyPair(), publicKey: keys[2]!.publicKey }, keys[0]!.publicKey),
    /^handshake:error/,
  ],
};

describe.each(casesOf(['standing'], ['forming']))('while the ring is %s', state => {
  let ring: Ring;
  // One that stands outlives all strangers.
  const [before, after] = state === 'standing' ? [beforeAll, afterAll] : [beforeEach, afterEach];
  before(async () => {
    ring = await transports(3, { encrypted: true });
    if (state === 'standing') await Promise.all(ring.ring.map(transport => transport.open()));
  });
  after(() => ring.close());

  const expectUndisturbed = async () => {
    if (state === 'forming') await Promise.all(ring.ring.map(transport => transport.open()));
    await expectToWork(ring.ring);
    expect(ring.failures).toEqual([]);
  };

  test('bytes of all kinds do not disturb it', async () => {
    const leavers: (() => void)[] = [];
    for (const [bytes, leave] of VISITS) {
      leavers.push(...(await Promise.all(ring.ports.map(port => intrude(port, bytes, leave)))));
    }
    await expectUndisturbed();
    leavers.forEach(leave => leave());
    await expectToWork(ring.ring);
  });

  test.each(Object.entries(KEYS))('a stranger with %s is turned away', async (_, keysFor) => {
    const [curve, outcome] = keysFor(ring);
    expect(await knock('link', ring.ports[0]!, curve)).toMatch(outcome);
    await expectUndisturbed();
  });

  test('a first message of 1 GB is not taken: the connection is cut at its length', async () => {
    await Promise.all(ring.ports.map(port => sendGigabyte(port)));
    await expectUndisturbed();
  });

  test('strangers who say a byte now and then do not hold it up', async () => {
    const { said, stop } = dawdle(ring.ports);
    await until(() => said() > 5);
    await expectUndisturbed();
    stop();
  });
});

quickTest(
  '2,000 connections do not disturb a standing ring, neither while they stay nor when they leave at once',
  async () => {
    const strangers = new StrangerWatch();
    const { ring, ports, failures, close } = await transports(3, { encrypted: true });
    await Promise.all(ring.map(transport => transport.open()));
    const before = openFiles();
    const crowd = new Crowd(ports[0]!, 2_000);
    await expectToWork(ring, { frames: 50 }); // while they come
    expect(await crowd.come).toBe('all');
    await expectToWork(ring, { frames: 50 });
    await crowd.leave();
    await expectToWork(ring, { frames: 50 });
    await strangers.untilLeft(ring, before);
    await expectToWork(ring, { frames: 50 });
    expect(failures).toEqual([]);
    await close();
  },
);

quickTest('when the gate is closed, not even the neighbour is let in any more', async () => {
  const { ring, ports, keys, gates, close } = await transports(3, { encrypted: true });
  await Promise.all(ring.map(transport => transport.open()));
  gates[0]!.close();
  expect(await knock('link', ports[0]!, curveClient(keys[2]!, keys[0]!.publicKey))).toMatch(/^handshake:error/);
  expect(await knock('link', ports[1]!, curveClient(keys[0]!, keys[1]!.publicKey))).toBe('handshake');
  await expectToWork(ring);
  await close();
});

describe.each(casesOf([true], [false]))('encryption: %s', encrypted => {
  test('frames longer than a part of a message come whole', async () => {
    const { ring, close } = await transports(2, { encrypted });
    await Promise.all(ring.map(transport => transport.open()));
    const body = Buffer.alloc(17 * 1024 * 1024 + 5, 'some pattern of no round length');
    await expectToWork(ring, { frames: 2, body });
    await expectToWork(ring, { frames: 2, body: body.subarray(0, 16 * 1024 * 1024) });
    await close();
  });

  test(`what is sent can ${encrypted ? 'not ' : ''}be read on the wire`, async () => {
    const tap = new Tap();
    const { ring, close } = await transports(2, { encrypted, via: port => tap.before(port) });
    await Promise.all(ring.map(transport => transport.open()));
    const gradient = Float32Array.from({ length: 10_000 }, (_, i) => Math.sin(i));
    const body = Buffer.from(gradient.buffer);
    await expectToWork(ring, { frames: 3, body });
    expect(tap.bytes.length).toBeGreaterThan(2 * 3 * body.length);
    expect(tap.bytes.includes(body.subarray(4_000, 4_040))).toBe(!encrypted);
    expect(ring[0]!.links.media).toEqual(Array(2).fill(encrypted ? 'tcp-encrypted' : 'tcp'));
    await close();
    await tap.close();
  });
});
