import { rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { GradringError } from '../errors';
import { addressForPeers, hostId, isLoopback } from '../rendezvous/host-identity';
import { type ElasticJoin, meetMembers } from '../rendezvous/elastic-rendezvous';
import { rendezvous, type RendezvousResult, type Roster } from '../rendezvous/rendezvous';
import { hostOf, isEncrypted, type RunSecurity, securityOf } from '../rendezvous/run-security';
import { isInMemory, makeSocketFolder } from '../rendezvous/socket-folder';
import type { Timeline } from '../timeline/timeline';
import { ELASTIC_RINGS } from '../timeline/trace-event';
import type { Lane } from '../transport/data/lane';
import { curveClient } from '../transport/control/curve';
import { TcpLane } from '../transport/data/tcp-lane';
import { Link } from '../transport/control/link';
import { closed, opened } from '../transport/control/open-sockets';
import { RingTransport } from '../transport/ring-transport';
import { SharedMemoryLane } from '../transport/data/shared-memory-lane';
import type { Side } from '../transport/side';
import { SoloTransport, type Transport } from '../transport/transport';
import type { ConnectOptions } from '../rendezvous/connect-options';

/** A ring as it stands. */
export interface FormedRing {
  readonly transport: Transport;
  readonly generation: number;
}

/**
 * Finds the other ranks and connects the two neighbours. Runs on the comm thread.
 *
 * @param onFailure Called when the standing ring fails, also between collectives.
 * @param elastic How to come to the rendezvous of an elastic run, whose ring may have fewer ranks than were launched;
 *   and how long the others are waited for there, in ms.
 */
export async function formRing(
  options: ConnectOptions,
  timeline: Timeline | undefined,
  onFailure: (error: GradringError) => void,
  elastic?: ElasticJoin & { readonly patienceMs: number },
): Promise<FormedRing> {
  const { masterAddr, masterPort, runId, encryption, algorithm } = options;
  const timeoutMs = elastic?.patienceMs ?? options.connectTimeoutMs;
  if (options.worldSize === 1 && elastic === undefined) {
    timeline?.ring('alone');
    return { transport: new SoloTransport(timeline), generation: 0 };
  }
  let security: RunSecurity | undefined;
  let left: Link | undefined;
  let right: Link | undefined;
  let isLocal = false;
  let hasCore = false;
  let socketFolder: SocketFolder | undefined;
  const lanes: Record<Side, Lane | undefined> = { left: undefined, right: undefined };
  let transport: RingTransport | undefined;
  let isOver = false;
  const streamAt = async (address: string, encrypts: boolean): Promise<TcpLane | undefined> => {
    const stream = await TcpLane.listen(address, encrypts);
    if (!isOver) return stream;
    stream?.close();
    throw new GradringError('ERR_CLOSED', 'The ring was given up while it formed.');
  };
  const listen = async ({ hostIds, publicKeys, members }: Roster): Promise<string> => {
    const rank = members.indexOf(options.rank);
    const leftRank = (rank + members.length - 1) % members.length;
    const ranksHere = hostIds.filter(host => host === hostIds[rank]).length;
    isLocal = ranksHere === hostIds.length;
    hasCore = ranksHere <= availableParallelism();
    const isSameHost = hostIds[leftRank] === hostIds[rank];
    let endpoint: string;
    if (options.transport === 'ipc' || (options.transport === 'auto' && isSameHost)) {
      socketFolder = new SocketFolder();
      endpoint = `ipc://${socketFolder.path}/left`;
      lanes.left = SharedMemoryLane.create(queuesPath(endpoint), hasCore);
    } else {
      // Who reached a master on loopback reaches others there too, in whatever container it runs.
      const isLocal = isSameHost || isLoopback(masterAddr);
      const address = isLocal ? '127.0.0.1' : await addressForPeers(masterAddr, masterPort);
      endpoint = `tcp://${address.includes(':') ? `[${address}]` : address}:*`;
    }
    // Where encryption is due there is a run token, as resolveConnectOptions sees to, and so all have keys.
    const curve = isEncrypted(endpoint, encryption)
      ? security!.gate.serve(security!.link, publicKeys[leftRank]!)
      : undefined;
    const listening = Link.listen(endpoint, options, curve);
    left = listening.link;
    return listening.endpoint;
  };
  /** The address at which whoever listens at that endpoint reaches this rank. */
  const addressBeside = (endpoint: string): Promise<string> | string =>
    isLoopback(hostOf(endpoint)) ? '127.0.0.1' : addressForPeers(masterAddr, masterPort);
  const stand = async (
    { members, generation }: Pick<Roster, 'members' | 'generation'>,
    { ringId, endpoints, publicKeys }: RendezvousResult,
  ): Promise<FormedRing> => {
    const worldSize = members.length;
    timeline?.ring(elastic === undefined ? ringId.toString(16) : `${ELASTIC_RINGS}${runId}`);
    if (worldSize === 1) return { transport: new SoloTransport(timeline), generation };
    const rank = members.indexOf(options.rank);
    const rightRank = (rank + 1) % worldSize;
    const rightEndpoint = endpoints[rightRank]!;
    const curve = isEncrypted(rightEndpoint, encryption)
      ? curveClient(security!.link, publicKeys[rightRank]!)
      : undefined;
    if (rightEndpoint.startsWith('ipc:')) lanes.right = SharedMemoryLane.open(queuesPath(rightEndpoint), hasCore);
    else lanes.right = await streamAt(await addressBeside(rightEndpoint), curve !== undefined);
    right = Link.connect(rightEndpoint, options, curve);
    const place = { ringId, generation, rank, worldSize, addresses: endpoints, isLocal, hasCore };
    transport = new RingTransport(place, { left: left!, right }, lanes, onFailure, timeline);
    await within(timeoutMs, transport.open(), rank);
    transport.settleBulk(await transport.openLanes());
    return { transport, generation };
  };
  try {
    security = securityOf(options);
    const { rank, worldSize } = options;
    const own = {
      ...{ rank, worldSize, masterAddr, masterPort, runId, hostId: hostId() },
      ...{ encryption, algorithm, security, timeoutMs },
    };
    if (elastic !== undefined) return await meetMembers({ ...own, ...elastic }, listen, stand);
    const result = await rendezvous(own, listen);
    return await stand({ members: result.endpoints.map((_, each) => each), generation: 0 }, result);
  } catch (error) {
    isOver = true;
    if (transport?.failed) await transport.close(); // the neighbours are to hear why
    await Promise.all([left?.close(), right?.close()]);
    for (const lane of Object.values(lanes)) lane?.close();
    throw error;
  } finally {
    security?.gate.close(); // all who may come in are there
    // The neighbour is connected: nobody needs the socket's file any more, and nothing is left behind by a kill.
    socketFolder?.close();
  }
}

/** For a unix socket, and a link to {@link SharedMemoryLane} beside it; gone when it is closed, or the process ends. */
class SocketFolder {
  /** Within the launcher's, if there is one, which removes what a killed rank leaves. */
  readonly path = makeSocketFolder(process.env['GRADRING_SOCKET_FOLDER'] || undefined);

  constructor() {
    opened(this);
  }

  close(): void {
    closed(this);
    rmSync(this.path, { recursive: true, force: true });
  }
}

/** The file of {@link SharedMemoryLane} beside a socket; undefined on a disk, which is no place for it. */
function queuesPath(endpoint: string): string | undefined {
  const directory = dirname(endpoint.slice('ipc://'.length));
  return isInMemory(directory) ? join(directory, 'queues') : undefined;
}

async function within(timeoutMs: number, opened: Promise<void>, rank: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const words = `The neighbours of rank ${rank} came to the rendezvous but did not connect within ${timeoutMs} ms: is a firewall between the hosts?`;
    timer = setTimeout(() => reject(new GradringError('ERR_RENDEZVOUS_TIMEOUT', words)), timeoutMs);
  });
  try {
    await Promise.race([opened, late]);
  } finally {
    clearTimeout(timer);
  }
}
