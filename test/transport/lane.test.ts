import { copyBytes } from '../../src/memory/buffers';
import { closeAllSockets } from '../../src/transport/control/open-sockets';
import type { Lane } from '../../src/transport/data/lane';
import { land } from '../../src/transport/data/landing';
import { opposite, type Side, SIDES } from '../../src/transport/ring-place';
import { FRAMES_AHEAD } from '../../src/transport/transport';
import { GradringError } from '../../src/errors';
import { casesWhere } from '../support/cases';
import { body, landingOf, Proxy, turns } from '../support/lanes';
import { random } from '../support/random';
import { until } from '../support/rings';
import { expectToWork, FRAME, LANE_KINDS, openTransports } from '../support/transports';

afterAll(closeAllSockets); // the authenticator of this thread

const LARGE = 256 * 1024;

/** More than the buffers of the system hold. */
const ENDLESS = 64 * 1024 * 1024;

const header = (sequence: number, origin: number) => ({ ...FRAME, sequence, origin });

type Standing = Awaited<ReturnType<typeof openTransports>>;

/**
 * Makes a rank send to its right until there is no room. There is none as long as nobody receives: the neighbour reads
 * only some frames ahead, and the next one is larger than all buffers between the two. Returns what waits.
 */
async function fillUp({ ring, lanes }: Standing, rank: number): Promise<{ sent: Promise<void> }> {
  const lane = lanes[rank]!.right!;
  for (let frame = 0; ; frame++) {
    let isSent = false;
    const bytes = Buffer.alloc(frame < FRAMES_AHEAD ? 2 * LARGE : ENDLESS);
    const sent = ring[rank]!.bulk.send('right', header(0, rank), bytes).then(() => void (isSent = true));
    sent.catch(() => undefined); // the caller awaits it
    // Other bytes than those that are read ahead go no further.
    const isStuck = () => lane.waitsForRoom && (lane.medium === 'shared-memory' || bytes.length === ENDLESS);
    await until(() => isSent || isStuck());
    if (!isSent) return { sent };
  }
}

/** Has a lane send nothing more, until it fails. */
function freeze(lane: Lane): void {
  lane.move = () => false;
  lane.prepareToWait = () => undefined;
}

describe.each(casesWhere(kind => kind !== 'encrypted TCP', LANE_KINDS))('%s', kind => {
  test.each([true, false])(
    'frames small and large come in order, both ways at once (a core each: %s)',
    async hasCore => {
      const { ring, failures, close } = await openTransports(3, { lanes: kind, hasCore });
      const COUNT = 30;
      let landings = 0;
      const sizes = [0, 1, 500, 70_000, LARGE, 2 * LARGE, 3_000_000];
      const sizeOf = (i: number, side: Side) =>
        sizes[Math.floor(random(2 * i + (side === 'left' ? 1 : 0))() * sizes.length)]!;
      const sendAll = async (from: number, side: Side) => {
        for (let sequence = 0; sequence < COUNT; sequence++) {
          if (sequence % 40 === from) await turns(20);
          const bytes = body(sizeOf(sequence, side), sequence);
          await ring[from]!.bulk.send(side, header(sequence, from), bytes);
          bytes.fill(0xee); // it is the sender's again
        }
      };
      const receiveAll = async (at: number, side: Side) => {
        for (let sequence = 0; sequence < COUNT; sequence++) {
          if (sequence % 30 === at) await turns(100); // the sender comes to where there is no room
          const due = body(sizeOf(sequence, opposite(side)), sequence);
          // Every other is told where it may land; one of four of those is of another length.
          const landing = landingOf(sequence % 8 === 0 ? 1_234 : due.length, 50_000);
          const frame = await ring[at]!.bulk.receive(side, sequence, sequence % 2 === 0 ? landing : undefined);
          if (frame.hasLanded) landings += 1;
          else if (frame.bytes === landing.bytes) land(landing, frame.body);
          const come = frame.bytes === landing.bytes ? landing.body : frame.body;
          expect([frame.header.sequence, frame.bytes, come.equals(due)]).toEqual([sequence, due.length, true]);
          if (frame.hasLanded) expect(landing.landed).toBe(due.length);
        }
      };
      await Promise.all(
        ring.flatMap((_, rank) => [
          ...SIDES.map(side => sendAll(rank, side)),
          ...SIDES.map(side => receiveAll(rank, side)),
        ]),
      );
      expect(failures).toEqual([]);
      expect(landings).toBeGreaterThan(10);
      await close();
    },
  );

  test('nothing lands when the ring has ended', async () => {
    const { ring, lanes, close } = await openTransports(2, { lanes: kind });
    const [landing, another] = [landingOf(ENDLESS, 1_000_000), landingOf(10, 10)];
    const sent = ring[0]!.bulk.send('right', header(0, 0), Buffer.alloc(ENDLESS, 1));
    sent.catch(() => undefined); // it is awaited below
    const received = ring[1]!.bulk.receive('left', 0, landing);
    const alsoReceived = ring[0]!.bulk.receive('left', 0, another);
    for (const promise of [received, alsoReceived]) promise.catch(() => undefined);
    await until(() => landing.landed > 0);
    freeze(lanes[0]!.right!);
    const failed = ring[1]!.fail(new GradringError('ERR_COMM_THREAD', 'Something is wrong.'));
    await expect(received).rejects.toMatchObject({ code: 'ERR_COMM_THREAD' });
    await failed;
    landing.body.fill(7); // it is the caller's again
    await expect(alsoReceived).rejects.toMatchObject({ code: 'ERR_COMM_THREAD' });
    await expect(sent).rejects.toMatchObject({ code: 'ERR_COMM_THREAD' });
    const { landed } = landing;
    expect(landed).toBeLessThan(ENDLESS);
    await close();
    expect(landing.body.equals(Buffer.alloc(ENDLESS, 7))).toBe(true);
    expect([landing.landed, another.landed]).toEqual([landed, 0]);
  });

  test('a frame that comes by the link is shown to a collective that waits for one in bulk', async () => {
    const { ring, close } = await openTransports(3, { lanes: kind });
    const received = ring[1]!.bulk.receive('left', 5, landingOf(4, 4));
    await ring[0]!.links.send('right', header(6, 0), Buffer.from('next')); // of one that is to come
    await ring[0]!.links.send('right', header(7, 0), Buffer.from('next'));
    await ring[0]!.bulk.send('right', header(5, 0), Buffer.from('this'));
    expect((await received).header.sequence).toBe(5);
    expect(String((await ring[1]!.links.receive('left', 6)).body)).toBe('next');
    const another = ring[1]!.bulk.receive('left', 7);
    expect((await another).header.sequence).toBe(7); // which had come before
    for (const sequence of [7, 8]) {
      const shown = ring[1]!.bulk.receive('left', 8, landingOf(5, 5));
      await ring[0]!.links.send('right', header(sequence, 0), Buffer.from('wrong'));
      expect(await shown).toMatchObject({ header: { sequence }, hasLanded: false, body: Buffer.from('wrong') });
    }
    await close();
  });

  test('a rank that waits for room has what comes on the other side read', async () => {
    const all = await openTransports(3, { lanes: kind });
    const { ring } = all;
    const { sent } = await fillUp(all, 1);
    const failed = expect(sent).rejects.toBeInstanceOf(GradringError);
    for (const length of [10, 1_000_000, 10, 3_000_000])
      await ring[0]!.bulk.send('right', header(0, 0), body(length, 1));
    for (const length of [10, 1_000_000, 10, 3_000_000])
      expect((await ring[1]!.bulk.receive('left', 0)).bytes).toBe(length);
    await Promise.all(ring.map(transport => transport.close()));
    await failed;
  });

  test('what was forwarded is what came', async () => {
    const { ring, close } = await openTransports(3, { lanes: kind });
    for (const length of [10, 2 * LARGE]) {
      await ring[0]!.bulk.send('right', header(0, 0), body(length, 9));
      await ring[1]!.bulk.forward('right', await ring[1]!.bulk.receive('left', 0));
      const frame = await ring[2]!.bulk.receive('left', 0);
      expect([frame.header.origin, frame.body.equals(body(length, 9))]).toEqual([0, true]);
    }
    await close();
  });

  test('a send that waits for room goes on when there is some', async () => {
    const all = await openTransports(2, { lanes: kind });
    const { ring, close } = all;
    const { sent } = await fillUp(all, 0);
    let isSent = false;
    const done = sent.then(() => (isSent = true));
    while (!isSent) {
      const received = ring[1]!.bulk.receive('left', 0);
      received.catch(() => undefined); // nothing may come any more
      await Promise.race([received, done]);
    }
    await close();
  });

  test('a send that waits for room fails with the ring', async () => {
    const all = await openTransports(3, { lanes: kind });
    const { ring, links } = all;
    const { sent } = await fillUp(all, 0);
    await links[1]!.left.close(0);
    await expect(sent).rejects.toMatchObject({ code: 'ERR_PEER_LOST' });
    await Promise.all(ring.map(transport => transport.close()));
  });

  test('a send that waits for room fails if the neighbour leaves', async () => {
    const all = await openTransports(3, { lanes: kind });
    const { ring } = all;
    const { sent } = await fillUp(all, 0);
    const left = ring[1]!.close();
    await expect(sent).rejects.toMatchObject({ code: 'ERR_PEER_LOST', details: { rank: 1 } });
    await Promise.all([left, ...ring.map(transport => transport.close())]);
  });

  test('a neighbour may have what was sent, and leave, before the event loop tells that it is sent', async () => {
    const { ring, lanes, failures } = await openTransports(2, { lanes: kind });
    const lane = lanes[0]!.right! as Lane & { woken(): void };
    let isTold = false;
    Object.defineProperty(lane, 'isFlushed', { get: () => isTold });
    const otherFinished = lane.otherFinished.bind(lane);
    lane.otherFinished = async () => {
      await otherFinished();
      void turns(3).then(() => {
        isTold = true;
        lane.woken();
      });
    };
    const sent = ring[0]!.bulk.send('right', header(0, 0), body(10, 1));
    await ring[1]!.bulk.receive('left', 0);
    const left = ring[1]!.close();
    await sent;
    expect(failures).toEqual([]);
    await Promise.all([left, ring[0]!.close()]);
  });

  test('a send that waits for room fails if this rank leaves', async () => {
    const all = await openTransports(2, { lanes: kind });
    const { sent } = await fillUp(all, 0);
    const closed = all.close();
    await expect(sent).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    await closed;
  });

  test('frames that were sent before a goodbye are received', async () => {
    const { ring } = await openTransports(2, { lanes: kind });
    await ring[0]!.bulk.send('right', header(0, 0), body(10, 1));
    await ring[0]!.close(); // its goodbye is acknowledged
    expect((await ring[1]!.bulk.receive('left', 0)).body.equals(body(10, 1))).toBe(true);
    await expect(ring[1]!.bulk.receive('left', 1)).rejects.toMatchObject({ code: 'ERR_PEER_LOST' });
    await ring[1]!.close();
  });

  test('a goodbye does not overtake a frame that is waited for', async () => {
    for (let round = 0; round < 12; round++) {
      const { ring } = await openTransports(2, { lanes: kind });
      const received = [1, 2].map(async length => {
        const from = length === 1 ? 'left' : 'right';
        return (await ring[1]!.bulk.receive(from, 0)).bytes;
      });
      if (round % 3 === 0) await turns(3);
      await ring[0]!.bulk.send('right', header(0, 0), Buffer.alloc(1));
      await ring[0]!.bulk.send('left', header(0, 0), Buffer.alloc(2));
      const left = ring[0]!.close();
      expect(await Promise.all(received)).toEqual([1, 2]);
      await Promise.all([left, ring[1]!.close()]);
    }
  });

  test('what comes, but is no data, is an error that names the rank', async () => {
    const { ring, lanes } = await openTransports(3, { lanes: kind });
    await lanes[1]!.right!.send(Buffer.alloc(48), Buffer.alloc(3));
    await expect(ring[2]!.bulk.receive('left', 0)).rejects.toMatchObject({
      code: 'ERR_PROTOCOL',
      details: { rank: 1 },
    });
    await Promise.all(ring.map(transport => transport.close()));
  });

  test('a ring works in bulk as by its links', async () => {
    const { ring, failures, close } = await openTransports(4, { lanes: kind });
    const medium = { 'shared memory': 'shared-memory', TCP: 'tcp-lane', 'encrypted TCP': 'tcp-lane-encrypted' }[kind];
    const link = kind === 'encrypted TCP' ? 'tcp-encrypted' : 'tcp';
    for (const { links, bulk } of ring)
      expect([links.media, bulk.media]).toEqual([
        [link, link],
        [medium, medium],
      ]);
    await expectToWork(ring, { path: 'bulk', frames: 60 });
    await expectToWork(ring);
    expect(failures).toEqual([]);
    await close();
  });

  test('if one lane of one rank could not be opened, all bulk goes by the links', async () => {
    for (const missing of ['left', 'right'] as const) {
      const made = await openTransports(3, { lanes: kind, without: { rank: 1, side: missing } });
      const { ring, lanes, failures, close } = made;
      for (const { links, bulk } of ring) expect(bulk).toBe(links);
      const sizes = [0, 10, LARGE, 3_000_000];
      for (const length of sizes) await expectToWork(ring, { path: 'bulk', frames: 2, body: body(length, 3) });
      for (const lane of lanes.flatMap(({ left, right }) => [left, right])) await lane?.otherFinished(); // it is closed, or would still wait
      expect(failures).toEqual([]);
      await close();
    }
  });

  test('all may send a window of large frames before any receives', async () => {
    const { ring, close } = await openTransports(3, { lanes: kind });
    const large = Buffer.alloc(12_000_000, 5);
    await Promise.all(
      ring.map(async ({ rank, bulk }, _, { length }) => {
        for (let sequence = 0; sequence < FRAMES_AHEAD; sequence++)
          await bulk.send('right', header(sequence, rank), large);
        for (let sequence = 0; sequence < FRAMES_AHEAD; sequence++) {
          const frame = await bulk.receive('left', sequence);
          expect(frame.header).toMatchObject({ sequence, origin: (rank + length - 1) % length });
          expect(frame.body.equals(large)).toBe(true);
        }
      }),
    );
    await close();
  });
});

describe.each(casesWhere(kind => kind === 'TCP', [...LANE_KINDS, undefined]))('beside the links: %s', kind => {
  test.each(['links', 'bulk'] as const)(
    'what was sent by the path %s may be written to at once, however large',
    async path => {
      const { ring, close } = await openTransports(2, { lanes: kind });
      const sizes = [0, 1, 4_095, 4_096, 4_097, 65_536, LARGE, 1_048_576, 12_000_000];
      const shared = new Uint8Array(new SharedArrayBuffer(12_000_000)); // as the arrays of collectives are
      const sendAll = async (bytesOf: (length: number) => Uint8Array, first: number) => {
        for (const [i, length] of sizes.entries()) {
          const bytes = bytesOf(length);
          copyBytes(bytes, body(length, i));
          await ring[0]![path].send('right', header(first + i, 0), bytes);
          bytes.fill(0xee);
        }
      };
      const receiveAll = async (first: number, lands: boolean) => {
        for (const [i, length] of sizes.entries()) {
          await turns(5); // what was sent is overwritten by then
          const landing = landingOf(length, 100_000);
          const frame = await ring[1]![path].receive('left', first + i, lands ? landing : undefined);
          if (!frame.hasLanded) land(landing, frame.body);
          expect([frame.header.sequence, landing.body.equals(body(length, i))]).toEqual([first + i, true]);
        }
      };
      for (const [first, lands] of [
        [0, true],
        [100, false],
      ] as const)
        // prettier-ignore
        await Promise.all([sendAll(length => shared.subarray(0, length), first), receiveAll(first, lands)]);
      await Promise.all([sendAll(length => Buffer.alloc(length), 200), receiveAll(200, true)]);
      await close();
    },
  );
});

describe.each(casesWhere(kind => kind === 'TCP', ['TCP', 'encrypted TCP'] as const))('%s', kind => {
  test('what was sent before a goodbye is received, however much is on its way', async () => {
    const { ring } = await openTransports(2, { lanes: kind });
    const COUNT = 12; // 3 MB, of which two are held by the lane and one by the network
    for (let sequence = 0; sequence < COUNT; sequence++)
      await ring[0]!.bulk.send('right', header(sequence, 0), body(LARGE, sequence));
    await ring[0]!.close();
    for (let sequence = 0; sequence < COUNT; sequence++) {
      const frame = await ring[1]!.bulk.receive('left', sequence);
      expect(frame.body.equals(body(LARGE, sequence))).toBe(true);
    }
    await expect(ring[1]!.bulk.receive('left', COUNT)).rejects.toMatchObject({ code: 'ERR_PEER_LOST' });
    await ring[1]!.close();
  });

  test.each(['broken', 'ended politely'])(
    'a lane whose connection is %s fails the ring, though the link stands',
    async how => {
      const proxies: Proxy[] = [];
      const { ring } = await openTransports(3, {
        lanes: kind,
        laneVia: async port => {
          proxies.push(await Proxy.before(port));
          return proxies.at(-1)!.port;
        },
      });
      const received = ring[2]!.bulk.receive('left', 0);
      proxies[1]!.cut(how === 'ended politely'); // between ranks 1 and 2
      const cut = { code: 'ERR_PEER_LOST', rank: expect.any(Number) as number };
      await expect(received).rejects.toMatchObject(cut);
      await expect(ring[0]!.bulk.receive('left', 0)).rejects.toMatchObject(cut);
      await Promise.all(ring.map(transport => transport.close()));
      for (const proxy of proxies) proxy.close();
    },
  );
});
