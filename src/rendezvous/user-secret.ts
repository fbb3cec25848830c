import { createHmac, randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { wrongEnvironment } from '../environment/integer';

/**
 * The run token of ranks that a scheduler started on several hosts: a hash of the run's id, with a secret of this user.
 * The secret is a file in the home directory, which the hosts of a cluster mostly share. The first rank that needs it
 * makes it.
 *
 * @param run What distinguishes the run from others.
 * @throws GradringError `ERR_INVALID_ENVIRONMENT` if the file cannot be made or read, is damaged, or others may read
 *   it.
 */
export function tokenOfRun(run: string, env: NodeJS.ProcessEnv = process.env): string {
  const file = secretFile(env);
  return createHmac('sha256', Buffer.from(readSecret(file), 'hex'))
    .update(run)
    .digest('hex');
}

export function secretFile(env: NodeJS.ProcessEnv): string {
  return path.join(env['XDG_CONFIG_HOME'] || path.join(env['HOME'] || homedir(), '.config'), 'gradring', 'secret');
}

function readSecret(file: string): string {
  try {
    makeSecret(file);
    const mode = statSync(file).mode & 0o777;
    if ((mode & 0o077) !== 0) throw new Error(`others may read it: chmod 600 ${file}`);
    const secret = readFileSync(file, 'utf8').trim();
    if (!/^[0-9a-f]{64}$/.test(secret)) throw new Error('it does not hold 64 hexadecimal digits: remove it');
    return secret;
  } catch (cause) {
    const why = `The ranks are on several hosts, so they need a run token. It is made from ${file}, but ${(cause as Error).message}.`;
    throw wrongEnvironment(`${why} Or set GRADRING_RUN_TOKEN, the same for all ranks ('openssl rand -hex 32').`);
  }
}

/** Makes the file, unless it is there. If several ranks do so at once, on any hosts, one of their files stays. */
function makeSecret(file: string): void {
  if (statSync(file, { throwIfNoEntry: false }) !== undefined) return;
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  const own = `${file}.${randomBytes(8).toString('hex')}`;
  writeFileSync(own, `${randomBytes(32).toString('hex')}\n`, { mode: 0o600, flush: true });
  try {
    linkSync(own, file); // whole or not at all, also on NFS
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(own, { force: true });
  }
}
