import { createHash } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/**
 * Text that two processes share exactly if a unix socket connects them: the same boot of the same host, and the same
 * network and file system namespace. (Containers on one host differ, and so do the hosts of a network lab.)
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

/** The address of this host from which the master is reached, and so at which peers reach this host. */
export async function addressTowards(masterAddr: string, masterPort: number): Promise<string> {
  const { address, family } = await lookup(masterAddr);
  const socket = createSocket(family === 6 ? 'udp6' : 'udp4');
  try {
    // Connecting a UDP socket sends nothing; it only asks the kernel for the route.
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject);
      socket.connect(masterPort, address, resolve);
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
