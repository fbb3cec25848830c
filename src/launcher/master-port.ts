import { connect, createServer, type AddressInfo, type Server } from 'node:net';
import { GradringError } from '../errors';

/**
 * A TCP port that is free at `host`, for rank 0 to bind in a while. For some 60 s the system gives it to nobody else
 * who asks for any free port, or connects from one: a connection that the port's own side closed first still lies in
 * TIME_WAIT there. Who names the port may bind it, as ZeroMQ sets SO_REUSEADDR. (Off Linux the system may keep less of this.)
 */
export async function findFreePort(host: string): Promise<number> {
  try {
    const server = await listen(host, 0);
    const { address, port } = server.address() as AddressInfo;
    await leaveInTimeWait(server, address, port).finally(() => close(server));
    return port;
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
    await close(await listen(host, port));
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code !== 'EADDRINUSE' && code !== 'EACCES') return;
    const reason = code === 'EACCES' ? 'may not be bound by this user' : 'is in use by another program';
    const words = `Port ${port} at ${host} ${reason}. Choose another master port, or none to take a free one.`;
    throw new GradringError('ERR_ADDRESS_IN_USE', words, {}, { cause });
  }
}

function listen(host: string, port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen({ host, port, exclusive: true }, () => resolve(server));
  });
}

/** Connects to the server and lets it hang up first. */
function leaveInTimeWait(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('connection', accepted => accepted.once('error', reject).end());
    connect({ host, port })
      .once('error', reject)
      .once('close', () => resolve())
      .resume();
  });
}

function close(server: Server): Promise<void> {
  return new Promise(resolve => void server.close(() => resolve()));
}
