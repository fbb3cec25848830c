import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { formRing } from '../../src/comm-thread/form-ring';
import { Observer } from '../../src/observer';
import { resolveConnectOptions } from '../../src/rendezvous/connect-options';
import { type DelayClock, DelayLine } from '../../src/transport/delay/delay-line';
import { LinkDelay } from '../../src/transport/delay/link-delay';
import { closeRing, connectRing, freePort } from '../support/rings';
import { random } from '../support/random';
import { FRAME } from '../support/transports';

/** A clock that moves from timer to timer, each of which may be late. */
class FakeClock implements DelayClock {
  time = 0;
  private timers: { at: number; run: () => void }[] = [];

  constructor(private readonly lateness: () => number = () => 0) {}

  readonly now = () => this.time;

  readonly after = (ms: number, run: () => void) => {
    this.timers.push({ at: this.time + ms + this.lateness(), run });
  };

  /** Moves to that time. */
  to(time: number): void {
    for (;;) {
      this.timers.sort((a, b) => a.at - b.at);
      const [next] = this.timers;
      if (next === undefined || next.at > time) break;
      this.timers.shift();
      this.time = Math.max(this.time, next.at);
      next.run();
    }
    this.time = time;
  }
}

describe('a delay line', () => {
  /** When each item was given and delivered. */
  function timesOf(clock: FakeClock, delay: { delayMs: number; jitterMs: number }, gaps: readonly number[]) {
    const given: number[] = [];
    const delivered: { item: number; at: number }[] = [];
    const next = random(5);
    const line = new DelayLine<number>(delay, item => delivered.push({ item, at: clock.time }), 0, clock, next);
    gaps.forEach((gap, item) => {
      clock.to(clock.time + gap);
      given.push(clock.time);
      line.give(item);
    });
    clock.to(clock.time + 1000);
    expect(delivered.map(({ item }) => item)).toEqual(gaps.map((_, i) => i));
    return delivered.map(({ at }, i) => at - given[i]!);
  }

  test('delivers each item after the delay, however many are on their way', () => {
    const delays = timesOf(new FakeClock(), { delayMs: 50, jitterMs: 0 }, [0, 0, 1, 10, 0, 100, 3]);
    expect(delays.every(ms => Math.abs(ms - 50) <= 0.5)).toBe(true);
  });

  test('is late by no more than its timers', () => {
    const next = random(7);
    const gaps = Array.from({ length: 500 }, () => 2 * next());
    const delays = timesOf(new FakeClock(next), { delayMs: 20, jitterMs: 0 }, gaps);
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(19.5);
    expect(Math.max(...delays)).toBeLessThanOrEqual(21);
  });

  test('varies within the jitter, and keeps the order', () => {
    const delays = timesOf(new FakeClock(), { delayMs: 20, jitterMs: 5 }, Array<number>(300).fill(30));
    expect(Math.min(...delays)).toBeLessThan(16);
    expect(Math.max(...delays)).toBeGreaterThan(24);
    expect(delays.every(ms => ms >= 14.5 && ms <= 25)).toBe(true);
    timesOf(new FakeClock(), { delayMs: 20, jitterMs: 19 }, Array<number>(300).fill(1)); // checks the order
  });
});

describe('a forwarded port', () => {
  const HOST = '127.0.0.1';
  const DELAY = { delayMs: 20, jitterMs: 0 };

  async function allOf(socket: Socket): Promise<Buffer> {
    const parts: Buffer[] = [];
    socket.on('data', (bytes: Buffer) => parts.push(bytes));
    await once(socket, 'end');
    return Buffer.concat(parts);
  }

  /** A connection through it, with both of its ends. */
  async function through(delay: LinkDelay) {
    const server = createServer({ allowHalfOpen: true }).listen(0, HOST);
    await once(server, 'listening');
    const to = (server.address() as AddressInfo).port;
    const near = connect({ host: HOST, port: await delay.forward({ host: HOST, from: 0, to }), allowHalfOpen: true });
    const [far] = (await once(server, 'connection')) as [Socket];
    server.close();
    return { near, far };
  }

  test('answers after the delay of both ways, and loses nothing in either', async () => {
    const delay = new LinkDelay(DELAY);
    const { near, far } = await through(delay);
    far.once('data', bytes => far.write(bytes));
    near.write('warm'); // the first bytes wait for the handshake, too
    await once(near, 'data');
    far.once('data', bytes => far.write(bytes));
    const start = performance.now();
    near.write('ping');
    await once(near, 'data');
    expect(performance.now() - start).toBeGreaterThanOrEqual(2 * DELAY.delayMs - 1);

    const [there, back] = [randomBytes(5_000_000), randomBytes(3_000_000)];
    const received = [far, near].map(allOf);
    near.end(there); // half closed: the other direction stays open
    expect((await received[0]!).equals(there)).toBe(true);
    far.end(back);
    expect((await received[1]!).equals(back)).toBe(true);
    await delay.close();
  });

  test('is closed, or reset, where its other end is, and a port in use is told', async () => {
    const delay = new LinkDelay(DELAY);
    for (const close of ['destroy', 'resetAndDestroy'] as const) {
      const { near, far } = await through(delay);
      near.write('first');
      await once(far, 'data');
      near[close]();
      if (close === 'destroy') await once(far.resume(), 'end');
      else expect(await once(far, 'error')).toMatchObject([{ code: 'ECONNRESET' }]);
      far.destroy();
    }
    const server = createServer().listen(0, HOST);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await expect(delay.forward({ host: HOST, from: port, to: 1 })).rejects.toMatchObject({ code: 'EADDRINUSE' });
    server.close();
    await delay.close();
  });

  test('of nobody closes what connects', async () => {
    const delay = new LinkDelay(DELAY);
    const port = await delay.forward({ host: HOST, from: 0, to: await freePort() });
    await new Promise(resolve => connect(port, HOST).on('error', () => undefined).on('close', resolve)); // prettier-ignore
    await delay.close();
  });
});

describe('a ring with a link delay', () => {
  test('delays links and lanes', async () => {
    const delayMs = 30;
    const place = { worldSize: 2, masterPort: await freePort(), linkDelay: `${delayMs}ms` };
    const formed = [0, 1].map(rank => formRing(resolveConnectOptions({ rank, ...place }, {}), new Observer()));
    const ring = (await Promise.all(formed)).map(({ transport }) => transport);
    expect(ring.map(({ isLocal }) => isLocal)).toEqual([false, false]); // so a step measures its links
    expect(ring[0]!.bulk.media).toEqual(Array(2).fill('tcp-lane'));
    const took: number[] = [];
    for (const [sequence, path] of (['links', 'bulk', 'links', 'bulk'] as const).entries()) {
      const start = performance.now();
      await ring[0]![path].send('right', { ...FRAME, sequence, origin: 0 }, Buffer.alloc(5000));
      expect((await ring[1]![path].receive('left', sequence)).bytes).toBe(5000);
      took.push(performance.now() - start);
    }
    expect(Math.min(...took)).toBeGreaterThanOrEqual(delayMs - 1);
    await Promise.all(ring.map(each => each.close()));
  });

  test('computes the same as one without, encrypted', async () => {
    const results = [];
    const slow = {
      linkDelay: '5ms',
      linkJitter: '2ms',
      linkRate: '500mbit',
      encryption: 'on',
      runToken: 'ab'.repeat(32),
    } as const;
    for (const options of [{}, slow]) {
      const ring = await connectRing(3, options);
      results.push(
        await Promise.all(
          ring.map(async communicator => {
            const array = Float32Array.from({ length: 30_000 }, (_, i) => i + communicator.rank);
            await communicator.allReduce(array);
            const ranks = await communicator.allGather(Int32Array.of(communicator.rank));
            return { array, ranks };
          }),
        ),
      );
      await closeRing(ring);
    }
    expect(results[1]).toEqual(results[0]);
  });
});
