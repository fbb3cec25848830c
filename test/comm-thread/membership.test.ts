import { SCRATCH_BYTES } from '../../src/collectives/collective-call';
import { CommandRunner } from '../../src/comm-thread/command-runner';
import { ElasticMembership } from '../../src/comm-thread/elastic-membership';
import { type Membership, StaticMembership } from '../../src/comm-thread/membership';
import type { Request, RingPosition } from '../../src/comm-thread/thread-protocol';
import { GradringError } from '../../src/errors';
import { agreedValues } from '../../src/environment/rank-options';
import { Observer } from '../../src/observer';
import { instantiateKernels } from '../../src/kernels/wasm-kernels';
import { SharedHeap } from '../../src/memory/shared-heap';
import { type ConnectOptions, resolveConnectOptions } from '../../src/rendezvous/connect-options';
import { Coordinator } from '../../src/rendezvous/coordinator';
import { CoordinatorSocket } from '../../src/rendezvous/coordinator-socket';
import { type ElasticJoin, STAY } from '../../src/rendezvous/rendezvous-options';
import type { RingTransport } from '../../src/transport/ring-transport';
import { SoloTransport } from '../../src/transport/transport';
import { Purpose } from '../../src/wire/frame';
import { failureOf, freePort, until } from '../support/rings';

/** What a test that fails would leave open. */
const open: { close(): Promise<void> }[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map(each => each.close()));
});

/** A rank's comm thread without the thread, and what its user's thread asks of it. */
class Rank {
  readonly membership: Membership;
  readonly observer = new Observer();
  /** Of the ring that the user's thread knows of. */
  generation = 0;

  constructor(options: ConnectOptions) {
    const heap = new SharedHeap();
    const scratch = heap.allocate(SCRATCH_BYTES);
    const { memory } = heap;
    const context = { transport: new SoloTransport(), kernels: instantiateKernels(memory), memory, scratch };
    const runner = new CommandRunner(context, options, () => undefined);
    const Kind = options.elastic === undefined ? StaticMembership : ElasticMembership;
    this.membership = new Kind(options, this.observer, runner);
    open.push({ close: () => this.membership.transport.close() });
  }

  async join(): Promise<RingPosition> {
    return this.moveTo(await this.membership.join());
  }

  barrier(): Promise<unknown> {
    return this.ask('barrier', { purpose: Purpose.Call });
  }

  async rejoin(join: ElasticJoin = STAY): Promise<RingPosition> {
    return this.moveTo((await this.ask('rejoin', join)) as RingPosition);
  }

  ask(name: Request['name'], input: object = {}): Promise<unknown> {
    this.membership.onRequest();
    return this.membership.carryOut({ id: 1, name, input, generation: this.generation });
  }

  /** Its links break, as they do when its process is killed. */
  async die(): Promise<void> {
    await (this.membership.transport as RingTransport).drop();
  }

  private moveTo(position: RingPosition): RingPosition {
    this.generation = position.generation;
    return position;
  }
}

/** The ranks of a run, and the launcher's coordinator if it is elastic. */
async function run(worldSize: number, { isElastic }: { isElastic: boolean }) {
  const masterPort = await freePort();
  const options = Array.from({ length: worldSize }, (_, rank) => ({
    ...resolveConnectOptions({ rank, worldSize, masterPort, transport: 'tcp' }, {}),
    elastic: isElastic ? ('member' as const) : undefined,
  }));
  const coordinator = new Coordinator({
    ...options[0]!,
    ...{ agreed: agreedValues(options[0]!), needsKeys: false },
    policy: {
      ...{ holder: 'the launcher', isElastic, mayForm: () => true, waitMs: (_, ms) => ms },
      ...{ onFormed: () => undefined, onAbsent: () => undefined },
      onUnconnected: () => undefined,
    },
  });
  if (isElastic) open.push(CoordinatorSocket.open({ ...options[0]!, security: undefined }, coordinator));
  const newcomer = (rank: number) => new Rank({ ...options[rank]!, elastic: 'newcomer' });
  return { ranks: options.map(each => new Rank(each)), coordinator, newcomer };
}

const position = (rank: number, worldSize: number, generation: number) => ({
  ...{ rank, worldSize, ranksHere: worldSize, generation },
});

describe('of a static run', () => {
  test('there is one ring; when it has failed, every later collective fails with the same', async () => {
    const { ranks } = await run(3, { isElastic: false });
    expect(await Promise.all(ranks.map(rank => rank.join()))).toEqual([0, 1, 2].map(rank => position(rank, 3, 0)));
    await Promise.all(ranks.map(rank => rank.barrier()));
    expect(ranks[0]!.observer.read('bytesSent')).toBeGreaterThan(0);
    const failing = [0, 1].map(rank => failureOf(ranks[rank]!.barrier()));
    await ranks[2]!.die();
    for (const error of await Promise.all(failing)) expect(error).toMatchObject({ code: 'ERR_PEER_LOST', rank: 2 });
    expect(await failureOf(ranks[0]!.barrier())).toMatchObject({
      ...{ code: 'ERR_PEER_LOST', rank: 2 },
      message: expect.stringMatching(/^The ring has failed and cannot be used any more: Rank 2 /) as string,
    });
  });
});

describe('of an elastic run', () => {
  /** Three ranks, of which rank 2 is lost. */
  async function afterLoss() {
    const { ranks, coordinator, newcomer } = await run(3, { isElastic: true });
    await Promise.all(ranks.map(rank => rank.join()));
    await Promise.all(ranks.map(rank => rank.barrier()));
    const sent = ranks[0]!.observer.read('bytesSent');
    await ranks[2]!.die();
    coordinator.lose(2, 'rank 2 ended');
    const left = [ranks[0]!, ranks[1]!];
    // The users' threads have asked for nothing.
    await until(() => left.every(({ membership }) => membership.transport.worldSize === 2));
    return { left, coordinator, newcomer, sent };
  }

  test('the ranks that are left form the next ring by themselves; what was meant for the ring before fails', async () => {
    const { left, sent } = await afterLoss();
    const [first] = left;
    expect(await failureOf(first!.barrier())).toMatchObject({ code: 'ERR_PEER_LOST' });
    expect(await Promise.all(left.map(rank => rank.rejoin()))).toEqual([position(0, 2, 1), position(1, 2, 1)]);
    await Promise.all(left.map(rank => rank.barrier()));
    expect(first!.observer.read('bytesSent')).toBeGreaterThan(sent);
  });

  test('a newcomer waits until the others let it in', async () => {
    const { left, newcomer } = await afterLoss();
    await Promise.all(left.map(rank => rank.rejoin()));
    const late = newcomer(2);
    expect(await late.join()).toEqual(position(2, 3, -1));
    const entering = late.rejoin({ newcomer: true, admits: false });
    while ((await left[0]!.ask('askWaiting')) === 0);
    const all = [...left.map(rank => rank.rejoin({ newcomer: false, admits: true })), entering];
    expect(await Promise.all(all)).toEqual([0, 1, 2].map(rank => position(rank, 3, 2)));
    await Promise.all([...left, late].map(rank => rank.barrier()));
  });

  test('a rank that leaves is not waited for', async () => {
    const { ranks } = await run(3, { isElastic: true });
    await Promise.all(ranks.map(rank => rank.join()));
    const left = [ranks[0]!, ranks[1]!];
    const failing = left.map(rank => failureOf(rank.barrier()));
    await ranks[2]!.ask('close');
    for (const error of await Promise.all(failing)) expect(error).toMatchObject({ code: 'ERR_PEER_LOST', rank: 2 });
    expect(await Promise.all(left.map(rank => rank.rejoin()))).toEqual([position(0, 2, 1), position(1, 2, 1)]);
  });

  test('a rank that leaves waits until the launcher has read it', async () => {
    const { ranks, coordinator } = await run(2, { isElastic: true });
    await Promise.all(ranks.map(rank => rank.join()));
    const hear = coordinator.hear.bind(coordinator);
    const unread: Parameters<typeof hear>[] = [];
    coordinator.hear = (...message) => void unread.push(message);
    let hasLeft = false;
    const leaving = ranks[1]!.ask('close').then(() => (hasLeft = true));
    const kinds = () => unread.map(([{ kind }]) => kind);
    await until(() => kinds().includes('ask'));
    expect(kinds().indexOf('leave')).toBe(kinds().indexOf('ask') - 1);
    expect(hasLeft).toBe(false);
    expect(ranks[1]!.membership.transport.failure).toBeUndefined(); // it has not begun to leave the ring
    coordinator.hear = hear;
    for (const message of unread) hear(...message);
    await leaving;
  });

  test('what is no loss ends the run: there is no other ring', async () => {
    const { ranks } = await run(2, { isElastic: true });
    await Promise.all(ranks.map(rank => rank.join()));
    const cause = new GradringError('ERR_NON_FINITE', 'Rank 0 has a NaN.', { rank: 0 });
    await ranks[0]!.membership.transport.fail(cause);
    await until(() => ranks[1]!.membership.transport.failure !== undefined);
    for (const rank of ranks) {
      const details = { rank: 0, operation: 'barrier()' };
      expect(await failureOf(rank.barrier())).toMatchObject({ code: 'ERR_NON_FINITE', details });
      expect(await failureOf(rank.rejoin())).toMatchObject({ code: 'ERR_NON_FINITE', rank: 0 });
    }
  });

  test('after a deadline, a rank whose user has called nothing comes to the next ring when it calls something', async () => {
    const { ranks } = await run(2, { isElastic: true });
    await Promise.all(ranks.map(rank => rank.join()));
    const called = failureOf(ranks[0]!.barrier());
    await ranks[0]!.membership.transport.fail(new GradringError('ERR_TIMEOUT', 'Rank 0 waited in vain.', { rank: 1 }));
    expect(await called).toMatchObject({ code: 'ERR_TIMEOUT', rank: 1 });
    await until(() => ranks[1]!.membership.transport.failure !== undefined);
    const next = ranks[0]!.rejoin();
    expect(await failureOf(ranks[1]!.barrier())).toMatchObject({ code: 'ERR_PEER_LOST' }); // it shows that it lives
    expect(await next).toEqual(position(0, 2, 1));
    expect(await ranks[1]!.rejoin()).toEqual(position(1, 2, 1));
  });
});
