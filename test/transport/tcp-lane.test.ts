import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { connect as connectTls, createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { GradringError } from '../../src/errors';
import { closeAllSockets } from '../../src/transport/control/open-sockets';
import { piecesOf } from '../../src/transport/data/frame-assembly';
import type { Lane } from '../../src/transport/data/lane';
import { TcpLane } from '../../src/transport/data/tcp-lane';
import { casesOf } from '../support/cases';
import { attach, body, landingOf, openDescriptors, Proxy, turns } from '../support/lanes';
import { until } from '../support/rings';
import { HERE } from '../support/transports';

const made: { close(): unknown }[] = [];
afterEach(() => made.splice(0).forEach(each => each.close()));
afterAll(closeAllSockets);

const HEADER = Buffer.from('header');
const LARGE = 256 * 1024;
/** More than the buffers of the system hold. */
const ENDLESS = 64 * 1024 * 1024;
const PRE_SHARED = { ciphers: 'PSK', maxVersion: 'TLSv1.2' } as const;
const FAILURE = new GradringError('ERR_TIMEOUT', 'Too late.');

async function listening(isEncrypted: boolean): Promise<TcpLane> {
  const lane = await TcpLane.listen(HERE, isEncrypted);
  made.push(lane);
  return lane;
}

function connecting(offer: TcpLane['offer'], isEncrypted: boolean): TcpLane {
  const lane = TcpLane.connect(offer!, isEncrypted);
  made.push(lane);
  return lane;
}

/** Both ends of a lane, open, with a proxy between, and what they have told. The first listens. */
async function bothEnds(isEncrypted: boolean) {
  const first = await listening(isEncrypted);
  const offer = first.offer!;
  const proxy = await Proxy.before(offer.port);
  made.push(proxy);
  const second = connecting({ ...offer, port: proxy.port }, isEncrypted);
  await Promise.all([first.opened(), second.opened()]);
  const told = { first: attach(first), second: attach(second) };
  return { ends: { first, second }, proxy, told };
}

/** Settles when a lane has given its bytes to the event loop, or awaits them from it. */
const aboutToWait = (lane: Lane) =>
  new Promise<void>(resolve => {
    const { prepareToWait } = lane;
    lane.prepareToWait = where => {
      prepareToWait.call(lane, where);
      if (where === 'event loop') resolve();
    };
  });

const portOf = (server: Server) => (server.address() as AddressInfo).port;

/** Somebody else who listens at a port, and does something with each connection. */
async function stranger(act: (socket: Socket) => void | Promise<void>, key?: Buffer, port = 0): Promise<Server> {
  const does = (socket: Socket) => void act(socket);
  const server = key ? createTlsServer({ ...PRE_SHARED, pskCallback: () => key }, does) : createServer(does);
  server.on('connection', (socket: Socket) => made.push({ close: () => socket.destroy() }));
  await once(server.listen(port, '127.0.0.1'), 'listening');
  made.push(server);
  return server;
}

/** Somebody else who connects to a port, with the key if there is one. */
async function visitor(port: number, key?: Buffer): Promise<Socket> {
  const pskCallback = () => ({ psk: key!, identity: 'gradring' });
  const socket = key
    ? connectTls({ ...PRE_SHARED, port, host: '127.0.0.1', pskCallback, checkServerIdentity: () => undefined })
    : connect(port, '127.0.0.1');
  made.push({ close: () => socket.destroy() });
  await once(socket, key ? 'secureConnect' : 'connect');
  return socket.on('error', () => undefined);
}

const KINDS = casesOf<[string, boolean]>([['TCP', false]], [['encrypted TCP', true]]);

describe.each(KINDS)('%s', (kind, isEncrypted) => {
  describe.each([
    ['listens', 'first', 'second'],
    ['connects', 'second', 'first'],
  ] as const)('the end that %s receives', (_, to, from) => {
    test('frames come as they were sent', async () => {
      const { ends } = await bothEnds(isEncrypted);
      expect(ends[to].medium).toBe(isEncrypted ? 'tcp-lane-encrypted' : 'tcp-lane');
      for (const words of ['first', 'second', '']) {
        await ends[from].send(HEADER, Buffer.from(words));
        const frame = await ends[to].receive();
        expect([String(frame.headerBytes), String(frame.body), frame.bytes]).toEqual(['header', words, words.length]);
      }
    });

    test('no more is read when much is held, until that is taken', async () => {
      const { ends, proxy } = await bothEnds(isEncrypted);
      const COUNT = 100; // 26 MB, which the proxy holds, more than the buffers of the system do
      for (let i = 0; i < COUNT; i++) await ends[from].send(HEADER, body(LARGE, i));
      const passed = { first: 'listening', second: 'connecting' } as const;
      await until(() => proxy.passed[passed[from]] >= COUNT * LARGE);
      await turns(2_000); // in each of which it could read
      expect(proxy.held).toBeGreaterThan(0);
      for (let i = 0; i < COUNT; i++) {
        const frame = await ends[to].receive(i % 3 === 0 ? landingOf(LARGE, LARGE) : undefined);
        expect(frame.hasLanded || frame.body.equals(body(LARGE, i))).toBe(true);
      }
      expect(proxy.held).toBe(0);
    });

    test('all comes that was sent before the other end has finished', async () => {
      const { ends, told } = await bothEnds(isEncrypted);
      const COUNT = 12;
      for (let i = 0; i < COUNT; i++) await ends[from].send(HEADER, Buffer.alloc(LARGE, i));
      ends[from].finish();
      await ends[to].otherFinished();
      for (let i = 0; i < COUNT; i++) expect((await ends[to].receive()).body[0]).toBe(i);
      await ends[to].send(HEADER, Buffer.from('back')); // this end has not
      expect(String((await ends[from].receive()).body)).toBe('back');
      ends[to].finish();
      await ends[from].otherFinished();
      expect([told.first.lost, told.second.lost]).toEqual([0, 0]);
    });

    test('what waits to be sent when the lane fails does not come', async () => {
      const { ends, told } = await bothEnds(isEncrypted);
      const landing = landingOf(ENDLESS, 100_000);
      const waiting = aboutToWait(ends[from]);
      const bytes = Buffer.alloc(ENDLESS, 1);
      const sent = ends[from].send(HEADER, bytes);
      await waiting; // the event loop has the bytes now
      expect(ends[from].waitsForRoom).toBe(true);
      ends[from].fail(FAILURE);
      await expect(sent).rejects.toBe(FAILURE);
      bytes.fill(2);
      const received = ends[to].receive(landing);
      received.catch(() => undefined);
      await until(() => told[to].lost === 1);
      expect([landing.landed < ENDLESS, landing.body.includes(2)]).toEqual([true, false]);
      ends[to].fail(FAILURE);
    });

    test('a body does not land any more when the lane has failed, but is read', async () => {
      const { ends } = await bothEnds(isEncrypted);
      const landing = landingOf(ENDLESS, 100_000);
      const sent = ends[from].send(HEADER, Buffer.alloc(ENDLESS, 1));
      const received = ends[to].receive(landing);
      await until(() => landing.landed > 0);
      ends[to].fail(FAILURE);
      await expect(received).rejects.toBe(FAILURE);
      const { landed } = landing;
      expect(landed).toBeLessThan(ENDLESS);
      await sent;
      ends[from].finish();
      await ends[to].otherFinished();
      expect([landing.landed, landing.body.includes(1, landed)]).toEqual([landed, false]);
    });

    test('a connection that somebody between ends politely is lost to an end that waits for a frame', async () => {
      for (const when of ['before', 'meanwhile'] as const) {
        const { ends, proxy, told } = await bothEnds(isEncrypted);
        await ends[from].send(HEADER, Buffer.from('something'));
        await ends[to].receive();
        if (when === 'before') {
          const ended = ends[to].otherFinished();
          proxy.cut(true);
          await ended;
          expect(told[to].lost).toBe(0); // the neighbour may have left in order
        }
        const received = ends[to].receive();
        if (when === 'meanwhile') proxy.cut(true);
        await until(() => told[to].lost === 1);
        ends[to].fail(FAILURE);
        await expect(received).rejects.toBe(FAILURE);
      }
    });
  });

  test('a connection that breaks is lost to both ends, and nothing more is sent', async () => {
    const { ends, proxy, told } = await bothEnds(isEncrypted);
    await ends.first.send(HEADER, Buffer.from('something'));
    await ends.second.receive();
    proxy.cut();
    await until(() => told.first.lost > 0 && told.second.lost > 0);
    for (const end of ['first', 'second'] as const) {
      const late = ends[end].send(HEADER, Buffer.alloc(0));
      await turns(1);
      expect([ends[end].waitsForRoom, told[end].lost]).toEqual([true, 1]);
      ends[end].fail(FAILURE);
      await expect(late).rejects.toBe(FAILURE);
    }
  });

  test('a connection that breaks before the lane is part of a path is told then', async () => {
    const first = await listening(isEncrypted);
    const proxy = await Proxy.before(first.offer!.port);
    made.push(proxy);
    const second = connecting({ ...first.offer!, port: proxy.port }, isEncrypted);
    await Promise.all([first.opened(), second.opened()]);
    proxy.cut();
    await Promise.all([first.otherFinished(), second.otherFinished()]);
    await until(() => attach(first).lost + attach(second).lost === 2);
  });

  test('what is closed in order is not missed', async () => {
    const { ends, proxy, told } = await bothEnds(isEncrypted);
    await ends.first.send(HEADER, Buffer.from('something'));
    ends.first.finish();
    await ends.second.otherFinished();
    ends.first.close();
    ends.second.close();
    await proxy.closed();
    await turns(10);
    expect([told.first.lost, told.second.lost]).toEqual([0, 0]);
  });

  test('closed in whatever state, it leaves nothing open, and nobody waits for it', async () => {
    const before = openDescriptors();
    for (const how of ['close', 'finish', 'closeTwice', 'finish and close'] as const) {
      const end = (lane: Lane) => {
        if (how.startsWith('finish')) lane.finish();
        if (how !== 'finish') lane.close();
        if (how === 'closeTwice') lane.close();
      };
      const alone = await listening(isEncrypted); // to which nobody comes
      const lanes = [alone];
      end(alone);
      const silent = await stranger(() => undefined);
      const opening = connecting({ ...alone.offer!, port: portOf(silent) }, isEncrypted);
      lanes.push(opening);
      end(opening); // before it is connected
      const connected = connecting({ ...alone.offer!, port: portOf(silent) }, isEncrypted);
      lanes.push(connected);
      await once(silent, 'connection');
      end(connected);
      for (const lane of lanes) {
        await expect(lane.opened()).rejects.toBeInstanceOf(Error);
        await lane.otherFinished();
      }
      const first = await listening(isEncrypted);
      const open = [first, connecting(first.offer, isEncrypted)];
      await Promise.all(open.map(lane => lane.opened()));
      const told = open.map(lane => attach(lane));
      open.forEach(end);
      await Promise.all(open.map(lane => lane.otherFinished()));
      expect(told.map(({ lost }) => lost)).toEqual([0, 0]);
      for (const each of made.splice(0)) each.close();
      await until(() => openDescriptors() <= before);
    }
  });

  test('a lane that never opens does not keep anybody', async () => {
    const silent = await stranger(() => undefined);
    const lane = connecting({ ...(await listening(isEncrypted)).offer!, port: portOf(silent) }, isEncrypted);
    await once(silent, 'connection');
    await lane.otherFinished();
    lane.close();
    await expect(lane.opened()).rejects.toThrow('closed');
  });

  test('where nobody listens there is no lane, and that is no loss', async () => {
    const nobody = await listening(isEncrypted);
    const offer = nobody.offer!;
    nobody.close();
    const lane = connecting(offer, isEncrypted);
    const told = attach(lane);
    await expect(lane.opened()).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await lane.otherFinished();
    await turns(10);
    expect(told.lost).toBe(0);
  });

  test('where it cannot listen there is no lane', async () => {
    await expect(TcpLane.listen({ ...HERE, host: '192.0.2.1' }, isEncrypted)).rejects.toThrow('EADDRNOTAVAIL');
  });

  test('an offer without a whole token is an error', async () => {
    const { offer } = await listening(isEncrypted);
    for (const token of ['', 'ab'.repeat(63), 'ab'.repeat(65), 'zz'.repeat(64)])
      expect(() => TcpLane.connect({ ...offer!, token }, isEncrypted)).toThrow('A frame offers no token.');
  });

  test('only the other end, which shows the token, is let in, and nobody after it', async () => {
    const lane = await listening(isEncrypted);
    const { port, token } = lane.offer!;
    const shown = Buffer.from(token, 'hex').subarray(0, 32);
    let isOpen = false;
    lane.opened().then(
      () => (isOpen = true),
      () => undefined,
    );
    const turnedAway = async (words: Buffer) => {
      const guest = await visitor(port, isEncrypted ? Buffer.from(token, 'hex') : undefined);
      guest.resume().write(words);
      await once(guest, 'close');
      expect(isOpen).toBe(false);
    };
    await turnedAway(Buffer.alloc(32));
    await turnedAway(Buffer.from('GET / HTTP/1.1\r\nHost: gradring.example\r\n\r\n'));
    await turnedAway(Buffer.from(token, 'hex').subarray(32)); // the other half
    await turnedAway(Buffer.concat([shown, Buffer.alloc(1)]));
    await turnedAway(Buffer.concat([shown, ...piecesOf(HEADER, Buffer.from('early'))]));
    const silent = Array.from({ length: 100 }, () => connect(port, '127.0.0.1').on('error', () => undefined));
    await until(() => silent.filter(socket => socket.closed).length >= 36); // 64 are heard out
    await connecting(lane.offer, isEncrypted).opened(); // though all places are taken
    await lane.opened();
    silent.forEach(socket => socket.destroy());
    const late = connect(port, '127.0.0.1');
    expect((await once(late, 'error'))[0]).toMatchObject({ code: 'ECONNREFUSED' });
  });

  test('the token may come in pieces, as may the answer', async () => {
    const lane = await listening(isEncrypted);
    const key = Buffer.from(lane.offer!.token, 'hex');
    const guest = await visitor(lane.offer!.port, isEncrypted ? key : undefined);
    const heard: Buffer[] = [];
    guest.setNoDelay().on('data', (bytes: Buffer) => heard.push(bytes));
    for (const byte of key.subarray(0, 32)) await new Promise(resolve => guest.write(Buffer.of(byte), resolve));
    await lane.opened();
    await until(() => Buffer.concat(heard).length >= 32);
    expect(Buffer.concat(heard).equals(key.subarray(32))).toBe(true);

    const host = await stranger(
      async socket => {
        await once(socket, 'data');
        const answer = Buffer.concat([key.subarray(32), ...piecesOf(HEADER, Buffer.from('at once'))]);
        for (const byte of answer) await new Promise(resolve => socket.write(Buffer.of(byte), resolve));
      },
      isEncrypted ? key : undefined,
    );
    const other = connecting({ ...lane.offer!, port: portOf(host), token: key.toString('hex') }, isEncrypted);
    await other.opened();
    attach(other);
    expect(String((await other.receive()).body)).toBe('at once');
  });

  test('at a port that another process has taken no lane opens, whatever is said there', async () => {
    const gone = await listening(isEncrypted);
    const offer = gone.offer!;
    const key = Buffer.from(offer.token, 'hex');
    const { port } = offer;
    gone.close();
    const says: ((socket: Socket) => void)[] = [
      socket => socket.pipe(socket), // what was shown
      socket => socket.end(key.subarray(32, 48)), // half of the answer
      socket => socket.end(Buffer.alloc(32, 7)),
      socket => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'),
      socket => socket.end(),
      socket => socket.destroy(),
    ];
    for (const does of says) {
      for (const knows of isEncrypted ? [true, false] : [false]) {
        const other = await stranger(
          socket => does(socket.on('error', () => undefined)),
          knows ? key : undefined,
          port,
        );
        const lane = connecting(offer, isEncrypted);
        const told = attach(lane);
        await expect(lane.opened()).rejects.toBeInstanceOf(Error);
        await lane.otherFinished();
        lane.close();
        expect(told).toEqual({ lost: 0, broken: [] });
        for (const each of made.splice(0).reverse()) each.close();
        if (other.listening) await once(other, 'close');
      }
    }
  });

  test('what follows the token, but is no frame, is an error', async () => {
    for (const garbage of [Buffer.alloc(96, 0xff), Buffer.alloc(LARGE, 0xff)]) {
      const lane = await listening(isEncrypted);
      const key = Buffer.from(lane.offer!.token, 'hex');
      const host = await stranger(
        async socket => {
          await once(socket, 'data');
          socket.write(Buffer.concat([key.subarray(32), garbage]));
        },
        isEncrypted ? key : undefined,
      );
      const other = connecting({ ...lane.offer!, port: portOf(host) }, isEncrypted);
      const guest = await visitor(lane.offer!.port, isEncrypted ? key : undefined);
      guest.write(key.subarray(0, 32));
      await Promise.all([lane.opened(), other.opened()]);
      guest.write(garbage);
      for (const broken of [lane, other]) {
        await turns(1);
        const told = attach(broken); // also if that had come before
        const received = broken.receive();
        await until(() => told.broken.length > 0);
        expect(told.broken).toEqual([expect.objectContaining({ code: 'ERR_PROTOCOL' })]);
        broken.fail(FAILURE);
        await expect(received).rejects.toBe(FAILURE);
      }
    }
  });

  test('connections that have not shown the token are dropped when the other end is in, or the lane is closed', async () => {
    for (const how of ['connect', 'finish', 'close'] as const) {
      const lane = await listening(isEncrypted);
      const silent = Array.from({ length: 5 }, () =>
        connect(lane.offer!.port, '127.0.0.1').on('error', () => undefined),
      );
      // One that comes after them, and is turned away, tells that they are held.
      await Promise.all(silent.map(socket => once(socket, 'connect')));
      const last = await visitor(lane.offer!.port, isEncrypted ? Buffer.from(lane.offer!.token, 'hex') : undefined);
      last.resume().write(Buffer.alloc(32));
      await once(last, 'close');
      expect(silent.some(socket => socket.closed)).toBe(false);
      if (how === 'connect') await connecting(lane.offer, isEncrypted).opened();
      else lane[how]();
      await until(() => silent.every(socket => socket.closed));
      if (how === 'connect') await lane.opened();
      else await expect(lane.opened()).rejects.toThrow('closed');
    }
  });

  test('nobody is let in when it is closed', async () => {
    for (const how of ['finish', 'close'] as const) {
      const lane = await listening(isEncrypted);
      const other = connecting(lane.offer, isEncrypted);
      lane[how]();
      await expect(other.opened()).rejects.toBeInstanceOf(Error);
      await expect(lane.opened()).rejects.toThrow('closed');
    }
  });

  test('a stranger is heard for ten seconds, however little it says', async () => {
    const lane = await listening(isEncrypted);
    const guest = await (async () => {
      jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'performance', 'Date'] });
      const socket = connect(lane.offer!.port, '127.0.0.1').on('error', () => undefined);
      await once(socket, 'connect');
      const last = await visitor(lane.offer!.port, isEncrypted ? Buffer.from(lane.offer!.token, 'hex') : undefined);
      last.resume().write(Buffer.alloc(32));
      await once(last, 'close'); // now the first is held
      return socket;
    })();
    try {
      for (const byte of [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc]) {
        guest.write(Buffer.of(byte)); // of a greeting of TLS
        jest.advanceTimersByTime(1_000);
        await turns(10);
      }
      expect(guest.closed).toBe(false);
      const closed = once(guest, 'close');
      jest.advanceTimersByTime(1_001);
      await closed;
    } finally {
      jest.useRealTimers();
    }
  });
});

test('an encrypted lane shows nothing of what it carries, a plain one all', async () => {
  for (const isEncrypted of [true, false]) {
    const { ends, proxy } = await bothEnds(isEncrypted);
    const passed: Buffer[] = [];
    proxy.change = bytes => (passed.push(bytes), bytes);
    for (const [from, to] of [
      [ends.first, ends.second],
      [ends.second, ends.first],
    ] as const) {
      await from.send(HEADER, Buffer.alloc(64, 'secret'));
      expect(String((await to.receive()).body)).toContain('secret');
      expect(Buffer.concat(passed.splice(0)).includes('secret')).toBe(!isEncrypted);
    }
  }
});

test('an encrypted lane that is tampered with is lost', async () => {
  const { ends, proxy, told } = await bothEnds(true);
  await ends.first.send(HEADER, Buffer.from('whole'));
  await ends.second.receive();
  proxy.change = bytes => {
    bytes[bytes.length - 1]! ^= 1;
    return bytes;
  };
  const received = [ends.first.receive(), ends.second.receive()];
  await ends.first.send(HEADER, Buffer.from('something'));
  await until(() => told.first.lost === 1 && told.second.lost === 1);
  for (const end of [ends.first, ends.second]) end.fail(FAILURE);
  for (const each of received) await expect(each).rejects.toBe(FAILURE);
  expect([told.first.broken, told.second.broken]).toEqual([[], []]);
});

test('a stranger with another key does not come in to an encrypted lane', async () => {
  const { port, token } = (await listening(true)).offer!;
  const attempt = async (key: string) => {
    const knock = { ...PRE_SHARED, port, host: '127.0.0.1', checkServerIdentity: () => undefined };
    const psk = Buffer.from(key, 'hex');
    const guest = connectTls({ ...knock, pskCallback: () => ({ psk, identity: 'gradring' }) });
    made.push({ close: () => guest.destroy() });
    return Promise.race([once(guest, 'secureConnect').then(() => guest), once(guest, 'error')]);
  };
  const [refused] = (await attempt('00'.repeat(64))) as [Error];
  expect(refused).toMatchObject({ code: expect.stringMatching(/^ERR_SSL/) as string });
  const guest = (await attempt(token)) as TLSSocket;
  expect([guest.getProtocol(), guest.getCipher().name]).toEqual(['TLSv1.2', 'PSK-AES256-GCM-SHA384']);
});
