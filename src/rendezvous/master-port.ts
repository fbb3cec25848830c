import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { GradringError } from '../errors';

/** How errors name what decides on a port. */
export interface PortWords {
  readonly masterAddr: string;
  readonly masterPort: string;
  /** Where rank 0 runs. */
  readonly place: string;
}

const PROGRAM_WORDS: PortWords = { masterAddr: 'masterAddr', masterPort: 'masterPort', place: 'this host' };

/** How long the connection that reserves a port may take. */
const RESERVE_MS = 1_000;

/**
 * A TCP port that is free at `host`, for rank 0 to bind soon. To keep it for this run, the launcher connects to it
 * once, and the listening side closes first. That leaves the port in TIME_WAIT for some 60 s. Meanwhile the system
 * gives it to no program that asks for any free port, or connects from one. A program that names the port may bind it,
 * because ZeroMQ sets SO_REUSEADDR. If that does not work (a firewall, another system), the port is just free at this
 * moment.
 *
 * @throws GradringError `ERR_ADDRESS_IN_USE`, also if no such address belongs to this host.
 */
export async function findFreePort(host: string, words = PROGRAM_WORDS): Promise<number> {
  try {
    const server = await listen(host, 0);
    const { address, port } = server.address() as AddressInfo;
    await leaveInTimeWait(server, address, port).finally(() => close(server));
    return port;
  } catch (cause) {
    const { code, syscall, message } = cause as NodeJS.ErrnoException;
    const isElsewhere = code === 'EADDRNOTAVAIL' || syscall === 'getaddrinfo';
    const what = isElsewhere
      ? `${host} is no address of ${words.place}. Correct ${words.masterAddr}.`
      : `No free port was found at ${host}: ${message}. Choose one with ${words.masterPort}.`;
    throw new GradringError('ERR_ADDRESS_IN_USE', what, {}, { cause });
  }
}

/**
 * Makes sure that rank 0 will be able to bind the port, as far as this can be known before. If the address does not
 * belong to this host (but to a load balancer, for example), only the ranks find out.
 *
 * @param option The option that names the port, for the error.
 * @throws GradringError `ERR_ADDRESS_IN_USE`
 */
export async function requireFreePort(host: string, port: number, option: string): Promise<void> {
  try {
    await close(await listen(host, port));
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code !== 'EADDRINUSE' && code !== 'EACCES') return;
    const reason = code === 'EACCES' ? 'may not be bound by this user' : 'is in use by another program';
    const words = `Port ${port} at ${host} ${reason}. Choose another one with ${option}.`;
    throw new GradringError('ERR_ADDRESS_IN_USE', words, {}, { cause });
  }
}

function listen(host: string, port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen({ host, port, exclusive: true }, () => resolve(server));
  });
}

/** Connects to the server, which closes the connection first. Settles soon in any case. */
async function leaveInTimeWait(server: Server, host: string, port: number): Promise<void> {
  const accepted: Socket[] = []; // another program may connect, too
  server.on('connection', socket => {
    accepted.push(socket);
    socket.on('error', () => undefined).end();
  });
  const socket = connect({ host, port }).resume();
  const closed = new Promise(resolve => socket.on('error', () => undefined).on('close', resolve));
  const timer = setTimeout(() => socket.destroy(), RESERVE_MS);
  await closed;
  clearTimeout(timer);
  for (const each of accepted) each.destroy();
}

function close(server: Server): Promise<void> {
  return new Promise(resolve => void server.close(() => resolve()));
}
