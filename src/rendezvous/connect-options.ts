import { checkOptions } from '../check-options';
import { GradringError, invalidArgument } from '../errors';
import { msOf } from '../environment/link-delay';
import { type RankEnvironment, readRankEnvironment } from '../environment/rank-environment';
import { RANK_OPTIONS, type RankOptions, readRankOptions } from '../environment/rank-options';
import { makeToken } from './user-secret';

/** Options that say which rank of which ring this process is, and the variable of each. */
const PLACE_OPTIONS = {
  rank: 'RANK',
  worldSize: 'WORLD_SIZE',
  localRank: 'LOCAL_RANK',
  masterAddr: 'MASTER_ADDR',
  masterPort: 'MASTER_PORT',
  runId: 'GRADRING_RUN_ID',
  runToken: 'GRADRING_RUN_TOKEN',
} as const satisfies Partial<Record<keyof RankEnvironment, string>>;

/** How a rank joins its ring. Every option may be left out: `gradring run` sets the environment. */
export interface ConnectInput extends Partial<Pick<RankEnvironment, keyof typeof PLACE_OPTIONS>>, Partial<RankOptions> {
  /** Ends the wait for the other ranks, with `ERR_ABORTED`. */
  readonly signal?: AbortSignal | undefined;
}

/** {@link ConnectInput}, complete and checked. */
export interface ConnectOptions extends Pick<RankEnvironment, keyof typeof PLACE_OPTIONS>, RankOptions {
  readonly scheduler: string | undefined;
  /** The file that the run token is made from. Undefined if the token was given, or if none is needed. */
  readonly tokenFrom: string | undefined;
  readonly elastic: RankEnvironment['elastic'];
  readonly overruled: RankEnvironment['overruled'];
  /** In a group: the numbers that its ranks have in the run. */
  readonly ranksOfRun?: readonly number[] | undefined;
}

const NAMES = Object.fromEntries(
  [...Object.keys({ ...PLACE_OPTIONS, ...RANK_OPTIONS }), 'signal'].map(name => [name, true]),
) as Record<keyof ConnectInput, true>;

/**
 * Merges the caller's options with the environment and the defaults.
 *
 * @param mayMakeSecret Whether the user's secret may be made, if the ranks need it.
 * @throws GradringError `ERR_INVALID_ARGUMENT` or `ERR_INVALID_ENVIRONMENT`, naming the option or variable.
 */
export function resolveConnectOptions(
  input: ConnectInput = {},
  env: NodeJS.ProcessEnv = process.env,
  mayMakeSecret = true,
): ConnectOptions {
  checkOptions('connect', input, NAMES);
  const place = placeOf(input, env);
  const options = readRankOptions(input, env);
  checkDelay(options);
  const token =
    place.runToken === undefined
      ? makeToken({ ...place, encryption: options.encryption }, env, mayMakeSecret)
      : { runToken: place.runToken, tokenFrom: undefined };
  return { ...place, ...token, ...options };
}

/** @throws GradringError `ERR_INVALID_ARGUMENT` */
function checkDelay({ linkDelay, linkJitter, transport }: RankOptions): void {
  if (linkDelay === undefined) {
    if (linkJitter === undefined) return;
    throw invalidArgument(`linkJitter is ${linkJitter}, but there is no linkDelay that it could change.`);
  }
  if (linkJitter !== undefined && !(msOf(linkJitter)! < msOf(linkDelay)!)) {
    throw invalidArgument(`linkJitter is ${linkJitter}; it must be less than linkDelay, which is ${linkDelay}.`);
  }
  if (transport === 'ipc') throw invalidArgument("transport is 'ipc', but links with a delay use TCP.");
}

function placeOf(input: ConnectInput, env: NodeJS.ProcessEnv): RankEnvironment {
  // Options go through the same checks as the environment, with the option's own name in the error.
  const merged: NodeJS.ProcessEnv = { ...env };
  for (const [option, variable] of Object.entries(PLACE_OPTIONS)) {
    const value = input[option as keyof typeof PLACE_OPTIONS];
    if (value !== undefined) merged[variable] = String(value);
  }
  // If the program gives the rank, LOCAL_RANK in the environment may be that of another process.
  if (input.rank !== undefined && input.localRank === undefined) delete merged['LOCAL_RANK'];
  if (input.rank !== undefined) delete merged['GRADRING_ELASTIC'];
  if (input.masterPort !== undefined) delete merged['TORCHELASTIC_USE_AGENT_STORE'];
  try {
    const place = readRankEnvironment(merged);
    return input.rank === undefined ? place : { ...place, overruled: undefined };
  } catch (error) {
    const given = Object.keys(PLACE_OPTIONS).filter(
      option => input[option as keyof typeof PLACE_OPTIONS] !== undefined,
    );
    if (given.length === 0 || !(error instanceof GradringError)) throw error;
    throw invalidArgument(`connect({ ${given.join(', ')} }): ${error.message}`);
  }
}
