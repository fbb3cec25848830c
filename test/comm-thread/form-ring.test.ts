import { randomBytes } from 'node:crypto';
import { readdirSync, rmSync } from 'node:fs';
import { type FormedRing, formRing } from '../../src/comm-thread/form-ring';
import { type ConnectInput, type ConnectOptions, resolveConnectOptions } from '../../src/rendezvous/connect-options';
import { Coordinator } from '../../src/rendezvous/coordinator';
import { CoordinatorSocket } from '../../src/rendezvous/coordinator-socket';
import { Rendezvous } from '../../src/rendezvous/rendezvous';
import { STAY } from '../../src/rendezvous/rendezvous-options';
import { makeSocketFolder } from '../../src/rendezvous/socket-folder';
import { GradringError } from '../../src/errors';
import { Link } from '../../src/transport/control/link';
import { closeAllSockets } from '../../src/transport/control/open-sockets';
import type { RingTransport } from '../../src/transport/ring-transport';
import { failureOf, freePort, until } from '../support/rings';
import { expectToWork } from '../support/transports';

const TOKEN = randomBytes(32).toString('hex');

/** Where the ranks make their unix sockets. */
let folder: string;
/** Descriptors that this process has open beside those of a ring. */
let descriptors: number;

const countDescriptors = () => readdirSync('/proc/self/fd').length;

/** What a test that fails would leave open. */
const open = new Set<{ close(): Promise<void> }>();

beforeAll(async () => {
  folder = process.env['GRADRING_SOCKET_FOLDER'] = makeSocketFolder();
  // ZeroMQ keeps some descriptors from its first socket on.
  for (const input of [{}, ENCRYPTED]) await close(await formAll(await optionsOf(2, input)));
});
beforeEach(() => (descriptors = countDescriptors()));
afterEach(async () => {
  jest.restoreAllMocks();
  await Promise.all([...open].map(each => each.close()));
  open.clear();
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await closeAllSockets();
});

const ENCRYPTED: ConnectInput = { transport: 'tcp', encryption: 'on', runToken: TOKEN };

async function optionsOf(worldSize: number, input: ConnectInput = {}): Promise<ConnectOptions[]> {
  const masterPort = await freePort();
  return Array.from({ length: worldSize }, (_, rank) =>
    resolveConnectOptions({ rank, worldSize, masterPort, connectTimeoutMs: 20_000, ...input }, {}),
  );
}

async function form(...args: Parameters<typeof formRing>): Promise<FormedRing> {
  const ring = await formRing(...args);
  open.add(ring.transport);
  return ring;
}

function formAll(options: readonly ConnectOptions[]): Promise<FormedRing[]> {
  return Promise.all(options.map(each => form(each, undefined)));
}

async function close(ring: readonly FormedRing[]): Promise<void> {
  await Promise.all(ring.map(({ transport }) => transport.close()));
}

/** No socket and no folder stays. ZeroMQ's threads close sockets a moment later. */
async function expectNothingLeft(): Promise<void> {
  expect(readdirSync(folder)).toEqual([]);
  await until(() => countDescriptors() <= descriptors);
}

/** A rank that meets the others and listens, but goes no further. */
async function meetOnly(options: ConnectOptions): Promise<{ rendezvous: Rendezvous; link: Link }> {
  const { elastic: isElastic, connectTimeoutMs: timeoutMs } = options;
  const elastic = isElastic && STAY;
  const rendezvous = await Rendezvous.come({ ...options, hostId: '', security: undefined, elastic, timeoutMs });
  const { link, endpoint } = Link.listen('tcp://127.0.0.1:*', options);
  [rendezvous, link].forEach(each => open.add(each));
  await rendezvous.listen(endpoint);
  return { rendezvous, link };
}

test.each<[string, number, ConnectInput]>([
  ['unix sockets', 2, { transport: 'ipc' }],
  ['unix sockets', 4, { transport: 'ipc' }],
  ['TCP', 2, { transport: 'tcp' }],
  ['TCP', 4, { transport: 'tcp' }],
  ['encrypted TCP', 3, ENCRYPTED],
])('forms a ring over %s, of %i ranks', async (_, worldSize, input) => {
  const ring = await formAll(await optionsOf(worldSize, input));
  expect(readdirSync(folder)).toEqual([]);
  ring.forEach(({ transport, generation, lanes }, rank) => {
    expect(transport).toMatchObject({ rank, worldSize, isLocal: true, failed: false });
    expect({ generation, lanes }).toEqual({ generation: 0, lanes: true });
  });
  await expectToWork(ring.map(({ transport }) => transport as RingTransport));
  await close(ring);
  await expectNothingLeft();
});

test('a ring of one needs no rendezvous', async () => {
  const [only] = await formAll(await optionsOf(1));
  expect(only).toMatchObject({ transport: { rank: 0, worldSize: 1 }, generation: 0, lanes: true });
  await expectNothingLeft();
});

test.each([
  ['ipc', 'listen'],
  ['tcp', 'listen'],
  ['ipc', 'connect'],
  ['tcp', 'connect'],
] as const)('over %s, all ranks hear why one cannot %s', async (transport, step) => {
  const own = Link[step].bind(Link) as (...args: unknown[]) => never;
  jest.spyOn(Link, step).mockImplementation((...args: unknown[]) => {
    if ((args[1] as ConnectOptions).rank === 1)
      throw new GradringError('ERR_ADDRESS_IN_USE', 'The network is of paper.');
    return own(...args);
  });
  const options = await optionsOf(3, { transport });
  const errors = await Promise.all(options.map(each => failureOf(form(each, undefined))));
  expect(errors[1]!.message).toBe('The network is of paper.');
  for (const rank of [0, 2]) {
    expect(errors[rank]).toMatchObject({
      code: 'ERR_ADDRESS_IN_USE',
      message: `Rank 1 cannot ${step}: The network is of paper.`,
    });
  }
  await expectNothingLeft();
});

test.each(['ipc', 'tcp'] as const)(
  'over %s, all ranks hear of neighbours that do not connect in time',
  async transport => {
    const options = await optionsOf(3, { transport, connectTimeoutMs: 1_500 });
    const late = meetOnly(options[2]!);
    const errors = await Promise.all([0, 1].map(rank => failureOf(form(options[rank]!, undefined))));
    const message = expect.stringMatching(
      /^Ranks 0, 1, 2 came to the rendezvous but did not connect .* 1500 ms/,
    ) as string;
    for (const error of errors) expect(error).toMatchObject({ code: 'ERR_RENDEZVOUS_TIMEOUT', message });
    const { rendezvous, link } = await late;
    await Promise.all([rendezvous.close(), link.close()]);
    await expectNothingLeft();
  },
);

test('all ranks hear of a neighbour that is lost before the links of all stand', async () => {
  const options = await optionsOf(3, { transport: 'tcp' });
  const late = meetOnly(options[2]!);
  const forming = [0, 1].map(rank => failureOf(form(options[rank]!, undefined)));
  const { rendezvous, link } = await late;
  const greeted = new Promise<void>(resolve => link.start({ onMessage: () => resolve(), onLost: () => undefined }));
  await greeted; // by rank 1, which is connected
  await Promise.all([rendezvous.close(), link.close()]);
  for (const error of await Promise.all(forming)) expect(error).toMatchObject({ code: 'ERR_PEER_LOST', rank: 2 });
  await expectNothingLeft();
});

describe('in an elastic run', () => {
  const ARRIVAL = { ...STAY, patienceMs: 20_000 };

  /** The launcher's part, for that many ranks. */
  async function launch(worldSize: number) {
    const options = (await optionsOf(worldSize, { transport: 'tcp' })).map(each => ({
      ...each,
      elastic: 'member' as const,
    }));
    const formed: (readonly number[])[] = [];
    const coordinator = new Coordinator({
      ...options[0]!,
      needsKeys: false,
      policy: {
        ...{ holder: 'the launcher', isElastic: true, mayForm: () => true, waitMs: (_, ms) => ms },
        ...{ onFormed: (_, members) => void formed.push(members), onAbsent: () => undefined },
      },
    });
    const socket = CoordinatorSocket.open({ ...options[0]!, security: undefined }, coordinator);
    open.add(socket);
    const join = (rank: number) => form(options[rank]!, undefined, ARRIVAL);
    return { options, coordinator, formed, join, close: () => socket.close() };
  }

  test('a loss while the ring forms ends the attempt for all, and those that are left form the next', async () => {
    const { options, coordinator, formed, join, close: closeLauncher } = await launch(3);
    const late = meetOnly(options[0]!);
    const forming = [1, 2].map(rank => failureOf(join(rank)));
    const { rendezvous, link } = await late;
    coordinator.lose(0, 'rank 0 ended');
    for (const error of await Promise.all(forming)) {
      expect(error).toMatchObject({ code: 'ERR_PEER_LOST', message: expect.stringMatching('rank 0 ended') as string });
    }
    await Promise.all([rendezvous.close(), link.close()]);
    const ring = await Promise.all([join(1), join(2)]);
    expect(formed).toEqual([[1, 2]]);
    ring.forEach(({ transport, generation }, rank) => {
      expect({ rank: transport.rank, worldSize: transport.worldSize, generation }).toEqual({
        rank,
        worldSize: 2,
        generation: 1,
      });
    });
    await expectToWork(ring.map(({ transport }) => transport as RingTransport));
    await close(ring);
    await closeLauncher();
    await expectNothingLeft();
  });

  test('the only rank that is left has a ring of one', async () => {
    const { coordinator, formed, join, close: closeLauncher } = await launch(2);
    coordinator.lose(1, 'rank 1 ended');
    expect(await join(0)).toMatchObject({ transport: { rank: 0, worldSize: 1 }, generation: 0 });
    expect(formed).toEqual([[0]]);
    await closeLauncher();
    await expectNothingLeft();
  });
});
