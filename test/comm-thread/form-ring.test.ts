import { randomBytes } from 'node:crypto';
import { readdirSync, rmSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { type FormedRing, formRing } from '../../src/comm-thread/form-ring';
import { agreedValues } from '../../src/environment/rank-options';
import { Observer } from '../../src/observer';
import { type ConnectInput, type ConnectOptions, resolveConnectOptions } from '../../src/rendezvous/connect-options';
import { Coordinator } from '../../src/rendezvous/coordinator';
import { CoordinatorSocket } from '../../src/rendezvous/coordinator-socket';
import { Rendezvous } from '../../src/rendezvous/rendezvous';
import { STAY } from '../../src/rendezvous/rendezvous-options';
import { makeSocketFolder } from '../../src/rendezvous/socket-folder';
import { GradringError } from '../../src/errors';
import { Link } from '../../src/transport/control/link';
import { closeAllSockets } from '../../src/transport/control/open-sockets';
import { type Medium, opposite } from '../../src/transport/ring-place';
import { SharedMemoryLane } from '../../src/transport/data/shared-memory-lane';
import { TcpLane } from '../../src/transport/data/tcp-lane';
import { FrameKind, Operation, Purpose } from '../../src/wire/frame';
import { failureOf, freePort, freeRange, until } from '../support/rings';
import { testWhere } from '../support/test-where';

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
  return Promise.all(options.map(each => form(each, new Observer())));
}

async function close(ring: readonly FormedRing[]): Promise<void> {
  await Promise.all(ring.map(({ transport }) => transport.close()));
}

/** No socket and no folder stays. ZeroMQ's threads close sockets a moment later. */
async function expectNothingLeft(): Promise<void> {
  expect(readdirSync(folder)).toEqual([]);
  await until(() => countDescriptors() <= descriptors);
}

const HEADER = {
  ...({ kind: FrameKind.Data, operation: Operation.AllReduce, elementType: 'none', reduction: 'none' } as const),
  ...{ purpose: Purpose.Call, elementCount: 0, parameter: 0, part: 0, checksum: 0 },
};

/** Each rank sends a frame to both neighbours, by each path. */
async function expectToWork(ring: readonly FormedRing[]): Promise<void> {
  for (const [sequence, path] of (['links', 'bulk'] as const).entries()) {
    for (const side of ['left', 'right'] as const) {
      const sent = ring.map(({ transport: { [path]: own, rank } }) =>
        own.send(side, { ...HEADER, sequence, origin: rank }, Buffer.from(`from ${rank}`)),
      );
      for (const { transport } of ring) {
        const sender = (transport.rank + ring.length + (side === 'left' ? 1 : -1)) % ring.length;
        const { body } = await transport[path].receive(opposite(side), sequence);
        expect(body.toString()).toBe(`from ${sender}`);
      }
      await Promise.all(sent);
    }
  }
}

/** A rank that meets the others and listens, or says so, but goes no further. */
async function meetOnly(options: ConnectOptions, told?: string): Promise<{ rendezvous: Rendezvous; link: Link }> {
  const { elastic: isElastic, connectTimeoutMs: timeoutMs } = options;
  const elastic = isElastic && STAY;
  const say = () => undefined;
  const rendezvous = await Rendezvous.meet({
    ...options,
    agreed: agreedValues(options),
    hostId: '',
    security: undefined,
    elastic,
    timeoutMs,
    say,
  });
  const { link, endpoint } = Link.listen('tcp://127.0.0.1:*', options);
  [rendezvous, link].forEach(each => open.add(each));
  await rendezvous.listen(told ?? endpoint);
  return { rendezvous, link };
}

test('of paced links all ranks know what a byte costs', async () => {
  const ring = await formAll(await optionsOf(2, { transport: 'ipc', linkRate: '100mbit' }));
  expect(ring.map(({ transport }) => transport.paceNs)).toEqual([80, 80]);
  await close(ring);
});

test.each<[string, number, ConnectInput, Medium, Medium]>([
  ['unix sockets', 2, { transport: 'ipc' }, 'unix-socket', 'shared-memory'],
  ['unix sockets', 4, { transport: 'ipc' }, 'unix-socket', 'shared-memory'],
  ['TCP', 2, { transport: 'tcp' }, 'tcp', 'tcp-lane'],
  ['TCP', 4, { transport: 'tcp' }, 'tcp', 'tcp-lane'],
  ['encrypted TCP', 3, ENCRYPTED, 'tcp-encrypted', 'tcp-lane-encrypted'],
])('forms a ring over %s, of %i ranks', async (_, worldSize, input, link, lane) => {
  const ring = await formAll(await optionsOf(worldSize, input));
  expect(readdirSync(folder)).toEqual([]);
  ring.forEach(({ transport, generation }, rank) => {
    expect(transport).toMatchObject({ rank, worldSize, isLocal: true, failed: false });
    expect(generation).toBe(0);
    expect({ links: transport.links.media, bulk: transport.bulk.media }).toEqual({
      links: [link, link],
      bulk: [lane, lane],
    });
  });
  await expectToWork(ring);
  await close(ring);
  await expectNothingLeft();
});

describe('ports of a range', () => {
  const TCP = { transport: 'tcp' } as const;
  const rangeOf = (ports: readonly number[]) => ({ portRange: `${ports[0]}-${ports.at(-1)}` });

  test.each([TCP, ENCRYPTED])('links and lanes are at these, two for each rank: %j', async input => {
    const ports = await freeRange(6);
    const links = jest.spyOn(Link, 'connect');
    const lanes = jest.spyOn(TcpLane, 'connect');
    const ring = await formAll(await optionsOf(3, { ...input, ...rangeOf(ports) }));
    const linkPorts = links.mock.calls.map(([endpoint]) => Number(/^tcp:\/\/127\.0\.0\.1:(\d+)$/.exec(endpoint)![1]));
    const lanePorts = lanes.mock.calls.map(([{ host, port }]) => (host === '127.0.0.1' ? port : host));
    expect([...linkPorts, ...lanePorts].sort()).toEqual(ports);
    await expectToWork(ring);
    await close(ring);
    await expectNothingLeft();
  });

  test.each([
    [3, 'listen', 2],
    [3, 'connect', 3],
    [3, 'connect', 5],
  ])('for %i ranks all hear who cannot %s if there are %i', async (worldSize, step, count) => {
    const range = rangeOf(await freeRange(count));
    const options = await optionsOf(worldSize, { ...TCP, ...range });
    const errors = await Promise.all(options.map(each => failureOf(form(each, new Observer()))));
    const own = `All ports of the range ${range.portRange} are in use on this host.`;
    expect(errors.some(({ message }) => message.startsWith(own))).toBe(true);
    for (const { code, message } of errors) {
      expect(code).toBe('ERR_ADDRESS_IN_USE');
      expect(message.replace(new RegExp(`^Rank \\d cannot ${step}: `), '')).toMatch(new RegExp(`^${own}`));
    }
    await expectNothingLeft();
  });
});

const hasIPv6 = Object.values(networkInterfaces()).some(all => all?.some(({ address }) => address === '::1'));
testWhere(hasIPv6 ? undefined : 'no interface has the address ::1').each([
  ['::1', { transport: 'tcp' }],
  ['[::1]', ENCRYPTED],
] as const)('with the master at %s, links and lanes are IPv6: %j', async (masterAddr, input) => {
  const links = jest.spyOn(Link, 'connect');
  const lanes = jest.spyOn(TcpLane, 'connect');
  const ring = await formAll(await optionsOf(3, { masterAddr, ...input }));
  expect(links.mock.calls.map(([endpoint]) => endpoint.replace(/\d+$/, ''))).toEqual(Array(3).fill('tcp://[::1]:'));
  expect(lanes.mock.calls.map(([{ host }]) => host)).toEqual(Array(3).fill('::1'));
  await expectToWork(ring);
  await close(ring);
  await expectNothingLeft();
});

test('if one rank has no lane, bulk of all goes by the links', async () => {
  const create = SharedMemoryLane.create.bind(SharedMemoryLane);
  jest.spyOn(SharedMemoryLane, 'create').mockImplementation(create).mockReturnValueOnce(undefined);
  const ring = await formAll(await optionsOf(3, { transport: 'ipc' }));
  for (const { transport } of ring) expect(transport.bulk.media).toEqual(['unix-socket', 'unix-socket']);
  await expectToWork(ring);
  await close(ring);
  await expectNothingLeft();
});

test('a lane that does not open is not waited for until the ranks are out of time', async () => {
  jest.spyOn(TcpLane.prototype, 'opened').mockReturnValue(new Promise(() => undefined));
  const ring = await formAll(await optionsOf(2, { transport: 'tcp', connectTimeoutMs: 3_000 }));
  for (const { transport } of ring) expect(transport.bulk.media).toEqual(['tcp', 'tcp']);
  await expectToWork(ring);
  await close(ring);
  await expectNothingLeft();
});

test('a ring of one needs no rendezvous', async () => {
  const [only] = await formAll(await optionsOf(1));
  expect(only).toMatchObject({ transport: { rank: 0, worldSize: 1 }, generation: 0 });
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
  const errors = await Promise.all(options.map(each => failureOf(form(each, new Observer()))));
  expect(errors[1]!.message).toBe('The network is of paper.');
  for (const rank of [0, 2]) {
    expect(errors[rank]).toMatchObject({
      code: 'ERR_ADDRESS_IN_USE',
      message: `Rank 1 cannot ${step}: The network is of paper.`,
    });
  }
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
      ...{ agreed: agreedValues(options[0]!), needsKeys: false },
      policy: {
        ...{ holder: 'the launcher', isElastic: true, mayForm: () => true, waitMs: (_, ms) => ms },
        ...{ onFormed: (_, members) => void formed.push(members), onAbsent: () => undefined },
        onUnconnected: () => undefined,
      },
    });
    const socket = CoordinatorSocket.open({ ...options[0]!, security: undefined }, coordinator);
    open.add(socket);
    const join = (rank: number) => form(options[rank]!, new Observer(), ARRIVAL);
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
    await expectToWork(ring);
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

test.each(['ipc', 'tcp'] as const)(
  'over %s, all ranks hear of neighbours that do not connect in time',
  async transport => {
    const options = await optionsOf(3, { transport, connectTimeoutMs: 1_500 });
    const late = meetOnly(options[2]!);
    const errors = await Promise.all([0, 1].map(rank => failureOf(form(options[rank]!, new Observer()))));
    const message = expect.stringMatching(
      /^Ranks 0, 1, 2 came to the rendezvous but did not connect .* 1500 ms/,
    ) as string;
    for (const error of errors) expect(error).toMatchObject({ code: 'ERR_RENDEZVOUS_TIMEOUT', message });
    const { rendezvous, link } = await late;
    await Promise.all([rendezvous.close(), link.close()]);
    await expectNothingLeft();
  },
);

test.each([
  ['garbage', 'is neither tcp://ADDRESS:PORT nor a unix socket'],
  ['tcp://printer.example:80', 'is neither tcp://ADDRESS:PORT nor a unix socket'],
  ['ipc:///etc/passwd', 'is a unix socket, but the rank is on another host'],
])('all ranks hear of a rank that says that it listens at %s, and nobody connects there', async (endpoint, fault) => {
  const connect = jest.spyOn(Link, 'connect');
  const options = await optionsOf(3, { transport: 'tcp' });
  const late = meetOnly(options[2]!, endpoint).catch(() => undefined);
  const errors = await Promise.all([0, 1].map(rank => failureOf(form(options[rank]!, new Observer()))));
  const words = `Rank 2 says that it listens at '${endpoint}', but that ${fault}.`;
  expect(errors[0]).toMatchObject({ code: 'ERR_PROTOCOL', message: `Rank 1 cannot connect: ${words}` });
  expect(errors[1]).toMatchObject({ code: 'ERR_PROTOCOL', message: words, rank: 2 });
  expect(connect.mock.calls.map(([at]) => at)).not.toContain(endpoint);
  await late;
});

test('all ranks hear of a rank whose endpoint would move the cursor', async () => {
  const options = await optionsOf(3, { transport: 'tcp' });
  const late = meetOnly(options[2]!, 'tcp://\x1b[2J').catch(() => undefined);
  const errors = await Promise.all([0, 1].map(rank => failureOf(form(options[rank]!, new Observer()))));
  const message = 'Rank 2 broke the protocol of the rendezvous: A frame holds no valid rendezvous message.';
  for (const error of errors) expect(error).toMatchObject({ code: 'ERR_PROTOCOL', message });
  await late;
});

test('all ranks hear of a neighbour that is lost before the links of all are connected', async () => {
  const options = await optionsOf(3, { transport: 'tcp' });
  const late = meetOnly(options[2]!);
  const forming = [0, 1].map(rank => failureOf(form(options[rank]!, new Observer())));
  const { rendezvous, link } = await late;
  const greeted = new Promise<void>(resolve => link.start({ onMessage: () => resolve(), onLost: () => undefined }));
  await greeted; // by rank 1, which is connected
  await Promise.all([rendezvous.close(), link.close()]);
  for (const error of await Promise.all(forming)) expect(error).toMatchObject({ code: 'ERR_PEER_LOST', rank: 2 });
  await expectNothingLeft();
});
