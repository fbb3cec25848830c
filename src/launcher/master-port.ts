import { createServer, type AddressInfo } from 'node:net';
import { GradringError } from '../errors';

/**
 * A TCP port that is free at `host` just now. It is not held: another program may still take it before rank 0 does,
 * which then says so.
 */
export async function findFreePort(host: string): Promise<number> {
  try {
    return await bindOnce(host, 0);
  } catch (cause) {
    const words = `No free port was found at ${host}: ${(cause as Error).message}. Name one with masterPort.`;
    throw new GradringError('ERR_ADDRESS_IN_USE', words, {}, { cause });
  }
}

/**
 * Makes sure that rank 0 will be able to bind the port, as far as this can be known beforehand: that the address is
 * none of this host's (a load balancer's, say) is left for the ranks to find out.
 *
 * @throws GradringError `ERR_ADDRESS_IN_USE`
 */
export async function requireFreePort(host: string, port: number): Promise<void> {
  try {
    await bindOnce(host, port);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code !== 'EADDRINUSE' && code !== 'EACCES') return;
    const reason = code === 'EACCES' ? 'may not be bound by this user' : 'is in use by another program';
    const words = `Port ${port} at ${host} ${reason}. Choose another master port, or none to take a free one.`;
    throw new GradringError('ERR_ADDRESS_IN_USE', words, {}, { cause });
  }
}

/** Binds and lets go again; the port that it was. */
function bindOnce(host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen({ host, port, exclusive: true }, () => {
      const bound = (server.address() as AddressInfo).port;
      server.close(() => resolve(bound));
    });
  });
}
