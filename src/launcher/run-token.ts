import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { readOptionFile } from '../command-line';
import { checkRunToken } from '../environment/rank-environment';
import { readRankOption } from '../environment/rank-options';
import { makeToken } from '../rendezvous/user-secret';
import type { LaunchPlan } from './launch-options';

/**
 * The secret by which the ranks of this run recognise each other: from the token file, else from the environment, else
 * new. The ranks get it in their environment, which other users cannot read. Launchers on several nodes cannot agree on
 * a new one: those that a scheduler started make it from the user's secret. For others it is undefined, and ranks that
 * need one say so.
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` if the file cannot be read, `ERR_INVALID_ENVIRONMENT` if it has no
 *   valid token.
 */
export function chooseRunToken(
  plan: Pick<LaunchPlan, 'tokenFile' | 'nodes' | 'worldSize' | 'masterAddr' | 'masterPort' | 'task' | 'words'>,
  env: NodeJS.ProcessEnv,
): string | undefined {
  const { tokenFile, nodes, task, words } = plan;
  if (tokenFile !== undefined)
    return checkRunToken(readOptionFile(tokenFile, words.nameOf('tokenFile')).trim(), tokenFile);
  const given = env['GRADRING_RUN_TOKEN'];
  if (given) return checkRunToken(given, 'GRADRING_RUN_TOKEN');
  if (nodes === 1) return randomBytes(32).toString('hex');
  if (task === undefined) return undefined;
  const masterPort = plan.masterPort ?? task.masterPort;
  const encryption = readRankOption('encryption', undefined, env);
  const { runId, scheduler } = task;
  return makeToken({ ...plan, masterPort, runId, hasHome: scheduler.isHomeless !== true, encryption }, env).runToken;
}

/** A warning, if others than the file's owner may read the token in it. */
export function tokenFileWarning(tokenFile: string): string | undefined {
  const mode = statSync(tokenFile).mode & 0o777;
  if ((mode & 0o077) === 0) return undefined;
  return `others may read the run token in ${tokenFile} (mode ${mode.toString(8).padStart(4, '0')}): chmod 600 it.`;
}
