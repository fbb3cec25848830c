import { networkInterfaces } from 'node:os';
import { isLoopback, requireLoopback } from '../environment/network';
import { EVERYWHERE, type ListeningPlace, type NetworkChoice, placeForPeers } from '../rendezvous/host-identity';
import type { Finding } from './finding';

/**
 * Where a rank of this host would listen, and the address at which other hosts would reach it.
 *
 * @param choose Throws if the choice is wrong.
 */
export async function networkFinding(choose: () => NetworkChoice): Promise<Finding> {
  const addresses = Object.entries(networkInterfaces()).flatMap(([name, list]) =>
    (list ?? []).filter(({ internal }) => !internal).map(({ address }) => ({ name, address })),
  );
  const listed = addresses.map(({ name, address }) => `${name} ${address}`).join(', ') || 'none but loopback';
  let choice: NetworkChoice;
  let place: ListeningPlace;
  try {
    requireLoopback();
    choice = choose();
    place = await placeForPeers(choice);
  } catch (error) {
    return { what: 'Network', verdict: 'problem', words: (error as Error).message, details: { addresses } };
  }
  const { bind: own, told } = place;
  const { masterAddr, advertiseAddr } = choice;
  const details = { addresses, masterAddr, wouldListenAt: own, wouldTell: told };
  if (isLoopback(own)) {
    const words = `only for ranks of this host, at ${own}: there is no other interface (${listed})`;
    return { what: 'Network', verdict: 'warning', words, details };
  }
  const name = addresses.find(({ address }) => address === own)?.name;
  const where = isLoopback(masterAddr)
    ? 'ranks of one host use unix sockets; with rank 0 on another host'
    : `with rank 0 at ${masterAddr}`;
  const at = own === EVERYWHERE ? 'all interfaces' : name === undefined ? own : `${name} (${own})`;
  const tells = advertiseAddr === undefined ? '' : `, and tell others the address ${told}`;
  const words = `${where}, a ring would use ${at}${tells}; interfaces: ${listed}`;
  return { what: 'Network', verdict: 'ok', words, details };
}
