import { lstatSync } from 'node:fs';
import { isIP } from 'node:net';
import { dirname, normalize } from 'node:path';
import { attempt } from '../attempt';
import { isLoopback, MAX_PORT } from '../environment/network';
import { hostOf } from './run-security';

/** The address of a unix socket has 108 bytes, with a zero at the end. */
const LONGEST_PATH = 107;

/** How a rank may be reached, as far as this one knows. */
export interface Reach {
  /** Whether a unix socket can connect the two. */
  readonly bySocket: boolean;
  /** Whether TCP on loopback can. */
  readonly byLoopback: boolean;
}

/**
 * What is wrong with the endpoint at which another rank says that it listens, to follow "it". Undefined if it is one
 * that a rank of gradring may have: an address and a port, or a socket in a folder that only this user may enter.
 */
export function endpointFault(endpoint: string, { bySocket, byLoopback }: Reach): string | undefined {
  const path = /^ipc:\/\/(.*)$/.exec(endpoint)?.[1];
  if (path !== undefined) {
    if (!bySocket) return 'is a unix socket, but the rank is on another host';
    return isOwnSocket(path) ? undefined : 'is no socket of gradring in a folder of this user alone';
  }
  const port = Number(/^tcp:\/\/(?:\[[\da-fA-F:.]+\]|[\d.]+):(\d{1,5})$/.exec(endpoint)?.[1]);
  const isAddress = port >= 1 && port <= MAX_PORT && isIP(hostOf(endpoint)) !== 0;
  if (!isAddress) return 'is neither tcp://ADDRESS:PORT nor a unix socket';
  return isLoopback(hostOf(endpoint)) && !byLoopback ? 'is on loopback, but the rank is on another host' : undefined;
}

/** Whether the path is that of a socket in a folder like those that `makeSocketFolder` makes. */
function isOwnSocket(path: string): boolean {
  const isSuch = /^\/(.*\/)?gradring-\w{6}\/left$/.test(path) && normalize(path) === path;
  if (!isSuch || path.length > LONGEST_PATH) return false;
  const folder = attempt(() => lstatSync(dirname(path)));
  return folder?.isDirectory() === true && folder.uid === process.getuid?.() && (folder.mode & 0o077) === 0;
}
