import { createHash } from 'node:crypto';
import { createSocket } from 'node:dgram';
import dns from 'node:dns/promises';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';
import { attempt } from '../attempt';
import { addressForOthers, addressOfInterface, isLoopback, withoutBrackets } from '../environment/network';
import { GradringError } from '../errors';

/**
 * A text that is equal in two processes exactly if a unix socket can connect them: the same boot of the same host, and
 * the same network and file system namespace. (Containers on one host differ, and so do the hosts of a network lab.)
 */
export function hostId(): string {
  const facts = [
    hostname(),
    // Undefined elsewhere than on Linux.
    attempt(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')),
    attempt(() => readlinkSync('/proc/self/ns/net')),
    attempt(() => readlinkSync('/proc/self/ns/mnt')),
  ];
  return createHash('sha256').update(facts.join('\n')).digest('hex').slice(0, 16);
}

/** Stands for all addresses of this host, where a rank listens. */
export const EVERYWHERE = '*';

/** Where a rank listens, and the address that it tells its neighbours. */
export interface ListeningPlace {
  /** An address of this host, or {@link EVERYWHERE}. */
  readonly bind: string;
  readonly told: string;
}

/** What decides on the {@link ListeningPlace} of a rank. */
export interface NetworkChoice {
  readonly masterAddr: string;
  readonly masterPort: number;
  readonly iface?: string | undefined;
  readonly advertiseAddr?: string | undefined;
}

/**
 * Where a rank listens for neighbours on other hosts.
 *
 * @throws GradringError `ERR_INVALID_ENVIRONMENT` if the master's name, on which it depends, names no host, if no route
 *   leads to it, or if the interface is loopback, but the master is on another host; `ERR_ADDRESS_IN_USE` if the
 *   interface has no address any more.
 */
export async function placeForPeers(choice: NetworkChoice): Promise<ListeningPlace> {
  const { masterAddr, masterPort, iface } = choice;
  const advertised = choice.advertiseAddr && withoutBrackets(choice.advertiseAddr);
  if (advertised !== undefined && iface === undefined) return { bind: EVERYWHERE, told: advertised };
  const bind =
    iface === undefined ? await addressForPeers(masterAddr, masterPort) : addressOfInterface(iface, advertised);
  if (bind === undefined) throw new GradringError('ERR_ADDRESS_IN_USE', `Interface ${iface} has no address any more.`);
  if (iface !== undefined && isLoopback(bind) && !isLoopback((await addressOf(masterAddr)).address)) {
    const words = `The interface is ${iface}, at which no other host reaches this one; MASTER_ADDR is '${masterAddr}'.`;
    throw new GradringError('ERR_INVALID_ENVIRONMENT', words);
  }
  return { bind, told: advertised ?? bind };
}

/**
 * The address at which peers on other hosts reach this host: the one from which it reaches the master. If the master's
 * name means loopback here (as Debian's /etc/hosts does with a host's own name), it is the first address that other
 * hosts can reach.
 */
async function addressForPeers(masterAddr: string, masterPort: number): Promise<string> {
  const { address, family } = await addressOf(masterAddr);
  const own = await routeTo(address, family, masterPort).catch((error: Error) => {
    const words = `MASTER_ADDR is '${masterAddr}', to which no route leads from this host: ${error.message}.`;
    throw new GradringError('ERR_INVALID_ENVIRONMENT', words, {}, { cause: error });
  });
  if (!isLoopback(own)) return own;
  return addressForOthers(Object.values(networkInterfaces()).flatMap(addresses => addresses ?? [])) ?? own;
}

/**
 * The address of the master: IPv4 if its name has one, because most clusters route that.
 *
 * @throws GradringError `ERR_INVALID_ENVIRONMENT` if it names no host.
 */
export async function addressOf(masterAddr: string): Promise<{ address: string; family: number }> {
  return dns
    .lookup(masterAddr, { family: 4 })
    .catch(() => dns.lookup(masterAddr))
    .catch((error: unknown) => {
      const words = `MASTER_ADDR is '${masterAddr}', which names no host: ${(error as Error).message}.`;
      throw new GradringError('ERR_INVALID_ENVIRONMENT', words, {}, { cause: error });
    });
}

/**
 * The master as ZeroMQ must get it. If a name has addresses of both kinds, ZeroMQ would try IPv6 only, so this returns
 * the one of IPv4. Other names stay, also one that is not known yet: ZeroMQ looks it up again with each attempt.
 */
export async function addressToConnect(masterAddr: string): Promise<string> {
  const all = await dns.lookup(masterAddr, { all: true }).catch(() => []);
  const hasBoth = new Set(all.map(({ family }) => family)).size > 1;
  return hasBoth ? all.find(({ family }) => family === 4)!.address : masterAddr;
}

async function routeTo(address: string, family: number, port: number): Promise<string> {
  const socket = createSocket(family === 6 ? 'udp6' : 'udp4');
  try {
    // Connecting a UDP socket sends nothing; it only asks the kernel for the route.
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject); // if it cannot bind
      // The types leave out that the callback gets the error.
      socket.connect(port, address, ((error?: Error) => (error ? reject(error) : resolve())) as () => void);
    });
    return socket.address().address;
  } finally {
    socket.close();
  }
}
