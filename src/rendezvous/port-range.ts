import type { PortRange } from '../environment/network';
import { GradringError } from '../errors';

/**
 * Listens at the first free port of a range; without a range at port 0, for which the system chooses one.
 *
 * @param listen Fails with `EADDRINUSE`, as its code or as that of its cause, if the port is in use.
 * @throws GradringError `ERR_ADDRESS_IN_USE` if all are in use. What else `listen` throws.
 */
export async function listenInRange<T>(
  range: PortRange | undefined,
  listen: (port: number) => T | Promise<T>,
): Promise<T> {
  if (range === undefined) return listen(0);
  const { first, last } = range;
  for (let port = first; port <= last; port += 1) {
    try {
      return await listen(port);
    } catch (error) {
      if (!isInUse(error) && !isInUse((error as Error).cause)) throw error;
    }
  }
  const words = `All ports of the range ${first}-${last} are in use on this host. Each of its ranks needs up to two: choose a larger range (GRADRING_PORT_RANGE).`;
  throw new GradringError('ERR_ADDRESS_IN_USE', words);
}

function isInUse(error: unknown): boolean {
  return (error as NodeJS.ErrnoException | undefined)?.code === 'EADDRINUSE';
}
