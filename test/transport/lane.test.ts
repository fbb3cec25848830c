import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { LARGEST_BODY } from '../../src/transport/shared-queue';
import { FRAMES_AHEAD, type Side, opposite } from '../../src/transport/transport';
import { random } from '../support/random';
import { sleep, until } from '../support/rings';
import { expectToWork, FRAME, transports } from '../support/transports';

let lanes: string;
beforeEach(() => (lanes = mkdtempSync(path.join(tmpdir(), 'gradring-lanes-'))));
afterEach(() => rmSync(lanes, { recursive: true }));

type Kind = 'queues' | 'streams';

async function standing(worldSize: number, kind: Kind, hasCore = false) {
  const all = await transports(worldSize, { ...(kind === 'queues' ? { lanes } : { streams: true }), hasCore });
  await Promise.all(all.ring.map(transport => transport.open()));
  const carriers = kind === 'queues' ? all.queues : all.dataStreams;
  await until(() => carriers.every(({ left, right }) => left!.canSend && right!.canSend));
  return { ...all, carriers };
}

const body = (length: number, seed: number) => Buffer.alloc(length, Buffer.from([seed, seed >> 8, 3, 5, 7]));

/** Sends until there is no room. Returns the send that waits. */
async function fillUp(
  transport: Awaited<ReturnType<typeof standing>>['ring'][number],
): Promise<{ sent: Promise<unknown> }> {
  for (;;) {
    const sent = transport.send('right', { ...FRAME, sequence: 0, origin: transport.rank }, body(LARGEST_BODY, 1));
    sent.catch(() => undefined);
    const isSent = await Promise.race([sent.then(() => true), sleep(200).then(() => false)]);
    if (!isSent) return { sent };
  }
}

describe.each(['queues', 'streams'] as const)('%s', kind => {
  test.each([true, false])(
    'frames small and large come in order, both ways at once (a core each: %s)',
    async hasCore => {
      const { ring, failures, close } = await standing(3, kind, hasCore);
      const COUNT = 150;
      // Past the largest that a queue takes they go by the socket.
      const isLent = (length: number) => kind === 'queues' && length > LARGEST_BODY;
      const sizes = [0, 1, 500, 70_000, LARGEST_BODY, LARGEST_BODY + 1, 2 * LARGEST_BODY];
      const sizeOf = (i: number, side: Side) =>
        sizes[Math.floor(random(2 * i + (side === 'left' ? 1 : 0))() * sizes.length)]!;
      const sendAll = async (from: number, side: Side) => {
        for (let sequence = 0; sequence < COUNT; sequence++) {
          if (sequence % 40 === from) await sleep(5);
          const header = { ...FRAME, sequence, origin: from };
          const { lent } = await ring[from]!.send(side, header, body(sizeOf(sequence, side), sequence), {
            bulk: sequence % 3 > 0,
          });
          expect(lent).toBe(isLent(sizeOf(sequence, side)));
        }
      };
      const receiveAll = async (at: number, side: Side) => {
        for (let sequence = 0; sequence < COUNT; sequence++) {
          if (sequence % 50 === at) await sleep(20); // the sender comes to where there is no room
          const frame = await ring[at]!.receive(side);
          const due = body(sizeOf(sequence, opposite(side)), sequence);
          expect([frame.header.sequence, frame.body.equals(due), frame.lent]).toEqual([
            sequence,
            true,
            isLent(due.length),
          ]);
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
      await close();
    },
  );

  test('what was forwarded is what came', async () => {
    const { ring, close } = await standing(3, kind);
    for (const length of [10, 2 * LARGEST_BODY]) {
      await ring[0]!.send('right', { ...FRAME, sequence: 0, origin: 0 }, body(length, 9));
      await ring[1]!.forward('right', await ring[1]!.receive('left'));
      const frame = await ring[2]!.receive('left');
      expect([frame.header.origin, frame.body.equals(body(length, 9))]).toEqual([0, true]);
    }
    await close();
  });

  test('a send that waits for room goes on when there is some', async () => {
    const { ring, close } = await standing(2, kind);
    const { sent } = await fillUp(ring[0]!);
    let isSent = false;
    void sent.then(() => (isSent = true));
    while (!isSent) (await ring[1]!.receive('left')).release();
    await close();
  });

  test('a send that waits for room fails with the ring', async () => {
    const { ring, bound } = await standing(3, kind);
    const { sent } = await fillUp(ring[0]!);
    await bound[1]!.link.close(0); // what rank 0 is to the left of
    await expect(sent).rejects.toMatchObject({ code: 'ERR_PEER_LOST' });
    await Promise.all(ring.map(transport => transport.close()));
  });

  test('a send that waits for room fails if the neighbour leaves', async () => {
    const { ring } = await standing(3, kind);
    const { sent } = await fillUp(ring[0]!);
    const left = ring[1]!.close();
    await expect(sent).rejects.toMatchObject({ code: 'ERR_PEER_LOST', details: { rank: 1 } });
    await Promise.all([left, ...ring.map(transport => transport.close())]);
  });

  test('frames that were sent before a goodbye are received', async () => {
    const { ring } = await standing(2, kind);
    await ring[0]!.send('right', { ...FRAME, sequence: 0, origin: 0 }, body(10, 1));
    const left = ring[0]!.close();
    await sleep(300);
    expect((await ring[1]!.receive('left')).body.equals(body(10, 1))).toBe(true);
    await expect(ring[1]!.receive('left')).rejects.toMatchObject({ code: 'ERR_PEER_LOST' });
    await Promise.all([left, ring[1]!.close()]);
  });

  test('what comes, but is no data, is an error that names the rank', async () => {
    const { ring, carriers } = await standing(3, kind);
    carriers[1]!.right!.put(Buffer.alloc(48), Buffer.alloc(3), 0, false);
    await expect(ring[2]!.receive('left')).rejects.toMatchObject({ code: 'ERR_PROTOCOL', details: { rank: 1 } });
    await Promise.all(ring.map(transport => transport.close()));
  });

  test('a ring works as one without', async () => {
    const { ring, failures, close } = await standing(4, kind);
    await expectToWork(ring, 300);
    expect(failures).toEqual([]);
    await close();
  });
});

test('all may send the frames of a window, however large, before any receives', async () => {
  const { ring, close } = await standing(3, 'streams');
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

test('what was sent by a stream before a goodbye is received, however much is on its way', async () => {
  const { ring } = await standing(2, 'streams');
  const COUNT = 12; // 3 MB, of which two are held by the stream and one by the network
  for (let sequence = 0; sequence < COUNT; sequence++)
    await ring[0]!.send('right', { ...FRAME, sequence, origin: 0 }, body(LARGEST_BODY, sequence), { bulk: true });
  const left = ring[0]!.close();
  await sleep(300);
  for (let sequence = 0; sequence < COUNT; sequence++) {
    const frame = await ring[1]!.receive('left');
    expect(frame.body.equals(body(LARGEST_BODY, sequence))).toBe(true);
    frame.release();
  }
  await expect(ring[1]!.receive('left')).rejects.toMatchObject({ code: 'ERR_PEER_LOST' });
  await Promise.all([left, ring[1]!.close()]);
});

test('a stream that breaks fails the ring, though the link stands', async () => {
  const { ring, dataStreams } = await standing(3, 'streams');
  dataStreams[1]!.left!.onLost();
  await expect(ring[2]!.receive('left')).rejects.toMatchObject({ code: 'ERR_PEER_LOST', details: { rank: 0 } });
  await Promise.all(ring.map(transport => transport.close()));
});

test('frames that went by the link before the stream was open come first', async () => {
  const { ring, failures, close } = await transports(2, { streams: true });
  await Promise.all(ring.map(transport => transport.open()));
  let lent = 0;
  for (let sequence = 0; sequence < 500; sequence++) {
    const header = { ...FRAME, sequence, origin: 0 };
    if ((await ring[0]!.send('right', header, body(100, sequence))).lent) lent += 1;
    if (sequence < 3) await sleep(1);
  }
  expect(lent).toBeGreaterThan(0);
  expect(lent).toBeLessThan(500);
  for (let sequence = 0; sequence < 500; sequence++)
    expect((await ring[1]!.receive('left')).header.sequence).toBe(sequence);
  expect(failures).toEqual([]);
  await close();
});
