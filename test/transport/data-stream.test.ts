import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { DataStream } from '../../src/transport/data-stream';
import { FrameAssembly, headOf } from '../../src/transport/frame-assembly';
import { LARGEST_BODY } from '../../src/transport/shared-queue';
import { random } from '../support/random';
import { sleep, until } from '../support/rings';

const made: { close(): unknown }[] = [];
afterEach(() => made.splice(0).forEach(each => each.close()));

const HEADER = Buffer.from('header');

async function listening(): Promise<DataStream> {
  const stream = (await DataStream.listen('127.0.0.1'))!;
  made.push(stream);
  return stream;
}

/** Two ends, of which one sends to the other, by way of a proxy. */
async function bothEnds() {
  const [from, to] = [await listening(), await listening()];
  const passing: Socket[] = [];
  const proxy = createServer(incoming => {
    const outgoing = connect(from.offer.port, '127.0.0.1');
    passing.push(incoming, outgoing);
    for (const socket of [incoming, outgoing]) socket.on('error', () => undefined);
    incoming.pipe(outgoing).pipe(incoming);
  }).listen(0, '127.0.0.1');
  made.push(proxy);
  await once(proxy, 'listening');
  const { port } = proxy.address() as { port: number };
  to.meet({ ...from.offer, port });
  await until(() => from.canSend);
  const cut = (politely = false) => passing.forEach(socket => (politely ? socket.end() : socket.resetAndDestroy()));
  return { from, to, cut };
}

async function sent(from: DataStream, body: Buffer, bulk = false, after = 0): Promise<void> {
  await until(() => from.put(HEADER, body, after, bulk));
}

describe('a stream', () => {
  test('carries frames one way, and the next only after as many by the link as are due', async () => {
    const { from, to } = await bothEnds();
    await sent(from, Buffer.from('first'), false, 0);
    await sent(from, Buffer.from('second'), false, 2);
    await until(() => to.canReceive);
    await sleep(50);
    expect(to.take(0)!.frame).toEqual({ header: HEADER, body: Buffer.from('first'), bulk: false });
    expect([to.take(0), to.take(1)]).toEqual([undefined, undefined]);
    expect(to.take(2)!.frame.body.toString()).toBe('second');
    expect(to.canSend).toBe(false);
  });

  test('is not read on while much is held, until that is freed', async () => {
    const { from, to } = await bothEnds();
    const body = Buffer.alloc(LARGEST_BODY, 7);
    let puts = 0;
    for (let tries = 0; tries < 200 && puts < 400; tries++) {
      if (from.put(HEADER, body, 0, true)) puts += 1;
      else await sleep(1);
    }
    expect(puts).toBeLessThan(200); // the rest waits
    let taken = 0;
    while (taken < puts) {
      const next = to.take(0);
      if (next === undefined) {
        await sleep(1);
        continue;
      }
      expect(next.frame.body.equals(body)).toBe(true);
      next.free!();
      taken += 1;
    }
  });

  test('breaks: both ends hear of it', async () => {
    const { from, to, cut } = await bothEnds();
    const lost: string[] = [];
    from.onLost = () => lost.push('from');
    to.onLost = () => lost.push('to');
    await sent(from, Buffer.from('something'));
    await until(() => to.canReceive);
    cut();
    await until(() => lost.length === 2);
    expect(lost.sort()).toEqual(['from', 'to']);
    expect(from.canSend).toBe(true); // what is sent must not go another way, past what was lost
  });

  test('is closed politely by who stands between: its sender hears of it, and sends nothing more', async () => {
    const { from, cut } = await bothEnds();
    let isLost = false;
    from.onLost = () => (isLost = true);
    cut(true);
    await until(() => isLost);
    expect(from.put(HEADER, Buffer.alloc(0), 0, false)).toBe(false);
  });

  test('that was closed at the end is not missed', async () => {
    const { from, to } = await bothEnds();
    for (const end of [from, to]) {
      end.onLost = () => {
        throw new Error('nothing can be lost');
      };
    }
    await sent(from, Buffer.from('something'));
    from.finish();
    await to.otherFinished();
    from.close();
    to.close();
    await sleep(50);
  });

  test('whose first word never comes does not keep anybody', async () => {
    const to = await listening();
    const sink = createServer(() => undefined).listen(0, '127.0.0.1');
    made.push(sink);
    await once(sink, 'listening');
    to.meet({ ...to.offer, port: (sink.address() as { port: number }).port });
    await sleep(50);
    await to.otherFinished();
  });

  test('that was never open is not missed', async () => {
    const to = await listening();
    const nobody = await listening();
    to.onLost = () => {
      throw new Error('nothing can be lost');
    };
    nobody.close();
    to.meet(nobody.offer);
    await to.otherFinished();
    await sleep(50);
  });

  test('ends when all has come', async () => {
    const { from, to } = await bothEnds();
    for (let i = 0; i < 12; i++) await sent(from, Buffer.alloc(LARGEST_BODY, i), true);
    from.finish();
    await to.otherFinished();
    for (let i = 0; i < 12; i++) expect(to.take(0)!.frame.body[0]).toBe(i);
    expect(to.take(0)).toBeUndefined();
  });

  test('lets in only who shows the token, and nobody else then', async () => {
    const from = await listening();
    const { port, token } = from.offer;
    const turnedAway = async (words: Buffer) => {
      const stranger = connect(port, '127.0.0.1').on('error', () => undefined);
      stranger.write(words);
      await once(stranger, 'close');
      expect(from.canSend).toBe(false);
    };
    await turnedAway(Buffer.alloc(32));
    await turnedAway(Buffer.from('GET / HTTP/1.1\r\nHost: gradring.example\r\n\r\n'));
    await turnedAway(Buffer.concat([Buffer.from(token, 'hex'), Buffer.alloc(1)]));
    const silent = Array.from({ length: 100 }, () => connect(port, '127.0.0.1').on('error', () => undefined));
    await until(() => silent.filter(socket => socket.closed).length >= 36); // 64 are heard out
    silent.forEach(socket => socket.destroy());
    await sleep(50);
    const to = await listening();
    to.meet(from.offer);
    await until(() => from.canSend);
    const late = connect(port, '127.0.0.1');
    expect((await once(late, 'error'))[0]).toMatchObject({ code: 'ECONNREFUSED' });
  });

  test('what cannot be a frame is an error', async () => {
    const to = await listening();
    const liar = createServer(socket => socket.end(Buffer.alloc(96, 0xff))).listen(0, '127.0.0.1');
    made.push(liar);
    await once(liar, 'listening');
    const { port } = liar.address() as { port: number };
    to.meet({ ...to.offer, port });
    await until(() => to.canReceive);
    expect(() => to.take(0)).toThrow(expect.objectContaining({ code: 'ERR_PROTOCOL' }));
  });
});

test('frames are whole however the stream is cut', () => {
  const bodies = Array.from({ length: 200 }, (_, i) => {
    const next = random(i);
    const length = [0, 1, 95, 96, 97, 5000, LARGEST_BODY, LARGEST_BODY + 1][Math.floor(next() * 8)]!;
    return Buffer.alloc(length, Buffer.from([i, i >> 8, 1]));
  });
  const bytes = Buffer.concat(bodies.flatMap((body, i) => [headOf(HEADER, body.length, 0, i % 3 === 0), body]));
  const assembly = new FrameAssembly();
  const next = random(1);
  let [at, taken] = [0, 0];
  while (at < bytes.length) {
    const place = assembly.place();
    const come = Math.min(1 + Math.floor(next() * (next() < 0.5 ? 100 : 400_000)), place.length, bytes.length - at);
    place.set(bytes.subarray(at, at + come));
    at += come;
    if (!assembly.advance(come)) continue;
    for (let one = assembly.take(0); one !== undefined; one = assembly.take(0)) {
      expect(one.frame.header.equals(HEADER)).toBe(true);
      expect(one.frame.body.equals(bodies[taken]!)).toBe(true);
      expect(one.frame.bulk).toBe(taken % 3 === 0);
      one.free();
      taken += 1;
    }
  }
  expect([taken, assembly.isFull]).toEqual([200, false]);
});

test.each([
  ['empty frames', 0, false],
  ['small ones in memory for large ones', 1, true],
])('no more is read when many %s wait', (_, length, bulk) => {
  const assembly = new FrameAssembly();
  const bytes = Buffer.concat([headOf(HEADER, length, 0, bulk), Buffer.alloc(length)]);
  let frames = 0;
  for (; !assembly.isFull && frames < 10_000; frames++) {
    for (let at = 0; at < bytes.length;) {
      const place = assembly.place();
      const come = Math.min(place.length, bytes.length - at);
      place.set(bytes.subarray(at, at + come));
      assembly.advance(come);
      at += come;
    }
  }
  expect(frames).toBeLessThan(bulk ? 10 : 5_000);
  assembly.take(0)!.free();
  for (let taken = 1; taken < frames; taken++) assembly.take(0)!.free();
  expect(assembly.isFull).toBe(false);
});

test('a header that reaches past its head is an error', () => {
  const assembly = new FrameAssembly();
  const head = headOf(HEADER, 0, 0, false);
  head[9] = 87;
  assembly.place().set(head);
  expect(() => assembly.advance(head.length)).toThrow(expect.objectContaining({ code: 'ERR_PROTOCOL' }));
});

test('a header that is too long for a head is refused', () => {
  expect(() => headOf(Buffer.alloc(87), 0, 0, false)).toThrow(RangeError);
});
