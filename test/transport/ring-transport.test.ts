import { setImmediate as turn } from 'node:timers/promises';
import { Pair } from 'zeromq';
import { Communicator } from '../../src/communicator/communicator';
import { GradringError } from '../../src/errors';
import type { LinkEvents } from '../../src/transport/control/link';
import { casesOf } from '../support/cases';
import { closeRing, freePort, sleep, until, untilListening } from '../support/rings';
import { intrude, VISITS } from '../support/strangers';
import { landingOf, ScriptedLane } from '../support/lanes';
import { expectToWork, FRAME, openTransports, transports } from '../support/transports';

test('strangers at the ports of the links do not disturb a standing ring', async () => {
  const { ring, failures, ports } = await openTransports(3);
  const leavers: (() => void)[] = [];
  for (const [bytes, leave] of VISITS) {
    leavers.push(...(await Promise.all(ports.map(port => intrude(port, bytes, leave)))));
  }
  const stranger = new Pair({ linger: 0 }); // one that speaks ZeroMQ: the link has its one peer already
  const { events } = stranger;
  let met = 0;
  const watched = (async () => {
    for (let type = ''; type !== 'end';) {
      ({ type } = await events.receive());
      if (type === 'handshake') met += 1;
    }
  })();
  ports.forEach(port => stranger.connect(`tcp://127.0.0.1:${port}`));
  void stranger.send('let me in').catch(() => undefined);
  await until(() => met === ports.length);
  await expectToWork(ring);
  leavers.forEach(leave => leave());
  stranger.close();
  await watched;
  await expectToWork(ring);
  expect(failures).toEqual([]);
  await Promise.all(ring.map(transport => transport.close()));
});

// Not those who begin as no ZMTP 2 or 3 does: libzmq takes them for peers of ZMTP 1, and the first at the port takes
// the neighbour's place (docs/security.md). Encrypted links refuse them (encrypted-links.test.ts).
const VISITS_WHILE_FORMING = VISITS.filter(([bytes]) => bytes.length === 0 || bytes[0] === 0xff);

test('strangers at the ports of the links do not disturb a forming ring', async () => {
  const { ring, failures, ports } = await transports(3);
  const leavers: (() => void)[] = [];
  const [first, ...others] = ring;
  const opening = [first!.open()];
  for (const [bytes, leave] of VISITS_WHILE_FORMING) {
    leavers.push(...(await Promise.all(ports.map(port => intrude(port, bytes, leave)))));
  }
  opening.push(...others.map(transport => transport.open()));
  await Promise.all(opening);
  expect(failures).toEqual([]);
  leavers.forEach(leave => leave());
  await Promise.all(ring.map(transport => transport.close()));
});

test('strangers at the port of the rendezvous do not disturb a forming ring', async () => {
  const masterPort = await freePort();
  const join = (rank: number) => Communicator.connect({ rank, worldSize: 3, masterPort, transport: 'tcp' });
  const early = [join(0), join(1)];
  await untilListening(masterPort);
  const leavers: (() => void)[] = [];
  for (const [bytes, leave] of VISITS) leavers.push(await intrude(masterPort, bytes, leave));
  const ring = await Promise.all([...early, join(2)]);
  leavers.forEach(leave => leave());
  expect(await Promise.all(ring.map(rank => rank.allReduce(Int32Array.of(1))))).toEqual([
    ...[Int32Array.of(3), Int32Array.of(3), Int32Array.of(3)],
  ]);
  await closeRing(ring);
});

test('a neighbour that closes the connection, though it still lives, is not called silent', async () => {
  const { ring, failures } = await openTransports(3);
  await ring[1]!.drop();
  await until(() => failures.length === 2);
  const words = `closed the connection, though its process (pid ${process.pid}) still exists.`;
  const expected = { code: 'ERR_PEER_LOST', rank: 1, message: expect.stringContaining(words) as string };
  for (const failure of failures) expect(failure).toMatchObject(expected);
  await Promise.all(ring.map(transport => transport.close()));
});

test('of a neighbour on another host it is not known whether its process exists', async () => {
  const { ring, failures } = await openTransports(2, { isLocal: false });
  await ring[1]!.drop();
  await until(() => failures.length === 1);
  expect(failures[0]!.message).toMatch(/^Rank 1 \(tcp:.*\) is gone: its process ended, or the connection broke\.$/);
  await Promise.all(ring.map(transport => transport.close()));
});

test('a send to a neighbour that is gone fails when the loss is told', async () => {
  const { ring, links, failures } = await transports(3);
  const { right } = links[0]!;
  const start = right.start.bind(right);
  const lost = new Promise<void>(resolve => {
    right.start = ({ onMessage, onLost }: LinkEvents) => {
      start({ onMessage, onLost: () => (onLost(), resolve()) });
    };
  });
  await Promise.all(ring.map(transport => transport.open()));
  const closed = links[1]!.left.close(0); // without a goodbye: rank 0 has nobody at its right; rank 1 still has rank 2
  await lost;
  // Rank 0 still waits for the last words of rank 1: a send finds no failure, and soon no receiver.
  let sent: Promise<unknown>;
  let waits = true;
  do {
    sent = ring[0]!.links.send('right', { ...FRAME, sequence: 0, origin: 0 }, Buffer.from('body'));
    sent.catch(() => undefined);
    waits = await Promise.race([sent.then(() => false), turn(true)]);
  } while (!waits && !ring[0]!.failed);
  expect(ring[0]!.failed).toBe(false);
  const cut = { code: 'ERR_PEER_LOST', rank: 0, message: expect.stringMatching(/^The link between rank 0 and rank 1/) };
  await expect(sent).rejects.toMatchObject(cut);
  expect(failures[0]).toMatchObject(cut);
  await closed;
  await Promise.all(ring.map(transport => transport.close()));
});

test.each(['left', 'right'] as const)(
  'a rank leaves while its neighbour waits for it on its %s: that one fails and stays, and the leaver is gone at once',
  async side => {
    const { ring } = await openTransports(3);
    const leaver = side === 'right' ? ring[2]! : ring[0]!;
    const waits = ring[1]!.links.receive(side, 0);
    const left = leaver.close();
    await expect(waits).rejects.toMatchObject({ code: 'ERR_PEER_LOST', details: { rank: leaver.rank } });
    await left;
    await Promise.all(ring.map(transport => transport.close()));
  },
  20_000, // without an acknowledgement the leaver would wait for a minute
);

test('a rank that is gone while the ring forms is named by all that notice it', async () => {
  for (const afterMs of casesOf([0, 3, 6, 9], [1, 2, 4, 5, 7, 8, 10, 11])) {
    const { ring, links, close } = await transports(4);
    const opened = ring.map(transport => failureOrNone(transport.open()));
    await sleep(afterMs);
    const { left, right } = links[1]!;
    await Promise.all([left.close(0), right.close(0)]);
    for (const rank of [0, 2, 3]) {
      const failure = await Promise.race([opened[rank], failureOrNone(ring[rank]!.links.receive('left', 0))]);
      expect(failure).toMatchObject({ code: 'ERR_PEER_LOST', rank: 1 });
    }
    await close();
  }
}, 120_000);

/** Of a promise, or for ever nothing if it does not fail. */
async function failureOrNone(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => new Promise(() => undefined),
    (error: unknown) => error,
  );
}

/** A ring of two with lanes that a test moves: the one at the right of each rank leads to the other rank's left. */
async function scriptedRing() {
  const [right0, left1] = ScriptedLane.bothEnds();
  const [right1, left0] = ScriptedLane.bothEnds();
  const lanes = [
    { left: left0, right: right0 },
    { left: left1, right: right1 },
  ];
  return { ...(await openTransports(2, { lanes })), scripted: lanes };
}

const header = (sequence: number, origin = 0) => ({ ...FRAME, sequence, origin });

test('a goodbye by the link does not overtake a frame that has come by the lane, unannounced', async () => {
  const { ring, scripted } = await scriptedRing();
  const left = scripted[1]!.left;
  const waiting = new Promise<void>(resolve => (left.onWaiting = where => where === 'event loop' && resolve()));
  const received = ring[1]!.bulk.receive('left', 3);
  await waiting; // only a wake, or the goodbye, has it look again
  await ring[0]!.bulk.send('right', header(3), Buffer.from('last'));
  await ring[0]!.close(); // its goodbye is acknowledged
  expect(String((await received).body)).toBe('last');
  await expect(ring[1]!.bulk.receive('left', 4)).rejects.toMatchObject({ code: 'ERR_PEER_LOST', rank: 0 });
  await ring[1]!.close();
});

test('a neighbour has departed: what it had sent is received, and what is no frame fails the wait for it', async () => {
  const { ring, scripted } = await scriptedRing();
  await ring[0]!.bulk.send('right', header(3), Buffer.from('last'));
  await scripted[0]!.right.send(Buffer.alloc(48), Buffer.from('no frame')); // without the ring
  await ring[0]!.close(); // on both sides of rank 1, which so has nobody to agree with
  expect(String((await ring[1]!.bulk.receive('left', 3)).body)).toBe('last');
  await expect(ring[1]!.bulk.receive('left', 4)).rejects.toMatchObject({ code: 'ERR_PROTOCOL', rank: 0 });
  await expect(ring[1]!.bulk.send('right', header(4, 1), Buffer.from('late'))).rejects.toMatchObject({
    code: 'ERR_PROTOCOL',
  });
  await ring[1]!.close();
});

test('a rank that needs a neighbour that has departed fails, whether it receives or sends', async () => {
  for (const path of ['links', 'bulk'] as const) {
    for (const how of ['receive', 'send'] as const) {
      const { ring, scripted } = await scriptedRing();
      scripted[0]!.left.capacity = 0;
      await ring[0]!.close();
      const call =
        how === 'receive'
          ? ring[1]![path].receive('left', 0)
          : ring[1]![path].send('right', header(0, 1), Buffer.from('to nobody'));
      const words = expect.stringContaining('has left the ring') as string;
      await expect(call).rejects.toMatchObject({ code: 'ERR_PEER_LOST', rank: 0, message: words });
      await ring[1]!.close();
    }
  }
});

test('a ring that fails before it is settled how bulk travels fails the calls in bulk, too', async () => {
  for (const areOpen of [true, false]) {
    const [right0, left1] = ScriptedLane.bothEnds();
    const [right1, left0] = ScriptedLane.bothEnds();
    const lanes = [
      { left: left0, right: right0 },
      { left: left1, right: right1 },
    ];
    const { ring, close } = await transports(2, { lanes });
    await Promise.all(ring.map(transport => transport.open()));
    await ring[0]!.fail(new GradringError('ERR_TIMEOUT', 'Too late.'));
    for (const transport of ring) transport.settleBulk(areOpen);
    const landing = landingOf(100, 100);
    await expect(ring[0]!.bulk.receive('left', 0, landing)).rejects.toMatchObject({ code: 'ERR_TIMEOUT' });
    await expect(ring[0]!.bulk.send('right', header(0), landing.body)).rejects.toMatchObject({ code: 'ERR_TIMEOUT' });
    await close();
  }
});

test('a lane that breaks before it is settled how bulk travels fails the ring', async () => {
  const [right0, left1] = ScriptedLane.bothEnds();
  const [right1, left0] = ScriptedLane.bothEnds();
  const lanes = [
    { left: left0, right: right0 },
    { left: left1, right: right1 },
  ];
  const { ring, close } = await transports(2, { lanes });
  await Promise.all(ring.map(transport => transport.open()));
  left1.breakDown();
  for (const transport of ring) transport.settleBulk(true);
  await expect(ring[1]!.bulk.receive('left', 0)).rejects.toMatchObject({ code: 'ERR_PEER_LOST', rank: 0 });
  await close();
});
