import { GradringError } from '../../src/errors';
import { Observer } from '../../src/observer';
import { Pacer, type PacerClock } from '../../src/transport/pacing';
import { formRing } from '../../src/comm-thread/form-ring';
import { resolveConnectOptions } from '../../src/rendezvous/connect-options';
import { closeRing, connectRing, freePort } from '../support/rings';
import { FRAME } from '../support/transports';
import { random } from '../support/random';

/** A clock that stands still but for its timers, which fire at the time, or somewhat late or early. */
class FakeClock implements PacerClock {
  time = 0;
  timers = 0;

  constructor(private readonly error: () => number = () => 0) {}

  readonly now = () => this.time;

  readonly wait = async (ms: number) => {
    this.timers += 1;
    this.time += Math.max(0, ms + this.error());
  };
}

const BYTES_PER_MS = 12_500; // 100 Mbit/s
const pacerOn = (clock: PacerClock) => new Pacer(100e6, clock);

/** When each frame was sent, if the next is given as soon as the one before is sent. */
async function timesOf(clock: FakeClock, sizes: readonly number[]): Promise<number[]> {
  const pacer = pacerOn(clock);
  const times: number[] = [];
  for (const bytes of sizes) {
    await pacer.send(bytes);
    times.push(clock.time);
  }
  return times;
}

describe('a pacer', () => {
  test('lets frames through at its rate, after the burst of 1 ms of a link that was idle', async () => {
    const frames = new Array<number>(4).fill(10 * BYTES_PER_MS);
    expect(await timesOf(new FakeClock(), frames)).toEqual([9, 19, 29, 39]);
  });

  test.each([
    ['late', (next: () => number) => next()],
    ['early', (next: () => number) => -next()],
  ])('keeps its mean rate though timers fire up to 1 ms too %s', async (_, errorOf) => {
    const next = random(3);
    const sizes = Array.from({ length: 2000 }, () => Math.floor(next() * 5 * BYTES_PER_MS));
    const times = await timesOf(new FakeClock(() => errorOf(next)), sizes);
    let bytes = 0;
    times.forEach((time, i) => {
      bytes += sizes[i]!;
      expect(Math.abs(time + 1 - bytes / BYTES_PER_MS)).toBeLessThanOrEqual(1);
    });
  });

  test('sets no timer for frames that are shorter than a timer is exact, and yet counts them', async () => {
    const clock = new FakeClock();
    const times = await timesOf(clock, new Array<number>(1000).fill(BYTES_PER_MS / 10));
    expect(times.at(-1)).toBeGreaterThan(98);
    expect(times.at(-1)).toBeLessThanOrEqual(99);
    expect(clock.timers).toBeLessThan(200);
  });

  test('saves nothing up while it is idle but the burst', async () => {
    const clock = new FakeClock();
    const pacer = pacerOn(clock);
    await pacer.send(5 * BYTES_PER_MS);
    clock.time = 1000;
    await pacer.send(5 * BYTES_PER_MS);
    await pacer.send(5 * BYTES_PER_MS);
    expect(clock.time).toBe(1009);
  });

  test('sends what is given to it at the same time one after the other', async () => {
    const clock = new FakeClock();
    const pacer = pacerOn(clock);
    const order: string[] = [];
    const sent = ['first', 'second'].map(name => pacer.send(5 * BYTES_PER_MS).then(() => order.push(name)));
    await Promise.all(sent);
    expect(order).toEqual(['first', 'second']);
    expect(clock.time).toBeGreaterThanOrEqual(9);
  });

  test('that is stopped holds nothing up any more', async () => {
    const pacer = new Pacer(1e5); // a day for these bytes
    const waits = pacer.send(1e9);
    pacer.stop();
    await waits;
    await pacer.send(1e9);
  });
});

/** Two ranks in this process. */
async function pairAt(linkRate: string, transport: 'tcp' | 'ipc') {
  const place = { worldSize: 2, masterPort: await freePort(), linkRate, transport };
  const formed = [0, 1].map(rank => formRing(resolveConnectOptions({ rank, ...place }, {}), new Observer()));
  return (await Promise.all(formed)).map(ring => ring.transport);
}

describe('a ring with a link rate', () => {
  afterEach(() => jest.restoreAllMocks());

  test.each(['tcp', 'ipc'] as const)(
    'paces every byte that it counts, on links and in bulk, over %s',
    async transport => {
      const paced: number[] = [];
      jest.spyOn(Pacer.prototype, 'send').mockImplementation(async bytes => void paced.push(bytes));
      const ring = await pairAt('1gbit', transport);
      for (const [sequence, path] of (['links', 'bulk'] as const).entries()) {
        const [first, second] = ring.map(rank => rank[path]);
        await first!.send('right', { ...FRAME, sequence, origin: 0 }, Buffer.alloc(5000));
        const frame = await second!.receive('left', sequence);
        await second!.forward('right', frame);
        expect((await first!.receive('left', sequence)).bytes).toBe(5000);
      }
      const bytes = ring.reduce((sum, { observer }) => sum + observer.read('bytesSent'), 0);
      expect(bytes).toBeGreaterThan(4 * 5000);
      expect(paced.reduce((sum, each) => sum + each)).toBe(bytes);
      await Promise.all(ring.map(each => each.close()));
    },
  );

  test('fails at once, also the calls that wait for the link', async () => {
    const ring = await pairAt('100kbit', 'ipc'); // a frame of 1 MiB takes 84 s
    const sent = ring[0]!.bulk.send('right', { ...FRAME, sequence: 0, origin: 0 }, Buffer.alloc(1 << 20));
    void ring[0]!.fail(new GradringError('ERR_TIMEOUT', 'Too late.'));
    await expect(sent).rejects.toMatchObject({ code: 'ERR_TIMEOUT' });
    await Promise.all(ring.map(each => each.close()));
  });

  test('computes the same and sends as many bytes as one without', async () => {
    const results = [];
    for (const options of [{}, { linkRate: '500mbit' }]) {
      const ring = await connectRing(2, options);
      const sums = await Promise.all(
        ring.map(async communicator => {
          const array = Float32Array.from({ length: 30_000 }, (_, i) => i + communicator.rank);
          await communicator.allReduce(array);
          await communicator.allGather(Int32Array.of(communicator.rank));
          return { array, traffic: communicator.traffic };
        }),
      );
      results.push(sums);
      await closeRing(ring);
    }
    expect(results[1]).toEqual(results[0]);
    expect(results[0]![0]!.array[7]).toBe(15);
  });
});
