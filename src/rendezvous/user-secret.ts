import { createHmac, randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { isLoopback } from '../environment/network';
import type { RankEnvironment } from '../environment/rank-environment';
import { wrongEnvironment } from '../environment/variables';
import type { Encryption } from '../environment/rank-options';

/** What decides whether ranks that were given no run token make one. */
export type TokenChoice = Pick<RankEnvironment, 'worldSize' | 'masterAddr' | 'masterPort' | 'runId' | 'hasHome'> & {
  readonly encryption: Encryption;
};

/** A run token, and the file that it was made from. */
export interface MadeToken {
  readonly runToken: string | undefined;
  readonly tokenFrom: string | undefined;
}

const NO_TOKEN: MadeToken = { runToken: undefined, tokenFrom: undefined };

/**
 * The run token of ranks that were given none: a hash of the run's id, with a secret of this user, if a scheduler
 * started them. The secret is a file in the home directory, which the hosts of a cluster mostly share. The first rank
 * that needs it makes it. Ranks that can do without a token have none if there is no such file.
 *
 * @param mayMake Whether the file may be made.
 * @throws GradringError `ERR_INVALID_ENVIRONMENT` if the ranks need a token, and no scheduler started them, or the file
 *   cannot be made or read, is damaged, or others may read it.
 */
export function makeToken(choice: TokenChoice, env: NodeJS.ProcessEnv = process.env, mayMake = true): MadeToken {
  const { worldSize, masterAddr, masterPort, runId, hasHome, encryption } = choice;
  if (worldSize === 1 || encryption === 'off') return NO_TOKEN;
  const isNeeded = encryption === 'on' || !isLoopback(masterAddr);
  if (!hasHome) {
    if (isNeeded) throw noToken(choice, '');
    return NO_TOKEN;
  }
  try {
    const tokenFrom = secretFile(env);
    if (mayMake) makeSecret(tokenFrom);
    else if (!exists(tokenFrom)) return NO_TOKEN;
    const run = runId || `${masterAddr}:${masterPort}`;
    return { runToken: createHmac('sha256', readSecret(tokenFrom)).update(run).digest('hex'), tokenFrom };
  } catch (cause) {
    if (isNeeded) throw noToken(choice, ` The user's secret cannot be used: ${(cause as Error).message}.`);
    return NO_TOKEN;
  }
}

function noToken({ encryption, masterAddr }: TokenChoice, why: string): Error {
  const need = encryption === 'on' ? 'Encryption is on' : `MASTER_ADDR is '${masterAddr}', which others may reach`;
  return wrongEnvironment(
    `${need}: all ranks need the same run token.${why} Make one with 'openssl rand -hex 32', and give it as GRADRING_RUN_TOKEN, or in a file to 'gradring run --token-file', on every host. In a network that you trust, GRADRING_ENCRYPTION=off needs no token.`,
  );
}

/** The file of the user's secret, also if it is not there. */
export function secretFile(env: NodeJS.ProcessEnv): string {
  const folder = env['XDG_CONFIG_HOME'] || path.join(env['HOME'] || homedir(), '.config');
  if (!path.isAbsolute(folder)) throw new Error(`'${folder}' is no absolute path: set HOME`);
  return path.join(folder, 'gradring', 'secret');
}

function readSecret(file: string): Buffer {
  const mode = statSync(file).mode & 0o777;
  if ((mode & 0o077) !== 0) throw new Error(`others may read it: chmod 600 ${file}`);
  const secret = readFileSync(file, 'utf8').trim();
  if (!/^[0-9a-f]{64}$/.test(secret)) throw new Error(`${file} does not hold 64 hexadecimal digits: remove it`);
  return Buffer.from(secret, 'hex');
}

/** Makes the file, unless it is there. If several ranks do so at once, on any hosts, one of their files stays. */
function makeSecret(file: string): void {
  if (exists(file)) return;
  // Not with `recursive`: Node never returns where the system refuses to make a folder as if its parent were missing.
  const folder = path.dirname(file);
  for (const each of [path.dirname(folder), folder]) unlessThere(() => mkdirSync(each, { mode: 0o700 }));
  const own = `${file}.${randomBytes(8).toString('hex')}`;
  writeFileSync(own, `${randomBytes(32).toString('hex')}\n`, { mode: 0o600, flush: true });
  try {
    unlessThere(() => linkSync(own, file)); // whole or not at all, also on NFS
  } finally {
    rmSync(own, { force: true });
  }
}

function exists(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false }) !== undefined;
}

function unlessThere(make: () => void): void {
  try {
    make();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}
