import { GradringError } from '../errors';
import { MAX_PORT } from './network';

/** What WORLD_SIZE may be at most. */
export const MAX_WORLD_SIZE = 65_535;

/** The default TCP port of the rendezvous: torchrun's. */
export const DEFAULT_MASTER_PORT = 29_500;

/**
 * A variable as a whole number.
 *
 * @param otherwise If the variable is not set, or empty. Default: that is an error, too.
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
