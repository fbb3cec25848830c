import { GradringError } from '../errors';
import { printable } from '../printable';
import { similarName } from '../similar-name';
import { MAX_PORT } from './network';
import { RANK_OPTIONS } from './rank-options';

/** All of gradring's own variables, also those that only the launcher sets. */
export const OWN_VARIABLES: readonly string[] = [
  ...Object.values(RANK_OPTIONS).map(({ variable }) => variable),
  'GRADRING_BACKEND',
  'GRADRING_COLUMNS',
  'GRADRING_ELASTIC',
  'GRADRING_GUARD_FD',
  'GRADRING_GUARD_FOLDER',
  'GRADRING_JOB_COUNT',
  'GRADRING_JOB_INDEX',
  'GRADRING_LAUNCHER_PIPE',
  'GRADRING_RUN_ID',
  'GRADRING_RUN_TOKEN',
  'GRADRING_SOCKET_FOLDER',
].sort();

const PREFIX = 'GRADRING_';

/** What Kubernetes sets in each pod for a service whose name begins with `gradring`. */
const OF_A_SERVICE = /_SERVICE_(HOST|PORT)(_|$)|_PORT(_\d+_(TCP|UDP|SCTP)|$)/;

/** The largest WORLD_SIZE. */
export const MAX_WORLD_SIZE = 65_535;

/** The default TCP port of the rendezvous: torchrun's. */
export const DEFAULT_MASTER_PORT = 29_500;

/**
 * A variable as a whole number.
 *
 * @param otherwise The result if the variable is not set, or empty. Default: that is an error, too.
 * @throws GradringError `ERR_INVALID_ENVIRONMENT` if it is something else, or out of range.
 */
export function readInteger(
  env: NodeJS.ProcessEnv,
  name: string,
  least: number,
  most: number,
  otherwise?: number,
): number {
  const text = env[name] ?? '';
  if (text === '' && otherwise !== undefined) return otherwise;
  const value = /^\d+$/.test(text) ? Number(text) : NaN;
  if (value >= least && value <= most) return value;
  throw wrongEnvironment(
    `${name} is ${text === '' ? 'not set' : `'${text}'`}; it must be a whole number from ${least} to ${most}.`,
  );
}

/** The port of the rendezvous. */
export function readMasterPort(env: NodeJS.ProcessEnv, otherwise = DEFAULT_MASTER_PORT): number {
  return readInteger(env, 'MASTER_PORT', 1, MAX_PORT, otherwise);
}

export function wrongEnvironment(message: string): GradringError {
  return new GradringError('ERR_INVALID_ENVIRONMENT', message);
}

/** Variables that are set and begin as gradring's own do, but are none of them: probably misspelt. */
export function unknownVariables(env: NodeJS.ProcessEnv): readonly string[] {
  const isOfService = (name: string) => Boolean(env['KUBERNETES_SERVICE_HOST']) && OF_A_SERVICE.test(name);
  return Object.keys(env).filter(
    name => name.startsWith(PREFIX) && env[name] && !OWN_VARIABLES.includes(name) && !isOfService(name),
  );
}

/** A warning of {@link unknownVariables}, if there are any, with the names that were probably meant. */
export function unknownVariableWarning(env: NodeJS.ProcessEnv): string | undefined {
  const unknown = unknownVariables(env);
  if (unknown.length === 0) return undefined;
  const known = OWN_VARIABLES.map(name => name.slice(PREFIX.length));
  const words = unknown.map(name => {
    const similar = similarName(name.slice(PREFIX.length), known);
    return `${printable(name, 80)}${similar === undefined ? '' : ` (did you mean ${PREFIX}${similar}?)`}`;
  });
  const what = unknown.length === 1 ? 'is set, but is no variable' : 'are set, but are no variables';
  return `${words.join(', ')} ${what} of gradring.`;
}
