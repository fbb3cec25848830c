import { setImmediate as turn } from 'node:timers/promises';
import { Pair } from 'zeromq';
import { Communicator } from '../../src/communicator/communicator';
import type { Link } from '../../src/transport/control/link';
import { closeRing, freePort, sleep, until, untilListening } from '../support/rings';
import { intrude, VISITS } from '../support/strangers';
import { expectToWork, FRAME, transports, untilStrangersLeft } from '../support/transports';

test('strangers at the ports of the links do not disturb a standing ring', async () => {
  const { ring, failures, ports } = await transports(3);
  await Promise.all(ring.map(transport => transport.open()));
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
  await untilStrangersLeft(ring, ports.length * VISITS.length + 2); // a third link has hung up on the stranger itself
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

test('a send that waits for a neighbour who is gone fails when the loss is told', async () => {
  const { ring, bound, failures } = await transports(3);
  await Promise.all(ring.map(transport => transport.open()));
  const { right } = ring[0]! as unknown as { right: { disconnections: number; unsettled: Set<unknown> } };
  const closed = bound[1]!.link.close(); // without a goodbye: rank 0 has nobody at its right; rank 1 still has rank 2
  await until(() => right.disconnections > 0);
  // Rank 0 still waits for the last words of rank 1: a send finds no failure, and soon no receiver.
  let sent: Promise<unknown>;
  do {
    sent = ring[0]!.send('right', { ...FRAME, sequence: 0, origin: 0 }, Buffer.from('body'));
    sent.catch(() => undefined);
    await turn();
  } while (right.unsettled.size === 0 && !ring[0]!.failed);
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
    const { ring } = await transports(3);
    await Promise.all(ring.map(transport => transport.open()));
    const leaver = side === 'right' ? ring[2]! : ring[0]!;
    const waits = ring[1]!.receive(side);
    const left = leaver.close();
    await expect(waits).rejects.toMatchObject({ code: 'ERR_PEER_LOST', details: { rank: leaver.rank } });
    await left;
    await Promise.all(ring.map(transport => transport.close()));
  },
  20_000, // without an acknowledgement the leaver would wait for a minute
);

test('a rank that is gone while the ring forms is named by all that notice it', async () => {
  for (let afterMs = 0; afterMs < 12; afterMs += 1) {
    const { ring, close } = await transports(4);
    const opened = ring.map(transport => failureOrNone(transport.open()));
    await sleep(afterMs);
    const { left, right } = ring[1] as unknown as { left: Link; right: Link };
    await Promise.all([left.close(0), right.close(0)]);
    for (const rank of [0, 2, 3]) {
      const failure = await Promise.race([opened[rank], failureOrNone(ring[rank]!.receive('left'))]);
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
