import path from 'node:path';
import { curveKeyPair } from 'zeromq';
import type { GradringError } from '../../src/errors';
import { curveClient } from '../../src/transport/control/curve';
import { DataStream } from '../../src/transport/data/data-stream';
import { Gate } from '../../src/transport/control/gate';
import { Link } from '../../src/transport/control/link';
import { RingTransport } from '../../src/transport/ring-transport';
import { SharedQueues } from '../../src/transport/data/shared-queues';
import { FrameKind, Operation, Purpose } from '../../src/wire/frame';
import { until } from './rings';

/**
 * A ring of transports over TCP, as the comm threads make it; with the ports at which each awaits its left neighbour.
 *
 * @param via The port to connect to instead of one of these, of a proxy.
 * @param lanes A folder in which the queues of neighbours meet, to have them beside the links.
 * @param streams Whether to have streams beside the links.
 */
export async function transports(
  worldSize: number,
  {
    encrypted = false,
    via = async (port: number) => port,
    lanes = undefined as string | undefined,
    streams = false,
    hasCore = false,
  } = {},
) {
  const options = { heartbeatTimeoutMs: 10_000 };
  const keys = Array.from({ length: worldSize }, () => curveKeyPair());
  const gates = encrypted ? keys.map(() => Gate.open()) : [];
  const bound = await Promise.all(
    keys.map((own, rank) => {
      const leftKey = keys[(rank + worldSize - 1) % worldSize]!.publicKey;
      return Link.listen('tcp://127.0.0.1:*', options, gates[rank]?.serve(own, leftKey));
    }),
  );
  const ports = bound.map(({ endpoint }) => Number(endpoint.split(':').at(-1)));
  const addresses = await Promise.all(
    bound.map(async ({ endpoint }, rank) => endpoint.replace(/\d+$/, String(await via(ports[rank]!)))),
  );
  const meetingPlace = (rank: number) => lanes && path.join(lanes, `queues-${rank}`);
  const leftQueues = keys.map((_, rank) => SharedQueues.create(meetingPlace(rank), hasCore));
  const failures: GradringError[] = [];
  const queues = leftQueues.map((left, rank) => ({
    left,
    right: SharedQueues.open(meetingPlace((rank + 1) % worldSize), hasCore),
  }));
  const stream = () => (streams ? DataStream.listen('127.0.0.1', encrypted) : undefined);
  const dataStreams = await Promise.all(keys.map(async () => ({ left: await stream(), right: await stream() })));
  const ring = bound.map(({ link }, rank) => {
    const rightRank = (rank + 1) % worldSize;
    const curve = encrypted ? curveClient(keys[rank]!, keys[rightRank]!.publicKey) : undefined;
    const right = Link.connect(addresses[rightRank]!, options, curve);
    const place = { ringId: 5n, generation: 0, rank, worldSize, addresses, isLocal: true, hasCore, usesTree: false };
    const carriers = streams ? dataStreams[rank]! : queues[rank]!;
    return new RingTransport({ ...place, carriers }, link, right, error => failures.push(error));
  });
  const close = async () => {
    await Promise.all(ring.map(transport => transport.close()));
    gates.forEach(gate => gate.close());
  };
  return { ring, bound, failures, ports, queues, dataStreams, keys, gates, close };
}

export const FRAME = {
  ...({ kind: FrameKind.Data, operation: Operation.AllReduce, elementType: 'none', reduction: 'none' } as const),
  ...{ purpose: Purpose.Call, elementCount: 0, parameter: 0, part: 0, checksum: 0 },
};

/**
 * Waits until the left links have noticed that this many strangers have disconnected, and that none of them was the
 * neighbour. Returns also if a link took one for its neighbour: then the ring has failed.
 */
export async function untilStrangersLeft(ring: readonly RingTransport[], count: number): Promise<void> {
  const links = ring.map(
    transport => (transport as unknown as { left: { disconnections: number; probing: boolean } }).left,
  );
  const noticed = () => links.reduce((sum, { disconnections }) => sum + disconnections, 0);
  const areKnown = () => noticed() >= count && links.every(({ probing }) => !probing);
  await until(() => areKnown() || ring.some(({ failed }) => failed));
}

/** Sends frames round, and expects each where it belongs. */
export async function expectToWork(
  ring: readonly RingTransport[],
  frames = 20,
  body = Buffer.from('body'),
): Promise<void> {
  for (let sequence = 0; sequence < frames; sequence++) {
    const sent = ring.map(transport => transport.send('right', { ...FRAME, sequence, origin: transport.rank }, body));
    for (const each of sent) each.catch(() => undefined); // it is awaited below, if all is received
    for (const transport of ring) {
      const frame = await transport.receive('left');
      expect(frame.header).toMatchObject({ sequence, origin: (transport.rank + ring.length - 1) % ring.length });
      expect(Buffer.compare(Buffer.from(frame.body), body)).toBe(0);
    }
    await Promise.all(sent);
  }
}
