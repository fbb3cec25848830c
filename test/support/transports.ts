import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as zeromq from 'zeromq';
import type { GradringError } from '../../src/errors';
import { curveClient } from '../../src/transport/control/curve';
import { Gate } from '../../src/transport/control/gate';
import { Link } from '../../src/transport/control/link';
import type { Lane } from '../../src/transport/data/lane';
import { SharedMemoryLane } from '../../src/transport/data/shared-memory-lane';
import { type LanePlace, TcpLane } from '../../src/transport/data/tcp-lane';
import { hostRunsOf, type Side } from '../../src/transport/ring-place';
import { RingTransport } from '../../src/transport/ring-transport';
import { FrameKind, Operation, Purpose } from '../../src/wire/frame';
import { openFiles } from './listening-ports';
import { until } from './rings';

export type LaneKind = 'shared memory' | 'TCP' | 'encrypted TCP';
export const LANE_KINDS = ['shared memory', 'TCP', 'encrypted TCP'] as const;

/** Where lanes of tests listen: at a free port. */
export const HERE: LanePlace = { host: '127.0.0.1', port: 0, told: '127.0.0.1' };

/** The lanes of a rank, as far as this end can open them by itself. The transport adds those that it connects. */
export type Lanes = Record<Side, Lane | undefined>;

/** What stands before a port: returns the port of a proxy, or the same. */
type Via = (port: number) => Promise<number>;

const directly: Via = async port => port;

/**
 * A ring of transports over TCP, as the comm threads make it; with the ports at which each awaits its left neighbour.
 * Nothing is opened yet.
 *
 * @param via What stands before the ports of the links.
 * @param lanes Which lanes there are beside the links; or those of each rank.
 * @param laneVia What stands before the ports of TCP lanes.
 * @param isLocal Whether the ranks are treated as ranks of one host.
 * @param hosts By rank, for what the ranks of a host do together.
 * @param without An end of a lane that could not be opened.
 */
export async function transports(
  worldSize: number,
  {
    lanes: kind,
    encrypted = kind === 'encrypted TCP',
    via = directly,
    laneVia = directly,
    hasCore = false,
    isLocal = true,
    hosts = [],
    without,
  }: {
    readonly lanes?: LaneKind | readonly Lanes[] | undefined;
    readonly encrypted?: boolean;
    readonly via?: Via;
    readonly laneVia?: Via;
    readonly hasCore?: boolean;
    readonly isLocal?: boolean;
    readonly hosts?: readonly string[];
    readonly without?: { readonly rank: number; readonly side: Side };
  } = {},
) {
  const options = { heartbeatTimeoutMs: 10_000 };
  const keys = Array.from({ length: worldSize }, () => zeromq.curveKeyPair());
  const gates = encrypted ? keys.map(() => Gate.open()) : [];
  const bound = keys.map((own, rank) => {
    const leftKey = keys[(rank + worldSize - 1) % worldSize]!.publicKey;
    return Link.listen('tcp://127.0.0.1:*', options, gates[rank]?.serve(own, leftKey));
  });
  const ports = bound.map(({ endpoint }) => Number(endpoint.split(':').at(-1)));
  const addresses = await Promise.all(
    bound.map(async ({ endpoint }, rank) => endpoint.replace(/\d+$/, String(await via(ports[rank]!)))),
  );
  const lanes = typeof kind === 'object' ? kind : await lanesOf(worldSize, kind, hasCore, laneVia, without);
  const failures: GradringError[] = [];
  const links = bound.map(({ link: left }, rank) => {
    const rightRank = (rank + 1) % worldSize;
    const curve = encrypted ? curveClient(keys[rank]!, keys[rightRank]!.publicKey) : undefined;
    return { left, right: Link.connect(addresses[rightRank]!, options, curve) };
  });
  const ring = links.map((ends, rank) => {
    const place = {
      ringId: 5n,
      generation: 0,
      rank,
      worldSize,
      addresses,
      isLocal,
      hostRuns: hostRunsOf(hosts),
      isHere: { left: isLocal, right: isLocal },
      ranksHere: worldSize,
      hasCore,
    };
    return new RingTransport(place, ends, lanes[rank]!, error => failures.push(error));
  });
  const close = async () => {
    await Promise.all(ring.map(transport => transport.close()));
    gates.forEach(gate => gate.close());
  };
  return { ring, links, lanes, failures, ports, keys, gates, close };
}

/** The same, open: bulk goes by the lanes if all of them could be opened. */
export async function openTransports(worldSize: number, options: Parameters<typeof transports>[1] = {}) {
  const made = await transports(worldSize, options);
  await Promise.all(made.ring.map(transport => transport.open()));
  const areOpen = await Promise.all(made.ring.map(transport => transport.openLanes(Infinity)));
  for (const transport of made.ring) transport.settleBulk(areOpen.every(Boolean));
  return made;
}

async function lanesOf(
  worldSize: number,
  kind: LaneKind | undefined,
  hasCore: boolean,
  via: Via,
  without?: { readonly rank: number; readonly side: Side },
): Promise<Lanes[]> {
  const isMissing = (rank: number, side: Side) => without?.rank === rank && without.side === side;
  const ranks = Array.from({ length: worldSize }, (_, rank) => rank);
  if (kind === undefined) return ranks.map(() => ({ left: undefined, right: undefined }));
  if (kind !== 'shared memory') {
    return Promise.all(
      ranks.map(async rank => {
        // A rank that cannot connect has nobody come to the one that listens.
        const listens = !isMissing(rank, 'right') && !isMissing((rank + 1) % worldSize, 'left');
        if (!listens) return { left: undefined, right: undefined };
        const right = await TcpLane.listen(HERE, kind === 'encrypted TCP');
        const offer = { ...right.offer!, port: await via(right.offer!.port) };
        Object.defineProperty(right, 'offer', { value: offer });
        return { left: undefined, right };
      }),
    );
  }
  const folder = mkdtempSync(path.join(tmpdir(), 'gradring-lanes-'));
  const fileOf = (rank: number) => path.join(folder, `lane-${rank}`);
  const left = ranks.map(rank =>
    isMissing(rank, 'left') ? undefined : SharedMemoryLane.create(fileOf(rank), hasCore),
  );
  const lanes = ranks.map(rank => {
    const file = fileOf((rank + 1) % worldSize);
    return { left: left[rank], right: isMissing(rank, 'right') ? undefined : SharedMemoryLane.open(file, hasCore) };
  });
  rmSync(folder, { recursive: true });
  return lanes;
}

export const FRAME = {
  ...({ kind: FrameKind.Data, operation: Operation.AllReduce, elementType: 'none', reduction: 'none' } as const),
  ...{ purpose: Purpose.Call, elementCount: 0, parameter: 0, part: 0, checksum: 0 },
};

/** Tells when links have dealt with strangers. To be made before the links are. */
export class StrangerWatch {
  /** How often each bound link has looked whether its peer is there. */
  private readonly looks = new Map<zeromq.Pair, number>();
  private readonly undo: () => void;

  constructor() {
    const { looks } = this;
    const writableOf = Object.getOwnPropertyDescriptor(zeromq.Socket.prototype, 'writable')!.get!;
    class WatchedPair extends zeromq.Pair {}
    Object.defineProperty(WatchedPair.prototype, 'writable', {
      get(this: WatchedPair) {
        looks.set(this, (looks.get(this) ?? 0) + 1);
        return writableOf.call(this) as boolean;
      },
    });
    const pairs = jest.spyOn(zeromq, 'Pair').mockImplementation(options => new WatchedPair(options));
    this.undo = () => pairs.mockRestore();
  }

  /**
   * Waits until this process has no more files open than before the strangers came, and every link has looked for its
   * peer since. Returns also if a link took a stranger for its peer: then the ring has failed.
   */
  async untilLeft(ring: readonly RingTransport[], filesBefore: number): Promise<void> {
    const hasFailed = () => ring.some(({ failed }) => failed);
    await until(() => openFiles() <= filesBefore || hasFailed());
    this.looks.clear();
    const seen = () => [...this.looks.values()].filter(count => count > 1).length;
    await until(() => seen() === ring.length || hasFailed());
    this.undo();
  }
}

/** Sends frames round by one of the paths, and expects each where it belongs. */
export async function expectToWork(
  ring: readonly RingTransport[],
  { path: name = 'links' as 'links' | 'bulk', frames = 20, body = Buffer.from('body') } = {},
): Promise<void> {
  for (let sequence = 0; sequence < frames; sequence++) {
    const sent = ring.map(rank => rank[name].send('right', { ...FRAME, sequence, origin: rank.rank }, body));
    for (const each of sent) each.catch(() => undefined); // it is awaited below, if all is received
    for (const transport of ring) {
      const frame = await transport[name].receive('left', sequence);
      expect(frame.header).toMatchObject({ sequence, origin: (transport.rank + ring.length - 1) % ring.length });
      expect(Buffer.compare(Buffer.from(frame.body), body)).toBe(0);
    }
    await Promise.all(sent);
  }
}
