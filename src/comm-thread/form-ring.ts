import { rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import type { GradringError } from '../errors';
import type { ConnectOptions } from '../rendezvous/connect-options';
import { addressForPeers, hostId, isLoopback } from '../rendezvous/host-identity';
import { Rendezvous, type Roster, type Start } from '../rendezvous/rendezvous';
import type { ElasticJoin } from '../rendezvous/rendezvous-options';
import { hostOf, isEncrypted, type RunSecurity, securityOf } from '../rendezvous/run-security';
import { isInMemory, makeSocketFolder } from '../rendezvous/socket-folder';
import type { Timeline } from '../timeline/timeline';
import { ELASTIC_RINGS } from '../timeline/trace-event';
import { curveClient } from '../transport/control/curve';
import { Link } from '../transport/control/link';
import { closed, opened } from '../transport/control/open-sockets';
import type { Lane } from '../transport/data/lane';
import { SharedMemoryLane } from '../transport/data/shared-memory-lane';
import { TcpLane } from '../transport/data/tcp-lane';
import { deferred } from '../transport/deferred';
import { RingTransport } from '../transport/ring-transport';
import type { Side } from '../transport/side';
import { SoloTransport, type Transport } from '../transport/transport';

/** A ring as it stands. */
export interface FormedRing {
  readonly transport: Transport;
  readonly generation: number;
  /** Settles when the ring fails, also between collectives. */
  readonly failed: Promise<GradringError>;
}

/** How a member of an elastic run comes to a ring, which may have fewer ranks than were launched. */
export interface ElasticArrival extends ElasticJoin {
  /** How long the others are waited for, in ms. */
  readonly patienceMs: number;
}

/**
 * Finds the other ranks and connects the two neighbours, in four steps: meet, listen, connect, open. Runs on the comm
 * thread. If it fails, nothing stays open.
 *
 * @param elastic Undefined in a static run.
 */
export async function formRing(
  options: ConnectOptions,
  timeline: Timeline | undefined,
  elastic?: ElasticArrival,
): Promise<FormedRing> {
  if (options.worldSize === 1 && elastic === undefined) {
    timeline?.ring('alone');
    return alone(timeline, 0);
  }
  const security = securityOf(options);
  try {
    const rendezvous = await meet(options, security, elastic);
    try {
      return await joinNeighbours(rendezvous, siteOf(rendezvous.roster, options, security, timeline));
    } finally {
      await rendezvous.close();
    }
  } finally {
    security?.gate.close(); // both neighbours are let in by now
  }
}

/** What the steps know when it is known which ranks are in the ring. */
interface Site {
  readonly options: ConnectOptions;
  readonly security: RunSecurity | undefined;
  readonly timeline: Timeline | undefined;
  readonly roster: Roster;
  readonly rank: number;
  readonly leftRank: number;
  readonly rightRank: number;
  readonly isLeftHere: boolean;
  /** Whether all ranks are on this host. */
  readonly isLocal: boolean;
  /** Whether there is a core for each rank of this host. */
  readonly hasCore: boolean;
  /** What is closed if no ring comes of it. */
  readonly parts: Parts;
  /** What is closed in any case. */
  readonly scaffold: Parts;
}

/** This rank's end of a link, and of the lane beside it. */
interface LinkEnd {
  readonly link: Link;
  readonly lane: Lane | undefined;
}

function meet(
  options: ConnectOptions,
  security: RunSecurity | undefined,
  elastic: ElasticArrival | undefined,
): Promise<Rendezvous> {
  const timeoutMs = elastic?.patienceMs ?? options.connectTimeoutMs;
  return Rendezvous.come({ ...options, hostId: hostId(), security, elastic, timeoutMs });
}

async function joinNeighbours(rendezvous: Rendezvous, site: Site): Promise<FormedRing> {
  const { parts, scaffold, roster, timeline } = site;
  if (roster.members.length === 1) {
    nameTimeline(site, 0n);
    await rendezvous.stand(Promise.resolve(true));
    return alone(timeline, roster.generation);
  }
  try {
    const left = await listen(site).catch(error => rendezvous.refuse('listen', error));
    const start = await rendezvous.listen(left.endpoint);
    nameTimeline(site, start.ringId);
    const right = await connect(site, start).catch(error => rendezvous.refuse('connect', error));
    return await open(site, start, left, right, rendezvous);
  } catch (error) {
    await parts.close();
    throw error;
  } finally {
    await scaffold.close();
  }
}

/** Binds the end of the left link. */
async function listen(site: Site): Promise<LinkEnd & { readonly endpoint: string }> {
  const { options, security, roster, leftRank, parts } = site;
  const asked = await endpointToBind(site);
  const lane = parts.keep(await openLane('left', asked, site));
  // Where encryption is due there is a run token, as resolveConnectOptions makes sure, and so all ranks have keys.
  const curve = isEncrypted(asked, options.encryption)
    ? security!.gate.serve(security!.link, roster.publicKeys[leftRank]!)
    : undefined;
  const { link, endpoint } = Link.listen(asked, options, curve);
  return { link: parts.keep(link), lane, endpoint };
}

/** Connects the end of the right link. */
async function connect(site: Site, { endpoints }: Start): Promise<LinkEnd> {
  const { options, security, roster, rightRank, parts } = site;
  const endpoint = endpoints[rightRank]!;
  const lane = parts.keep(await openLane('right', endpoint, site));
  const curve = isEncrypted(endpoint, options.encryption)
    ? curveClient(security!.link, roster.publicKeys[rightRank]!)
    : undefined;
  return { link: parts.keep(Link.connect(endpoint, options, curve)), lane };
}

/** Greets both neighbours, and settles when the links of all ranks stand. */
async function open(
  site: Site,
  { ringId, endpoints: addresses }: Start,
  left: LinkEnd,
  right: LinkEnd,
  rendezvous: Rendezvous,
): Promise<FormedRing> {
  const { rank, isLocal, hasCore, timeline } = site;
  const { generation, members } = site.roster;
  const place = { ringId, generation, rank, worldSize: members.length, addresses, isLocal, hasCore };
  const links = { left: left.link, right: right.link };
  const lanes = { left: left.lane, right: right.lane };
  const failed = deferred<GradringError>();
  const transport = new RingTransport(place, links, lanes, failed.resolve, timeline);
  try {
    const stood = rendezvous.stand(transport.open().then(() => transport.openLanes()));
    const allHaveLanes = await Promise.race([stood, failed.promise.then(error => Promise.reject(error))]);
    transport.settleBulk(allHaveLanes);
    return { transport, generation, failed: failed.promise };
  } catch (error) {
    if (transport.failed)
      await transport.close(); // the neighbours are to hear why
    else await transport.drop();
    throw error;
  }
}

/**
 * Opens this rank's end of the lane for bulk beside a link; `undefined` if that is impossible. Within a host, the rank
 * that listens for its left neighbour makes shared memory, and that neighbour opens it. Between hosts, each rank listens
 * for its right neighbour, which receives the most; the transport opens the lane to the left when that neighbour greets.
 *
 * @param side Which of this rank's links it is.
 * @param endpoint The endpoint of the link.
 */
async function openLane(side: Side, endpoint: string, { options, hasCore }: Site): Promise<Lane | undefined> {
  if (!endpoint.startsWith('ipc:')) {
    if (side === 'left') return undefined;
    const address = await ownAddress(isLoopback(hostOf(endpoint)), options);
    return TcpLane.listen(address, isEncrypted(endpoint, options.encryption));
  }
  const directory = dirname(endpoint.slice('ipc://'.length));
  if (!isInMemory(directory)) return undefined; // a disk is no place for shared memory
  const path = join(directory, 'queues');
  return side === 'left' ? SharedMemoryLane.create(path, hasCore) : SharedMemoryLane.open(path, hasCore);
}

function siteOf(
  roster: Roster,
  options: ConnectOptions,
  security: RunSecurity | undefined,
  timeline: Timeline | undefined,
): Site {
  const { members, hostIds } = roster;
  const worldSize = members.length;
  const rank = members.indexOf(options.rank);
  const leftRank = (rank + worldSize - 1) % worldSize;
  const ranksHere = hostIds.filter(host => host === hostIds[rank]).length;
  return {
    ...{ options, security, timeline, roster, rank, leftRank, rightRank: (rank + 1) % worldSize },
    isLeftHere: hostIds[leftRank] === hostIds[rank],
    isLocal: ranksHere === worldSize,
    hasCore: ranksHere <= availableParallelism(),
    ...{ parts: new Parts(), scaffold: new Parts() },
  };
}

/** Where this rank awaits its left neighbour: at a unix socket, or at a TCP port that the system chooses. */
async function endpointToBind({ options, isLeftHere, scaffold }: Site): Promise<string> {
  const { transport, masterAddr } = options;
  if (transport === 'ipc' || (transport === 'auto' && isLeftHere)) {
    return `ipc://${scaffold.keep(new SocketFolder()).path}/left`;
  }
  // A rank that reached a master on loopback reaches others there too, in whatever container it runs.
  const address = await ownAddress(isLeftHere || isLoopback(masterAddr), options);
  return `tcp://${address.includes(':') ? `[${address}]` : address}:*`;
}

/** The address at which a neighbour reaches this rank. */
async function ownAddress(isNear: boolean, { masterAddr, masterPort }: ConnectOptions): Promise<string> {
  return isNear ? '127.0.0.1' : addressForPeers(masterAddr, masterPort);
}

/** All rings of an elastic run are one in its timelines. */
function nameTimeline({ timeline, options: { elastic, runId } }: Site, ringId: bigint): void {
  timeline?.ring(elastic === undefined ? ringId.toString(16) : `${ELASTIC_RINGS}${runId}`);
}

function alone(timeline: Timeline | undefined, generation: number): FormedRing {
  const never = new Promise<GradringError>(() => undefined);
  return { transport: new SoloTransport(timeline), generation, failed: never };
}

/** Things that are closed together. */
class Parts {
  private readonly all: { close(): void | Promise<void> }[] = [];

  keep<Part extends { close(): void | Promise<void> } | undefined>(part: Part): Part {
    if (part !== undefined) this.all.push(part);
    return part;
  }

  async close(): Promise<void> {
    await Promise.all(this.all.map(part => part.close()));
  }
}

/**
 * For a unix socket, and a link to {@link SharedMemoryLane} beside it. It is removed when the neighbour is connected,
 * so that a kill leaves nothing behind from then on; or when the process ends.
 */
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
