import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { Transform } from 'node:stream';
import { CollectiveCall, SCRATCH_BYTES } from '../../src/collectives/collective-call';
import { lowRank, qsgd } from '../../src/compression/compressors/custom-compression';
import { type Compression, dgc } from '../../src/compression/dgc-options';
import { ExchangeHandle } from '../../src/exchange/exchange-handle';
import { GradientExchange, settingsOf } from '../../src/exchange/gradient-exchange';
import { type LinkCost, measureLinks } from '../../src/exchange/link-cost';
import { type CallFingerprint, Operation, Purpose } from '../../src/wire/frame';
import { runnerOf } from '../support/runners';
import { openTransports } from '../support/transports';

const FINGERPRINT: CallFingerprint = {
  ...{ operation: Operation.Exchange, purpose: Purpose.Call, elementType: 'float32', reduction: 'mean' },
  ...{ elementCount: 1, parameter: 0 },
};

/** How long a slow link takes at least for a byte. */
const SLOW_BYTE_NS = 400;

/** What the ranks send each other to measure a link, at least. */
const PROBE_BYTES = 64 * 1024;

/**
 * A busy machine makes hops longer, so some of the time of a probe may be counted as that of a hop; and a little of it
 * not at all, as the least of several hops may be shorter than the one of the probe.
 */
function expectSlow({ byteNs, hopNs }: LinkCost): void {
  expect(PROBE_BYTES * byteNs + hopNs).toBeGreaterThanOrEqual(0.9 * PROBE_BYTES * SLOW_BYTE_NS);
}

const servers: Server[] = [];
const sockets: Socket[] = [];

afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const server of servers.splice(0)) server.close();
});

/** A port that leads to another one, by a slow link. */
async function slowly(port: number): Promise<number> {
  const server = createServer(near => {
    const far = connect(port, '127.0.0.1');
    sockets.push(near, far);
    for (const socket of [near, far]) socket.on('error', () => socket.destroy());
    near.pipe(slowStream()).pipe(far);
    far.pipe(slowStream()).pipe(near);
  }).listen(0, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
  return (server.address() as { port: number }).port;
}

function slowStream(): Transform {
  return new Transform({
    transform(bytes: Buffer, _encoding, done) {
      setTimeout(() => done(null, bytes), Math.ceil((bytes.length * SLOW_BYTE_NS) / 1e6));
    },
  });
}

async function measure(options: Parameters<typeof openTransports>[1]) {
  const { ring, close } = await openTransports(3, options);
  const costs = await Promise.all(
    ring.map(transport => {
      const { memory, data: scratch, kernels } = runnerOf(transport);
      return measureLinks(new CollectiveCall({ transport, kernels, memory, scratch }, 0, FINGERPRINT, transport.links));
    }),
  );
  await close();
  return costs;
}

test('all ranks get the same powers of two', async () => {
  const costs = await measure({});
  for (const cost of costs) expect(cost).toEqual(costs[0]);
  for (const ns of Object.values(costs[0]!)) expect(Number.isInteger(Math.log2(ns))).toBe(true);
});

/** A step of an exchange on three ranks, one of whose links is slow. */
async function exchangeSlowly(
  isLocal: boolean,
  links?: LinkCost,
  compression: Compression = dgc({ sparsity: 0.5, warmUpEpochs: 0 }),
) {
  let count = 0;
  const via = async (port: number) => (count++ === 1 ? slowly(port) : port);
  const { ring, close } = await openTransports(3, { via, isLocal });
  const step = { density: 0.5, momentumFactor: 0, sumOfSquares: 1, links };
  const results = await Promise.all(
    ring.map(transport => {
      const line = { start: jest.fn(), conclude: jest.fn(), close: jest.fn() };
      const variables = [{ name: 'matrix', shape: [400, 500] }];
      const { plan } = new ExchangeHandle({ variables, compression, nesterov: false }, line);
      const exchange = new GradientExchange(transport, plan);
      const { memory, data: scratch, kernels } = runnerOf(transport, SCRATCH_BYTES);
      const context = { transport, kernels, memory, scratch };
      const call = new CollectiveCall(context, 0, exchange.fingerprint(settingsOf(step)), transport.links);
      return exchange.run(call, step);
    }),
  );
  await close();
  return results;
}

test('the first step between hosts measures the links, and takes the route that is cheaper on them', async () => {
  const results = await exchangeSlowly(false);
  for (const { route, links } of results) {
    expect(route).toBe('sparse');
    expect(links).toEqual(results[0]!.links);
    expectSlow(links!);
  }
});

test('later steps choose by what was measured, and links within a host are not measured', async () => {
  const fast = { byteNs: 1, hopNs: 131_072 };
  for (const { route, links } of await exchangeSlowly(false, fast)) expect([route, links]).toEqual(['dense', fast]);
  for (const { route, links } of await exchangeSlowly(true)) expect([route, links]).toEqual(['dense', undefined]);
});

test('a compressor that tells how long its messages are has the links measured, and others need none', async () => {
  for (const { route, links } of await exchangeSlowly(false, undefined, lowRank())) {
    expect(route).toBe('coded');
    expectSlow(links!);
  }
  for (const { links } of await exchangeSlowly(true, undefined, lowRank())) expect(links).toBeUndefined();
  for (const { links } of await exchangeSlowly(false, undefined, qsgd())) expect(links).toBeUndefined();
});

test('a slow link is measured, and the slowest counts on all ranks', async () => {
  let count = 0;
  const costs = await measure({ via: async port => (count++ === 1 ? slowly(port) : port) });
  for (const links of costs) expectSlow(links);
  expect(costs[2]).toEqual(costs[0]);
});
