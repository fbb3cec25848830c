import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Lane } from '../../src/transport/data/lane';
import { land, type Landing } from '../../src/transport/data/landing';
import { closeAllSockets } from '../../src/transport/control/open-sockets';
import { FRAMES_AHEAD, type Side, opposite } from '../../src/transport/transport';
import { GradringError } from '../../src/errors';
import { type CarriedFrame, type FrameAssembly, headOf } from '../../src/transport/data/frame-assembly';
import { random } from '../support/random';
import { sleep, until } from '../support/rings';
import { expectToWork, FRAME, transports } from '../support/transports';

let lanes: string;
beforeEach(() => (lanes = mkdtempSync(path.join(tmpdir(), 'gradring-lanes-'))));
afterEach(() => rmSync(lanes, { recursive: true }));
afterAll(closeAllSockets); // the desk of this thread's gates

const KINDS = ['queues', 'streams', 'encrypted streams'] as const;
type Kind = (typeof KINDS)[number];

const LARGE = 256 * 1024;

/** Where a body lands, by pieces of no more than so many bytes. */
function landingOf(bytes: number, pieceBytes: number): Landing & { readonly body: Buffer; landed: number } {
  const body = Buffer.alloc(bytes);
  return {
    ...{ bytes, body, landed: 0 },
    place: landed => body.subarray(landed, landed + pieceBytes),
    advance(landed, count) {
      expect([landed, count <= pieceBytes]).toEqual([this.landed, true]);
      this.landed += count;
    },
  };
}

type Standing = Awaited<ReturnType<typeof standing>>;

async function standing(worldSize: number, kind: Kind, hasCore = false) {
  const carried = kind === 'queues' ? { lanes } : { streams: true, encrypted: kind === 'encrypted streams' };
  const all = await transports(worldSize, { ...carried, hasCore });
  await Promise.all(all.ring.map(transport => transport.open()));
  const carriers = kind === 'queues' ? all.queues : all.dataStreams;
  await until(() => carriers.every(({ left, right }) => left!.canSend && right!.canSend));
  return { ...all, carriers };
}

const body = (length: number, seed: number) => Buffer.alloc(length, Buffer.from([seed, seed >> 8, 3, 5, 7]));

const lanesOf = (transport: unknown) => (transport as { lanes: Record<Side, Lane> }).lanes;

const assemblyOf = (carrier: unknown) => (carrier as { assembly: FrameAssembly }).assembly;

/** Waits until the next frame of a carrier is to land there. */
const untilDue = (carrier: unknown, landing: Landing) =>
  until(() => (assemblyOf(carrier) as unknown as { due?: { landing: Landing } }).due?.landing === landing);

/** Waits until a transport has heard its left neighbour's goodbye, and has all that was sent before it. */
const untilDeparted = (transport: unknown) => until(() => (transport as { departed: Set<Side> }).departed.has('left'));

/** More than the buffers of the system hold. */
const ENDLESS = 64 * 1024 * 1024;

/**
 * Makes a rank send to its right until there is no room. There is none as long as nobody receives: the neighbour reads
 * only some frames ahead, and the next one is larger than all buffers between the two. Returns what waits.
 */
async function fillUp({ ring, carriers }: Standing, rank: number): Promise<{ sent: Promise<unknown> }> {
  const send = (bytes: number) =>
    ring[rank]!.send('right', { ...FRAME, sequence: 0, origin: rank }, Buffer.alloc(bytes));
  const sendAll = async () => {
    for (let frame = 0; frame < FRAMES_AHEAD; frame++) await send(2 * LARGE);
    await send(ENDLESS);
  };
  const sent = sendAll();
  sent.catch(() => undefined);
  const receiver = carriers[(rank + 1) % ring.length]!.left!;
  const readsNoMore = () => receiver.medium === 'shared-memory' || assemblyOf(receiver).isFull;
  await until(() => readsNoMore() && lanesOf(ring[rank]!).right.isFull);
  return { sent };
}

describe.each(KINDS)('%s', kind => {
  test.each([true, false])(
    'frames small and large come in order, both ways at once (a core each: %s)',
    async hasCore => {
      const { ring, failures, close } = await standing(3, kind, hasCore);
      const COUNT = 150;
      let landings = 0;
      const sizes = [0, 1, 500, 70_000, LARGE, 2 * LARGE, 3_000_000];
      const sizeOf = (i: number, side: Side) =>
        sizes[Math.floor(random(2 * i + (side === 'left' ? 1 : 0))() * sizes.length)]!;
      const sendAll = async (from: number, side: Side) => {
        for (let sequence = 0; sequence < COUNT; sequence++) {
          if (sequence % 40 === from) await sleep(5);
          const header = { ...FRAME, sequence, origin: from };
          const { lent } = await ring[from]!.send(side, header, body(sizeOf(sequence, side), sequence));
          expect(lent).toBe(false);
        }
      };
      const receiveAll = async (at: number, side: Side) => {
        for (let sequence = 0; sequence < COUNT; sequence++) {
          if (sequence % 50 === at) await sleep(20); // the sender comes to where there is no room
          const due = body(sizeOf(sequence, opposite(side)), sequence);
          // Every other is told where it may land; one of four of those is of another length.
          const landing = landingOf(sequence % 8 === 0 ? 1_234 : due.length, 50_000);
          const frame = await ring[at]!.receive(side, sequence % 2 === 0 ? landing : undefined);
          if (frame.hasLanded) landings += 1;
          else if (frame.bytes === landing.bytes) land(landing, frame.body);
          const come = frame.bytes === landing.bytes ? landing.body : frame.body;
          expect([frame.header.sequence, frame.bytes, come.equals(due)]).toEqual([sequence, due.length, true]);
          if (frame.hasLanded) expect(landing.landed).toBe(due.length);
          frame.release();
        }
      };
      await Promise.all(
        ring.flatMap((_, rank) => [
          ...(['left', 'right'] as const).map(side => sendAll(rank, side)),
          ...(['left', 'right'] as const).map(side => receiveAll(rank, side)),
        ]),
      );
      expect(failures).toEqual([]);
      expect(landings).toBeGreaterThan(10);
      await close();
    },
  );

  test('nothing lands when the ring has ended', async () => {
    const { ring, carriers, close } = await standing(2, kind);
    const landing = landingOf(3_000_000, 1_000);
    const received = ring[1]!.receive('left', landing);
    const another = landingOf(10, 10);
    const alsoReceived = ring[0]!.receive('left', another);
    alsoReceived.catch(() => undefined); // it is awaited below
    await untilDue(carriers[1]!.left, landing);
    await untilDue(carriers[0]!.left, another);
    const head = headOf(Buffer.from('header'), landing.bytes, 0);
    const assembly = assemblyOf(carriers[1]!.left);
    assembly.feed(head);
    assembly.feed(Buffer.alloc(5_000, 1));
    expect(landing.landed).toBe(5_000);
    const failed = ring[1]!.fail(new GradringError('ERR_COMM_THREAD', 'Something is wrong.'));
    await expect(received).rejects.toMatchObject({ code: 'ERR_COMM_THREAD' });
    await failed;
    await expect(alsoReceived).rejects.toMatchObject({ code: 'ERR_COMM_THREAD' });
    assembly.feed(Buffer.alloc(5_000, 2));
    carriers[1]!.right!.put(Buffer.from('header'), Buffer.alloc(10, 2), 0);
    const take = jest.spyOn(carriers[0]!.left!, 'take');
    const taken = () => take.mock.results.find(({ value }) => value !== undefined)?.value as CarriedFrame | undefined;
    await until(() => {
      lanesOf(ring[0]!).left.drain();
      return taken() !== undefined;
    });
    expect([taken()!.bytes, taken()!.hasLanded, another.landed]).toEqual([10, false, 0]);
    expect([landing.landed, landing.body.includes(2)]).toEqual([5_000, false]);
    await close();
  });

  test('nothing lands when the frame has come by the link', async () => {
    const { ring, carriers, close } = await standing(2, kind);
    const landing = landingOf(3_000, 1_000);
    const received = ring[1]!.receive('left', landing);
    await untilDue(carriers[1]!.left, landing);
    const assembly = assemblyOf(carriers[1]!.left);
    assembly.feed(headOf(Buffer.from('header'), landing.bytes, 0));
    lanesOf(ring[1]!).left.pass();
    assembly.feed(Buffer.alloc(landing.bytes, 2));
    expect(landing.landed).toBe(0);
    received.catch(() => undefined);
    await close();
  });

  test('who waits for room has what comes on the other side read, also when it sleeps', async () => {
    const all = await standing(3, kind);
    const { ring } = all;
    const { sent } = await fillUp(all, 1);
    const header = { ...FRAME, sequence: 0, origin: 0 };
    const { engine } = ring[1]! as unknown as { engine: { running: boolean } };
    for (const length of [10, 5_000_000]) {
      await until(() => !engine.running); // it looks no more for itself
      await ring[0]!.send('right', header, body(length, 1));
    }
    for (const length of [10, 5_000_000]) expect((await ring[1]!.receive('left')).bytes).toBe(length);
    await Promise.all(ring.map(transport => transport.close()));
    await expect(sent).rejects.toBeDefined();
  });

  test('what was forwarded is what came', async () => {
    const { ring, close } = await standing(3, kind);
    for (const length of [10, 2 * LARGE]) {
      await ring[0]!.send('right', { ...FRAME, sequence: 0, origin: 0 }, body(length, 9));
      await ring[1]!.forward('right', await ring[1]!.receive('left'));
      const frame = await ring[2]!.receive('left');
      expect([frame.header.origin, frame.body.equals(body(length, 9))]).toEqual([0, true]);
    }
    await close();
  });

  test('a send that waits for room goes on when there is some', async () => {
    const all = await standing(2, kind);
    const { ring, close } = all;
    const { sent } = await fillUp(all, 0);
    let isSent = false;
    void sent.then(() => (isSent = true));
    while (!isSent) (await ring[1]!.receive('left')).release();
    await close();
  });

  test('a send that waits for room fails with the ring', async () => {
    const all = await standing(3, kind);
    const { ring, bound } = all;
    const { sent } = await fillUp(all, 0);
    await bound[1]!.link.close(0); // what rank 0 is to the left of
    await expect(sent).rejects.toMatchObject({ code: 'ERR_PEER_LOST' });
    await Promise.all(ring.map(transport => transport.close()));
  });

  test('a send that waits for room fails if the neighbour leaves', async () => {
    const all = await standing(3, kind);
    const { ring } = all;
    const { sent } = await fillUp(all, 0);
    const left = ring[1]!.close();
    await expect(sent).rejects.toMatchObject({ code: 'ERR_PEER_LOST', details: { rank: 1 } });
    await Promise.all([left, ...ring.map(transport => transport.close())]);
  });

  test('frames that were sent before a goodbye are received', async () => {
    const { ring } = await standing(2, kind);
    await ring[0]!.send('right', { ...FRAME, sequence: 0, origin: 0 }, body(10, 1));
    const left = ring[0]!.close();
    await untilDeparted(ring[1]);
    expect((await ring[1]!.receive('left')).body.equals(body(10, 1))).toBe(true);
    await expect(ring[1]!.receive('left')).rejects.toMatchObject({ code: 'ERR_PEER_LOST' });
    await Promise.all([left, ring[1]!.close()]);
  });

  test('what comes, but is no data, is an error that names the rank', async () => {
    const { ring, carriers } = await standing(3, kind);
    carriers[1]!.right!.put(Buffer.alloc(48), Buffer.alloc(3), 0);
    await expect(ring[2]!.receive('left')).rejects.toMatchObject({ code: 'ERR_PROTOCOL', details: { rank: 1 } });
    await Promise.all(ring.map(transport => transport.close()));
  });

  test('a ring works as one without', async () => {
    const { ring, failures, close } = await standing(4, kind);
    const medium = { queues: 'shared-memory', streams: 'tcp-stream', 'encrypted streams': 'tcp-stream-encrypted' }[
      kind
    ];
    for (const { media } of ring) expect(media).toEqual([medium, medium]);
    await expectToWork(ring, 300);
    expect(failures).toEqual([]);
    await close();
  });
});

test.each(KINDS)('%s: all may send a window of large frames before any receives', async kind => {
  const { ring, close } = await standing(3, kind);
  const large = Buffer.alloc(20_000_000, 5);
  await Promise.all(
    ring.map(async ({ rank }, _, { length }) => {
      for (let sequence = 0; sequence < FRAMES_AHEAD; sequence++)
        await ring[rank]!.send('right', { ...FRAME, sequence, origin: rank }, large);
      for (let sequence = 0; sequence < FRAMES_AHEAD; sequence++) {
        const frame = await ring[rank]!.receive('left');
        expect(frame.header).toMatchObject({ sequence, origin: (rank + length - 1) % length });
        expect(frame.body.equals(large)).toBe(true);
      }
    }),
  );
  await close();
});

test.each(['streams', 'encrypted streams'] as const)(
  '%s: what was sent before a goodbye is received, however much is on its way',
  async kind => {
    const { ring } = await standing(2, kind);
    const COUNT = 12; // 3 MB, of which two are held by the stream and one by the network
    for (let sequence = 0; sequence < COUNT; sequence++)
      await ring[0]!.send('right', { ...FRAME, sequence, origin: 0 }, body(LARGE, sequence));
    const left = ring[0]!.close();
    await untilDeparted(ring[1]);
    for (let sequence = 0; sequence < COUNT; sequence++) {
      const frame = await ring[1]!.receive('left');
      expect(frame.body.equals(body(LARGE, sequence))).toBe(true);
      frame.release();
    }
    await expect(ring[1]!.receive('left')).rejects.toMatchObject({ code: 'ERR_PEER_LOST' });
    await Promise.all([left, ring[1]!.close()]);
  },
);

test('a stream that breaks fails the ring, though the link stands', async () => {
  const { ring, dataStreams } = await standing(3, 'streams');
  dataStreams[1]!.left!.onLost();
  await expect(ring[2]!.receive('left')).rejects.toMatchObject({ code: 'ERR_PEER_LOST', details: { rank: 0 } });
  await Promise.all(ring.map(transport => transport.close()));
});

test('frames that went by the link before the stream was open come first', async () => {
  const { ring, failures, dataStreams, close } = await transports(2, { streams: true });
  const [outgoing, incoming] = [dataStreams[0]!.right!, dataStreams[1]!.left!];
  const met = new Promise<() => void>(resolve => {
    const meet = incoming.meet.bind(incoming);
    incoming.meet = offer => resolve(() => meet(offer));
  });
  await Promise.all(ring.map(transport => transport.open()));
  let lent = 0;
  for (let sequence = 0; sequence < 500; sequence++) {
    if (sequence === 3) {
      expect(ring[0]!.media).toEqual(['tcp', 'tcp']);
      (await met)();
      await until(() => outgoing.canSend);
      expect(ring[0]!.media[1]).toBe('tcp-stream');
    }
    const header = { ...FRAME, sequence, origin: 0 };
    if ((await ring[0]!.send('right', header, body(100, sequence))).lent) lent += 1;
  }
  expect(lent).toBe(3);
  for (let sequence = 0; sequence < 500; sequence++)
    expect((await ring[1]!.receive('left')).header.sequence).toBe(sequence);
  expect(failures).toEqual([]);
  await close();
});
