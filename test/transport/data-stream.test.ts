import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { connect as connectTls, createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { DataStream } from '../../src/transport/data/data-stream';
import { FrameAssembly, headOf } from '../../src/transport/data/frame-assembly';
import { random } from '../support/random';
import { until } from '../support/rings';

const made: { close(): unknown }[] = [];
afterEach(() => made.splice(0).forEach(each => each.close()));

const HEADER = Buffer.from('header');
const LARGE = 256 * 1024;
const PRE_SHARED = { ciphers: 'PSK', maxVersion: 'TLSv1.2' } as const;

async function listening(isEncrypted: boolean): Promise<DataStream> {
  const stream = (await DataStream.listen('127.0.0.1', isEncrypted))!;
  made.push(stream);
  return stream;
}

/**
 * Two ends, of which one sends to the other, by way of a proxy.
 *
 * @param pass Passes on what comes from the first.
 */
async function bothEnds(isEncrypted: boolean, pass = (bytes: Buffer) => bytes) {
  const [from, to] = [await listening(isEncrypted), await listening(isEncrypted)];
  const passing: Socket[] = [];
  const proxy = createServer(incoming => {
    const outgoing = connect(from.offer.port, '127.0.0.1');
    passing.push(incoming, outgoing);
    for (const socket of [incoming, outgoing]) socket.on('error', () => undefined);
    incoming.pipe(outgoing).on('data', (bytes: Buffer) => incoming.write(pass(bytes)));
    outgoing.on('end', () => incoming.end());
  }).listen(0, '127.0.0.1');
  made.push(proxy);
  await once(proxy, 'listening');
  const { port } = proxy.address() as { port: number };
  to.meet({ ...from.offer, port });
  await until(() => from.canSend);
  const cut = (politely = false) => passing.forEach(socket => (politely ? socket.end() : socket.resetAndDestroy()));
  return { from, to, cut };
}

/** What of a stream can only be seen from within. */
const insideOf = (stream: DataStream) =>
  stream as unknown as {
    readonly assembly: { readonly isFull: boolean; readonly arrived: readonly unknown[] };
    readonly isReading: boolean;
    readonly incoming: Socket;
    readonly outgoing: Socket;
    readonly strangers: ReadonlyMap<string, Socket>;
  };

async function sent(from: DataStream, body: Buffer, after = 0): Promise<void> {
  await until(() => from.put(HEADER, body, after));
}

describe.each([
  ['a stream', false],
  ['an encrypted stream', true],
])('%s', (_, isEncrypted) => {
  test('carries frames one way, and the next only after as many by the link as are due', async () => {
    const { from, to } = await bothEnds(isEncrypted);
    await sent(from, Buffer.from('first'), 0);
    await sent(from, Buffer.from('second'), 2);
    await until(() => insideOf(to).assembly.arrived.length === 2);
    const first = { header: HEADER, body: Buffer.from('first'), bytes: 5, hasLanded: false };
    expect(to.take(0)).toMatchObject(first);
    expect([to.take(0), to.take(1)]).toEqual([undefined, undefined]);
    expect(to.take(2)!.body.toString()).toBe('second');
    expect(to.canSend).toBe(false);
  });

  test('is not read on while much is held, until that is freed', async () => {
    let passed = 0;
    const { from, to } = await bothEnds(isEncrypted, bytes => ((passed += bytes.length), bytes));
    const COUNT = 100; // 26 MB, which the proxy holds, more than the buffers of the system do
    const body = Buffer.alloc(LARGE, 7);
    for (let i = 0; i < COUNT; i++) await sent(from, body);
    await until(() => passed >= COUNT * LARGE);
    const { assembly } = insideOf(to);
    await until(() => assembly.isFull);
    expect(insideOf(to).isReading).toBe(false);
    expect(assembly.arrived.length).toBeLessThan(COUNT / 4);
    for (let taken = 0; taken < COUNT; taken++) {
      let next: ReturnType<DataStream['take']>;
      await until(() => {
        next = to.take(0);
        if (next === undefined) to.sleep(false, 'event loop');
        return next !== undefined;
      });
      expect(next!.body.equals(body)).toBe(true);
    }
  });

  test('breaks: both ends hear of it', async () => {
    const { from, to, cut } = await bothEnds(isEncrypted);
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
    const { from, cut } = await bothEnds(isEncrypted);
    let isLost = false;
    from.onLost = () => (isLost = true);
    cut(true);
    await until(() => isLost);
    expect(from.put(HEADER, Buffer.alloc(0), 0)).toBe(false);
  });

  test('that was closed at the end is not missed', async () => {
    const { from, to } = await bothEnds(isEncrypted);
    const lost: string[] = [];
    from.onLost = () => lost.push('from');
    to.onLost = () => lost.push('to');
    const gone = [insideOf(from).outgoing, insideOf(to).incoming].map(socket => once(socket, 'close'));
    await sent(from, Buffer.from('something'));
    from.finish();
    await to.otherFinished();
    from.close();
    to.close();
    await Promise.all(gone);
    expect(lost).toEqual([]);
  });

  test('whose first word never comes does not keep anybody', async () => {
    const to = await listening(isEncrypted);
    const sink = createServer(() => undefined).listen(0, '127.0.0.1');
    made.push(sink);
    await once(sink, 'listening');
    to.meet({ ...to.offer, port: (sink.address() as { port: number }).port });
    await until(() => !insideOf(to).incoming.connecting);
    await to.otherFinished();
  });

  test('that was never open is not missed', async () => {
    const to = await listening(isEncrypted);
    const nobody = await listening(isEncrypted);
    let isLost = false;
    to.onLost = () => (isLost = true);
    nobody.close();
    to.meet(nobody.offer);
    const gone = new Promise(resolve => insideOf(to).incoming.once('close', resolve)); // after the error
    await to.otherFinished();
    await gone;
    expect(isLost).toBe(false);
  });

  test('ends when all has come', async () => {
    const { from, to } = await bothEnds(isEncrypted);
    for (let i = 0; i < 12; i++) await sent(from, Buffer.alloc(LARGE, i));
    from.finish();
    await to.otherFinished();
    for (let i = 0; i < 12; i++) expect(to.take(0)!.body[0]).toBe(i);
    expect(to.take(0)).toBeUndefined();
  });

  test('lets in only who shows the token, and nobody else then', async () => {
    const from = await listening(isEncrypted);
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
    await until(() => insideOf(from).strangers.size === 0);
    const to = await listening(isEncrypted);
    to.meet(from.offer);
    await until(() => from.canSend);
    const late = connect(port, '127.0.0.1');
    expect((await once(late, 'error'))[0]).toMatchObject({ code: 'ECONNREFUSED' });
  });

  test('drops whoever has not shown the token, when the neighbour is in or it is closed', async () => {
    for (const how of ['meet', 'finish', 'close'] as const) {
      const from = await listening(isEncrypted);
      const silent = Array.from({ length: 5 }, () =>
        connect(from.offer.port, '127.0.0.1').on('error', () => undefined),
      );
      await until(() => insideOf(from).strangers.size === silent.length);
      if (how === 'meet') (await listening(isEncrypted)).meet(from.offer);
      else from[how]();
      await until(() => silent.every(socket => socket.closed));
      expect(from.canSend).toBe(how === 'meet');
    }
  });

  test('lets nobody in once it has finished', async () => {
    const [from, to] = [await listening(isEncrypted), await listening(isEncrypted)];
    to.meet(from.offer);
    const { incoming } = insideOf(to);
    await once(incoming, 'connect');
    from.finish();
    await until(() => incoming.closed);
    expect(from.canSend).toBe(false);
  });

  test('what cannot be a frame is an error', async () => {
    const to = await listening(isEncrypted);
    const lie = (socket: Socket) => socket.end(Buffer.alloc(96, 0xff));
    const key = Buffer.from(to.offer.token, 'hex');
    const liar = isEncrypted ? createTlsServer({ ...PRE_SHARED, pskCallback: () => key }, lie) : createServer(lie);
    made.push(liar.listen(0, '127.0.0.1'));
    await once(liar, 'listening');
    const { port } = liar.address() as { port: number };
    to.meet({ ...to.offer, port });
    await until(() => to.canReceive);
    expect(() => to.take(0)).toThrow(expect.objectContaining({ code: 'ERR_PROTOCOL' }));
  });
});

test('an encrypted stream shows nothing of what it carries, and a plain one all', async () => {
  for (const isEncrypted of [true, false]) {
    const passed: Buffer[] = [];
    const { from, to } = await bothEnds(isEncrypted, bytes => (passed.push(bytes), bytes));
    await sent(from, Buffer.alloc(64, 'secret'));
    let come: string | undefined;
    await until(() => (come = to.take(0)?.body.toString()) !== undefined);
    expect(come).toContain('secret');
    expect(Buffer.concat(passed).includes('secret')).toBe(!isEncrypted);
  }
});

test('an encrypted stream that is tampered with is lost', async () => {
  let isWhole = true;
  const tamper = (bytes: Buffer) => {
    if (!isWhole) bytes[bytes.length - 1]! ^= 1;
    return bytes;
  };
  const { from, to } = await bothEnds(true, tamper);
  let isLost = false;
  from.onLost = () => (isLost = true);
  await sent(from, Buffer.from('whole'));
  await until(() => to.take(0) !== undefined);
  isWhole = false;
  from.put(HEADER, Buffer.from('something'), 0);
  await until(() => isLost);
  expect(from.put(HEADER, Buffer.alloc(0), 0)).toBe(false);
});

test('a stranger is heard for ten seconds, however little it says', async () => {
  const strangers = await Promise.all(
    [true, false].map(async isEncrypted => {
      const { port } = (await listening(isEncrypted)).offer;
      const stranger = connect(port, '127.0.0.1').on('error', () => undefined);
      const drip = setInterval(() => stranger.write(Buffer.of(0x16)), 500);
      stranger.on('close', () => clearInterval(drip));
      return stranger;
    }),
  );
  await Promise.all(strangers.map(stranger => once(stranger, 'close')));
});

test('a stranger with another key does not come in to an encrypted stream', async () => {
  const from = await listening(true);
  const attempt = async (key: string) => {
    const knock = { ...PRE_SHARED, port: from.offer.port, checkServerIdentity: () => undefined };
    const psk = Buffer.from(key, 'hex');
    const stranger = connectTls({ ...knock, pskCallback: () => ({ psk, identity: 'gradring' }) });
    made.push({ close: () => stranger.destroy() });
    return Promise.race([once(stranger, 'secureConnect').then(() => stranger), once(stranger, 'error')]);
  };
  const [refused] = (await attempt('00'.repeat(32))) as [Error];
  expect(refused).toMatchObject({ code: expect.stringMatching(/^ERR_SSL/) as string });
  const guest = (await attempt(from.offer.token)) as TLSSocket;
  expect([guest.getProtocol(), guest.getCipher().name]).toEqual(['TLSv1.2', 'PSK-AES256-GCM-SHA384']);
});

test('frames are whole however the stream is cut', () => {
  const bodies = Array.from({ length: 200 }, (_, i) => {
    const next = random(i);
    const length = [0, 1, 95, 96, 97, 5000, LARGE, LARGE + 1][Math.floor(next() * 8)]!;
    return Buffer.alloc(length, Buffer.from([i, i >> 8, 1]));
  });
  const bytes = Buffer.concat(bodies.flatMap(body => [headOf(HEADER, body.length, 0), body]));
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
      expect(one.header.equals(HEADER)).toBe(true);
      expect(one.body.equals(bodies[taken]!)).toBe(true);
      taken += 1;
    }
  }
  expect([taken, assembly.isFull]).toEqual([200, false]);
});

test('no more is read when many empty frames wait', () => {
  const assembly = new FrameAssembly();
  const head = headOf(HEADER, 0, 0);
  let frames = 0;
  for (; !assembly.isFull && frames < 10_000; frames++) assembly.feed(head);
  expect(frames).toBeLessThan(5_000);
  for (let taken = 0; taken < frames; taken++) expect(assembly.take(0)).toBeDefined();
  expect(assembly.isFull).toBe(false);
});

test('a body lands if it is the next, as long, and has not begun to come', () => {
  const bytes = Buffer.from('body');
  const landed: string[] = [];
  const place = Buffer.alloc(4);
  const landing = {
    bytes: 4,
    place: (at: number) => place.subarray(at, at + 3),
    advance: (at: number, count: number) => landed.push(String(place.subarray(at, at + count))),
  };
  const frame = (body: Buffer, after = 0) => Buffer.concat([headOf(HEADER, body.length, after), body]);
  const take = (fed: Buffer, at = fed.length, after = 0) => {
    const assembly = new FrameAssembly();
    assembly.feed(fed.subarray(0, at));
    const before = assembly.take(after, landing);
    assembly.feed(fed.subarray(at));
    return (before ?? assembly.take(after))?.hasLanded;
  };
  expect(take(frame(bytes), 50)).toBe(true);
  expect(landed.splice(0)).toEqual(['bod', 'y']);
  expect(take(frame(bytes), 97)).toBe(false); // its head had come
  expect(take(frame(bytes))).toBe(false); // all of it had
  expect(take(frame(Buffer.from('longer')), 50)).toBe(false);
  expect(take(frame(bytes, 2), 50)).toBeUndefined(); // another comes before it, by the link
  expect(take(frame(bytes, 2), 50, 2)).toBe(true);
  expect(landed.splice(0)).toEqual(['bod', 'y']);
});

test('a header that reaches past its head is an error', () => {
  const assembly = new FrameAssembly();
  const head = headOf(HEADER, 0, 0);
  head[8] = 88;
  assembly.place().set(head);
  expect(() => assembly.advance(head.length)).toThrow(expect.objectContaining({ code: 'ERR_PROTOCOL' }));
});

test('a header that is too long for a head is refused', () => {
  expect(() => headOf(Buffer.alloc(88), 0, 0)).toThrow(RangeError);
});
