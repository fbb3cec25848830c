import { createHash } from 'node:crypto';
import { createSocket } from 'node:dgram';
import dns from 'node:dns/promises';
import { readFileSync, readlinkSync } from 'node:fs';
import { isIP } from 'node:net';
import { hostname, type NetworkInterfaceInfo, networkInterfaces } from 'node:os';
import { GradringError } from '../errors';

/**
 * A text that is equal in two processes exactly if a unix socket can connect them: the same boot of the same host, and
 * the same network and file system namespace. (Containers on one host differ, and so do the hosts of a network lab.)
 */
export function hostId(): string {
  const facts = [
    hostname(),
    attempt(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')),
    attempt(() => readlinkSync('/proc/self/ns/net')),
    attempt(() => readlinkSync('/proc/self/ns/mnt')),
  ];
  return createHash('sha256').update(facts.join('\n')).digest('hex').slice(0, 16);
}

/**
 * The address at which peers on other hosts reach this host: the one from which it reaches the master. If the master's
 * name means loopback here (as Debian's /etc/hosts does with a host's own name), it is the first address that other
 * hosts can reach.
 */
export async function addressForPeers(masterAddr: string, masterPort: number): Promise<string> {
  const { address, family } = await lookup(masterAddr).catch((error: unknown) => {
    const words = `MASTER_ADDR is '${masterAddr}', which names no host: ${(error as Error).message}.`;
    throw new GradringError('ERR_INVALID_ENVIRONMENT', words, {}, { cause: error });
  });
  const own = await routeTo(address, family, masterPort);
  if (!isLoopback(own)) return own;
  return addressForOthers(Object.values(networkInterfaces()).flatMap(addresses => addresses ?? [])) ?? own;
}

/**
 * The first address that other hosts can reach, IPv4 if there is one. Link-local IPv6 addresses do not count, because
 * they need the name of the peer's interface.
 */
export function addressForOthers(addresses: readonly NetworkInterfaceInfo[]): string | undefined {
  const outer = addresses.filter(({ internal, address }) => !internal && !/^fe[89ab]/i.test(address));
  return (outer.find(({ family }) => family === 'IPv4') ?? outer[0])?.address;
}

/** Whether an address reaches only this host. It may be IPv4 written as IPv6. */
export function isLoopback(address: string): boolean {
  return (
    address === 'localhost' || address === '::1' || (isIP(address) !== 0 && /^(::ffff:)?127\.[\d.]+$/.test(address))
  );
}

/** IPv4 if the name has it, because most clusters route that. */
async function lookup(name: string): Promise<{ address: string; family: number }> {
  return dns.lookup(name, { family: 4 }).catch(() => dns.lookup(name));
}

async function routeTo(address: string, family: number, port: number): Promise<string> {
  const socket = createSocket(family === 6 ? 'udp6' : 'udp4');
  try {
    // Connecting a UDP socket sends nothing; it only asks the kernel for the route.
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject);
      socket.connect(port, address, resolve);
    });
    return socket.address().address;
  } finally {
    socket.close();
  }
}

function attempt(read: () => string): string {
  try {
    return read();
  } catch {
    return ''; // not Linux
  }
}
