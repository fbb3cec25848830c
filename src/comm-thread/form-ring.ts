import { rmSync } from 'node:fs';
import { isIPv6 } from 'node:net';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { msOf } from '../environment/link-delay';
import { bitsPerSecondOf } from '../environment/link-rate';
import { isLoopback, type PortRange, portRangeOf, requireLoopback } from '../environment/network';
import { agreedValues } from '../environment/rank-options';
import { GradringError } from '../errors';
import type { Observer } from '../observer';
import { FILES_OF_A_LINK, FILES_OF_A_RANK, untilFilesCanBeOpened } from '../open-files';
import type { ConnectOptions } from '../rendezvous/connect-options';
import { EVERYWHERE, hostId, type ListeningPlace, placeForPeers } from '../rendezvous/host-identity';
import { endpointFault } from '../rendezvous/neighbour-endpoint';
import { listenInRange } from '../rendezvous/port-range';
import { Rendezvous, type Roster, type Start } from '../rendezvous/rendezvous';
import { type ElasticJoin, endpointOf } from '../rendezvous/rendezvous-options';
import { hostOf, isEncrypted, type RunSecurity, securityOf } from '../rendezvous/run-security';
import { isInMemory, makeSocketFolder } from '../rendezvous/socket-folder';
import { ELASTIC_RINGS } from '../timeline/trace-event';
import { curveClient } from '../transport/control/curve';
import { Link, portOf } from '../transport/control/link';
import { register, unregister } from '../transport/control/open-sockets';
import type { Lane } from '../transport/data/lane';
import { SharedMemoryLane } from '../transport/data/shared-memory-lane';
import { TcpLane } from '../transport/data/tcp-lane';
import { deferred } from '../transport/deferred';
import { LinkDelay } from '../transport/delay/link-delay';
import { Pacer } from '../transport/pacing';
import { RingTransport } from '../transport/ring-transport';
import { hostRunsOf, type Side } from '../transport/ring-place';
import { SoloTransport, type Transport } from '../transport/transport';
import { say } from './say';

/** A ring that has formed. */
export interface FormedRing {
  readonly transport: Transport;
  readonly generation: number;
  /** Settles when the ring fails, also between collectives. */
  readonly failed: Promise<GradringError>;
}

/** How a member of an elastic run joins a ring, which may have fewer ranks than were launched. */
export interface ElasticArrival extends ElasticJoin {
  /** How long to wait for the other members, in ms. */
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
  observer: Observer,
  elastic?: ElasticArrival,
): Promise<FormedRing> {
  if (options.worldSize === 1 && elastic === undefined) {
    return alone(observer, 0, 'alone');
  }
  const ring = new Parts();
  const scaffold = new Parts();
  // The rendezvous has a connection to each rank. The launcher holds that of an elastic run.
  const connections = options.rank === 0 && elastic === undefined ? options.worldSize : 0;
  await untilFilesCanBeOpened(FILES_OF_A_RANK + connections, `Rank ${options.rank}`, elastic?.patienceMs);
  try {
    const security = securityOf(options);
    scaffold.keep(security?.gate);
    const timeoutMs = elastic?.patienceMs ?? options.connectTimeoutMs;
    const rendezvous = scaffold.keep(
      await Rendezvous.meet({
        ...options,
        agreed: agreedValues(options),
        hostId: hostId(),
        security,
        elastic,
        timeoutMs,
        observer,
        say,
      }),
    );
    const site = siteOf(rendezvous.roster, options, security, { timeoutMs, ring, scaffold });
    if (site.worldSize === 1) {
      await rendezvous.connected(Promise.resolve(true));
      return alone(observer, site.roster.generation, timelineName(options));
    }
    const left = await listen(site).catch(error => rendezvous.refuse('listen', error));
    const start = await rendezvous.listen(left.endpoint);
    const right = await connect(site, start).catch(error => rendezvous.refuse('connect', error));
    tellFormed(observer, site, timelineName(options, start));
    return await open(site, start, left, right, rendezvous, observer);
  } catch (error) {
    await ring.close();
    throw error;
  } finally {
    await scaffold.close();
  }
}

/** What the steps after the meeting need to know. */
type Site = ReturnType<typeof siteOf>;

/** This rank's end of a link, and of the lane beside it. */
interface LinkEnd {
  readonly link: Link;
  readonly lane: Lane | undefined;
}

/**
 * @param timeoutMs How long the ranks wait for each other, at least.
 * @param ring Closed if no ring comes of it.
 * @param scaffold What is needed only while the ring forms. Closed in any case.
 */
function siteOf(
  roster: Roster,
  options: ConnectOptions,
  security: RunSecurity | undefined,
  own: { readonly timeoutMs: number; readonly ring: Parts; readonly scaffold: Parts },
) {
  const { members, hostIds } = roster;
  const ports = options.portRange === undefined ? undefined : portRangeOf(options.portRange);
  const worldSize = members.length;
  const rank = members.indexOf(options.rank);
  const leftRank = (rank + worldSize - 1) % worldSize;
  const rightRank = (rank + 1) % worldSize;
  const isHere = { left: hostIds[leftRank] === hostIds[rank], right: hostIds[rightRank] === hostIds[rank] };
  const ranksHere = hostIds.filter(host => host === hostIds[rank]).length;
  const hasCore = ranksHere <= availableParallelism();
  const delay = own.ring.keep(worldSize === 1 ? undefined : delayOf(options));
  return {
    ...{ ...own, roster, options, security, ports, rank, worldSize, leftRank, rightRank },
    hostRuns: hostRunsOf(hostIds),
    ...{ isHere, isLocal: ranksHere === worldSize && delay === undefined, ranksHere, hasCore, delay },
  };
}

/** Binds the end of the left link: a unix socket, or a TCP port. */
async function listen(site: Site): Promise<LinkEnd & { readonly endpoint: string }> {
  await untilFilesCanBeOpened(FILES_OF_A_LINK, `Rank ${site.options.rank}`, site.timeoutMs);
  const { options, security, roster, leftRank, isHere, ring, scaffold } = site;
  const { transport, masterAddr, encryption } = options;
  if (transport === 'ipc' || (transport === 'auto' && isHere.left && site.delay === undefined)) {
    const asked = `ipc://${scaffold.keep(new SocketFolder()).path}/left`;
    const lane = ring.keep(await openLane('left', asked, site));
    const { link, endpoint } = Link.listen(asked, options);
    return { link: ring.keep(link), lane, endpoint };
  }
  // A rank that reached a master on loopback reaches others there too, in whatever container it runs.
  const { bind, told } = await ownPlace(isHere.left || isLoopback(masterAddr), options);
  // An encrypted link has a run token (resolveConnectOptions requires it), so all ranks have keys.
  const curve = isEncrypted(endpointOf(told, 0), encryption)
    ? security!.gate.serve(security!.link, roster.publicKeys[leftRank]!)
    : undefined;
  const { link, endpoint } = await listenInRange(ownPorts(site), port =>
    Link.listen(endpointOf(bind, port), options, curve),
  );
  ring.keep(link);
  return { link, lane: undefined, endpoint: endpointOf(told, await published(portOf(endpoint), bind, site)) };
}

/** Connects the end of the right link. */
async function connect(site: Site, { endpoints }: Start): Promise<LinkEnd> {
  await untilFilesCanBeOpened(FILES_OF_A_LINK, `Rank ${site.options.rank}`, site.timeoutMs);
  const { options, security, roster, rightRank, ring } = site;
  const endpoint = endpoints[rightRank]!;
  await checkEndpoint(endpoint, site);
  const lane = ring.keep(await openLane('right', endpoint, site));
  const curve = isEncrypted(endpoint, options.encryption)
    ? curveClient(security!.link, roster.publicKeys[rightRank]!)
    : undefined;
  return { link: ring.keep(Link.connect(endpoint, options, curve)), lane };
}

/** @throws GradringError `ERR_PROTOCOL` if the right neighbour cannot listen there. */
async function checkEndpoint(endpoint: string, { options, rightRank, isHere }: Site): Promise<void> {
  const { transport, masterAddr } = options;
  const isNear = isHere.right || isLoopback(masterAddr);
  // A host without any other address has the master's name for loopback.
  const byLoopback = isNear || (isLoopback(hostOf(endpoint)) && isLoopback((await ownPlace(false, options)).told));
  const fault = endpointFault(endpoint, { bySocket: isHere.right || transport === 'ipc', byLoopback });
  if (fault === undefined) return;
  const words = `Rank ${rightRank} says that it listens at '${endpoint}', but that ${fault}.`;
  throw new GradringError('ERR_PROTOCOL', words, { rank: rightRank });
}

/** Greets both neighbours, and settles when the links of all ranks are connected. */
async function open(
  site: Site,
  { ringId, endpoints: addresses }: Start,
  left: LinkEnd,
  right: LinkEnd,
  rendezvous: Rendezvous,
  observer: Observer,
): Promise<FormedRing> {
  const { rank, worldSize, isLocal, hostRuns, isHere, ranksHere, hasCore, timeoutMs } = site;
  const { linkRate } = site.options;
  const { generation } = site.roster;
  const id = BigInt(`0x${ringId}`);
  const place = { ringId: id, generation, rank, worldSize, addresses, isLocal, hostRuns, isHere, ranksHere, hasCore };
  const links = { left: left.link, right: right.link };
  const lanes = { left: left.lane, right: right.lane };
  const failed = deferred<GradringError>();
  const pacer = linkRate === undefined ? undefined : new Pacer(bitsPerSecondOf(linkRate)!);
  const transport = new RingTransport(place, links, lanes, failed.resolve, observer, { pacer, delay: site.delay });
  try {
    const formed = rendezvous.connected(transport.open().then(() => transport.openLanes(timeoutMs / 2)));
    const allHaveLanes = await Promise.race([formed, failed.promise.then(error => Promise.reject(error))]);
    transport.settleBulk(allHaveLanes);
    left.link.admitNoMore();
    return { transport, generation, failed: failed.promise };
  } catch (error) {
    if (transport.failed)
      await transport.close(); // which tells the neighbours why
    else await transport.drop();
    throw error;
  }
}

/**
 * Opens this rank's end of the lane for bulk beside a link; `undefined` if that is impossible. Within a host, the rank
 * that listens for its left neighbour makes shared memory, and that neighbour opens it. Between hosts, each rank
 * listens for its right neighbour, which receives the most. The transport opens the lane to the left when that
 * neighbour greets.
 *
 * @param side Which of this rank's links it is.
 * @param endpoint The endpoint of the link.
 */
async function openLane(side: Side, endpoint: string, site: Site): Promise<Lane | undefined> {
  const { options, hasCore, ports } = site;
  if (!endpoint.startsWith('ipc:')) {
    const { bind, told } = await ownPlace(isLoopback(hostOf(endpoint)), options);
    const host = bind === EVERYWHERE ? undefined : bind;
    const publish = (port: number) => published(port, bind, site);
    const listening = listenInRange(ownPorts(site), port =>
      TcpLane.listen({ host, port, told, publish }, isEncrypted(endpoint, options.encryption)),
    );
    return ports === undefined ? listening.catch(() => undefined) : listening;
  }
  const directory = dirname(endpoint.slice('ipc://'.length));
  if (!isInMemory(directory)) return undefined; // on a disk, shared memory would be slow
  const path = join(directory, 'queues');
  return side === 'left' ? SharedMemoryLane.create(path, hasCore) : SharedMemoryLane.open(path, hasCore);
}

/** What makes the links slow to answer, if the options say so. */
function delayOf({ linkDelay, linkJitter }: ConnectOptions): LinkDelay | undefined {
  if (linkDelay === undefined) return undefined;
  const jitterMs = linkJitter === undefined ? 0 : msOf(linkJitter)!;
  return new LinkDelay({ delayMs: msOf(linkDelay)!, jitterMs });
}

/** The ports at which this rank may listen. Those of delayed links are only reached from this host. */
function ownPorts({ delay, ports }: Site): PortRange | undefined {
  return delay === undefined ? ports : undefined;
}

/** The port that a neighbour is told instead of one at which this rank listens: another one if links are delayed. */
async function published(port: number, bind: string, { delay, ports }: Site): Promise<number> {
  if (delay === undefined) return port;
  const host = bind === EVERYWHERE ? undefined : bind;
  return listenInRange(ports, from => delay.forward({ host, from, to: port }));
}

/** Where this rank listens for a neighbour by TCP. */
async function ownPlace(isNear: boolean, options: ConnectOptions): Promise<ListeningPlace> {
  if (!isNear) return placeForPeers(options);
  requireLoopback();
  const loopback = isIPv6(options.masterAddr) ? '::1' : '127.0.0.1';
  return { bind: loopback, told: loopback };
}

/** All rings of an elastic run are one in its timelines. */
function timelineName({ elastic, runId }: ConnectOptions, start?: Start): string {
  return elastic === undefined ? start!.ringId : `${ELASTIC_RINGS}${runId}`;
}

function alone(observer: Observer, generation: number, name: string): FormedRing {
  const transport = new SoloTransport(observer);
  tellFormed(observer, transport, name);
  const failed = new Promise<GradringError>(() => undefined); // never
  return { transport, generation, failed };
}

function tellFormed(observer: Observer, { worldSize }: { readonly worldSize: number }, name: string): void {
  observer.gauge('worldSize', worldSize);
  observer.formed(name, hostId());
}

/** Things that are closed together. */
class Parts {
  private readonly all: { close(): void | Promise<void> }[] = [];

  keep<Part extends { close(): void | Promise<void> } | undefined>(part: Part): Part {
    if (part !== undefined) this.all.push(part);
    return part;
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.all.map(async part => part.close()));
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
    register(this);
  }

  close(): void {
    unregister(this);
    rmSync(this.path, { recursive: true, force: true });
  }
}
