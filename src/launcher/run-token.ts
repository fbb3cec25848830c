import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { checkRunToken } from '../environment';
import { invalidArgument } from '../errors';
import type { LaunchPlan } from './launch-options';

/**
 * The secret by which the ranks of this run know each other: from the file that was named, else as given in the environment, else
 * drawn. The ranks get it in their environment, which other users cannot read. Launchers on several nodes cannot agree on a
 * drawn one: then undefined, and the ranks say so if they need one.
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` if the file cannot be read, `ERR_INVALID_ENVIRONMENT` for what is no token.
 */
export function chooseRunToken(
  { tokenFile, nodes }: Pick<LaunchPlan, 'tokenFile' | 'nodes'>,
  env: NodeJS.ProcessEnv,
): string | undefined {
  if (tokenFile !== undefined) return checkRunToken(readToken(tokenFile).trim(), tokenFile);
  const given = env['GRADRING_RUN_TOKEN'];
  if (given) return checkRunToken(given, 'GRADRING_RUN_TOKEN');
  return nodes === 1 ? randomBytes(32).toString('hex') : undefined;
}

function readToken(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw invalidArgument(`The run token cannot be read: ${(error as Error).message}.`);
  }
}
