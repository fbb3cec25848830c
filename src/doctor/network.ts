import { networkInterfaces } from 'node:os';
import { addressForPeers, isLoopback } from '../rendezvous/host-identity';
import type { Finding } from './finding';

/** The address at which other hosts would reach this one, if rank 0 were at `masterAddr`. */
export async function networkFinding(masterAddr: string, masterPort: number): Promise<Finding> {
  const addresses = Object.entries(networkInterfaces()).flatMap(([name, list]) =>
    (list ?? []).filter(({ internal }) => !internal).map(({ address }) => ({ name, address })),
  );
  const listed = addresses.map(({ name, address }) => `${name} ${address}`).join(', ') || 'none but loopback';
  let own: string;
  try {
    own = await addressForPeers(masterAddr, masterPort);
  } catch (error) {
    return { what: 'Network', verdict: 'problem', words: (error as Error).message, details: { addresses } };
  }
  const details = { addresses, masterAddr, wouldListenAt: own };
  if (isLoopback(own)) {
    const words = `only for ranks of this host, at ${own}: there is no other interface (${listed})`;
    return { what: 'Network', verdict: 'warning', words, details };
  }
  const name = addresses.find(({ address }) => address === own)?.name;
  const where = isLoopback(masterAddr)
    ? 'ranks of one host use unix sockets; with rank 0 on another host'
    : `with rank 0 at ${masterAddr}`;
  const words = `${where}, a ring would use ${name === undefined ? own : `${name} (${own})`}; interfaces: ${listed}`;
  return { what: 'Network', verdict: 'ok', words, details };
}
