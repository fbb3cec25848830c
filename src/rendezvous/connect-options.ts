import { checkOptions } from '../check-options';
import { GradringError, invalidArgument } from '../errors';
import { type RankEnvironment, readRankEnvironment } from '../environment/rank-environment';
import { LONGEST_DELAY_MS } from '../longest-delay';
import type { Encryption } from './run-security';
import { makeToken } from './user-secret';

export type { Encryption };

/** How a rank joins its ring. Every option may be left out: `gradring run` sets the environment. */
export interface ConnectInput extends Partial<
  Pick<RankEnvironment, 'rank' | 'worldSize' | 'localRank' | 'masterAddr' | 'masterPort' | 'runId' | 'runToken'>
> {
  /**
   * How long a collective may take before it fails with `ERR_TIMEOUT`, in ms. Default 300,000; `GRADRING_TIMEOUT_MS`.
   */
  readonly timeoutMs?: number;
  /** How long to wait until all ranks have come, in ms. Default 60,000; `GRADRING_CONNECT_TIMEOUT_MS`. */
  readonly connectTimeoutMs?: number;
  /**
   * How long a neighbour may be silent before it counts as lost, in ms. Default 10,000;
   * `GRADRING_HEARTBEAT_TIMEOUT_MS`.
   */
  readonly heartbeatTimeoutMs?: number;
  /**
   * After how long a collective that waits prints on stderr which ranks it waits for, in ms; again after twice that
   * time, and so on. So does rank 0 of a static run before there is a ring. 0: never. Default 30,000;
   * `GRADRING_STALL_MS`.
   */
  readonly stallMs?: number;
  /**
   * `auto`: unix sockets between ranks of one host, TCP between hosts. `tcp` and `ipc` force one. Default `auto`;
   * `GRADRING_TRANSPORT`.
   */
  readonly transport?: TransportName;
  /**
   * `auto`: TCP is encrypted, and both ends must prove that they belong to this run, except on the loopback interface.
   * `on`: there too. `off`: never. All ranks must use the same value. Default `auto`; `GRADRING_ENCRYPTION`. Encryption
   * needs {@link runToken}.
   */
  readonly encryption?: Encryption;
  /**
   * For experiments: limits what this rank sends to the rate of a slow network, such as `100mbit` or `2.5gbit`, though
   * its real links are faster. All ranks must use the same value. Default: no limit; `GRADRING_LINK_RATE`.
   */
  readonly linkRate?: string;
  /**
   * The network interface, such as `eth1`, at whose address this rank listens for neighbours on other hosts: IPv4 if it
   * has that. Default: the interface towards the master; `GRADRING_IFACE`.
   */
  readonly iface?: string;
  /**
   * The TCP ports at which this rank listens for its neighbours, such as `30000-30100`. It needs at most two, and the
   * ranks of one host share the range. Default: any that are free; `GRADRING_PORT_RANGE`.
   */
  readonly portRange?: string;
  /**
   * The IP address that this rank tells neighbours on other hosts, if they do not reach it at an address of its own:
   * behind NAT, in a container. Ports must stay the same. Without {@link iface} it then listens at all interfaces.
   * Default: the address at which it listens; `GRADRING_ADVERTISE_ADDR`.
   */
  readonly advertiseAddr?: string;
  /**
   * A folder for the timeline of this rank, `rank-0.json`: a trace for chrome://tracing and ui.perfetto.dev. It is
   * created. Default: no timeline; `GRADRING_TIMELINE`.
   */
  readonly timeline?: string;
}

/** How the ranks of one host are connected; see {@link ConnectInput.transport}. */
export type TransportName = 'auto' | 'tcp' | 'ipc';

/** Options that have no value unless they are given. */
interface Unset {
  readonly runToken: string | undefined;
  readonly linkRate: string | undefined;
  readonly iface: string | undefined;
  readonly portRange: string | undefined;
  readonly advertiseAddr: string | undefined;
  readonly timeline: string | undefined;
}

/** {@link ConnectInput}, complete and checked. */
export interface ConnectOptions extends Required<Omit<ConnectInput, keyof Unset>>, Unset {
  readonly scheduler: string | undefined;
  /** The file that the run token is made from. Undefined if the token was given, or if none is needed. */
  readonly tokenFrom: string | undefined;
  readonly elastic: RankEnvironment['elastic'];
  readonly overruled: RankEnvironment['overruled'];
}

const OPTIONS = {
  ...{ rank: true, worldSize: true, localRank: true, masterAddr: true, masterPort: true, runId: true, runToken: true },
  ...{ timeoutMs: true, connectTimeoutMs: true, heartbeatTimeoutMs: true, stallMs: true },
  ...{ transport: true, encryption: true, linkRate: true, timeline: true },
  ...{ iface: true, portRange: true, advertiseAddr: true },
} as const satisfies Record<keyof ConnectInput, true>;

/** The defaults come first. */
export const TRANSPORTS: readonly TransportName[] = ['auto', 'tcp', 'ipc'];
export const ENCRYPTIONS: readonly Encryption[] = ['auto', 'on', 'off'];

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
  checkOptions('connect', input, OPTIONS);
  const place = placeOf(input, env);
  const transport = oneOf(TRANSPORTS, 'transport', input.transport, 'GRADRING_TRANSPORT', env);
  const encryption = chooseEncryption(input.encryption, env);
  return {
    ...place,
    ...(place.runToken === undefined
      ? makeToken({ ...place, encryption }, env, mayMakeSecret)
      : { runToken: place.runToken, tokenFrom: undefined }),
    timeoutMs: timeout('timeoutMs', input.timeoutMs, 'GRADRING_TIMEOUT_MS', env, 300_000),
    connectTimeoutMs: timeout('connectTimeoutMs', input.connectTimeoutMs, 'GRADRING_CONNECT_TIMEOUT_MS', env, 60_000),
    heartbeatTimeoutMs: timeout(
      'heartbeatTimeoutMs',
      input.heartbeatTimeoutMs,
      'GRADRING_HEARTBEAT_TIMEOUT_MS',
      env,
      10_000,
    ),
    stallMs: timeout('stallMs', input.stallMs, 'GRADRING_STALL_MS', env, 30_000, 0),
    transport: transport as TransportName,
    encryption,
    timeline: input.timeline ?? (env['GRADRING_TIMELINE'] || undefined),
  };
}

function placeOf(input: ConnectInput, env: NodeJS.ProcessEnv): RankEnvironment {
  // Options go through the same checks as the environment, with the option's own name in the error.
  const names = {
    rank: 'RANK',
    worldSize: 'WORLD_SIZE',
    localRank: 'LOCAL_RANK',
    masterAddr: 'MASTER_ADDR',
    masterPort: 'MASTER_PORT',
    runId: 'GRADRING_RUN_ID',
    runToken: 'GRADRING_RUN_TOKEN',
    linkRate: 'GRADRING_LINK_RATE',
    iface: 'GRADRING_IFACE',
    portRange: 'GRADRING_PORT_RANGE',
    advertiseAddr: 'GRADRING_ADVERTISE_ADDR',
  } as const;
  const merged: NodeJS.ProcessEnv = { ...env };
  for (const [option, variable] of Object.entries(names)) {
    const value = input[option as keyof typeof names];
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
    const given = Object.keys(names).filter(option => input[option as keyof typeof names] !== undefined);
    if (given.length === 0 || !(error instanceof GradringError)) throw error;
    throw invalidArgument(`connect({ ${given.join(', ')} }): ${error.message}`);
  }
}

/** @throws GradringError as {@link resolveConnectOptions} does. */
export function chooseEncryption(given: Encryption | undefined, env: NodeJS.ProcessEnv): Encryption {
  return oneOf(ENCRYPTIONS, 'encryption', given, 'GRADRING_ENCRYPTION', env) as Encryption;
}

function oneOf(
  allowed: readonly string[],
  option: string,
  given: string | undefined,
  variable: string,
  env: NodeJS.ProcessEnv,
): string {
  const value = given ?? (env[variable] || allowed[0]!);
  if (allowed.includes(value)) return value;
  throw wrongOption(option, given, variable, value, `one of ${allowed.join(', ')}`);
}

function timeout(
  option: string,
  given: number | undefined,
  variable: string,
  env: NodeJS.ProcessEnv,
  otherwise: number,
  least = 1,
): number {
  const value = given ?? Number(env[variable] || otherwise);
  if (!Number.isInteger(value) || value < least || value > LONGEST_DELAY_MS) {
    const allowed = `a whole number of milliseconds from ${least} to ${LONGEST_DELAY_MS}`;
    throw wrongOption(option, given, variable, env[variable], allowed);
  }
  return value;
}

/** The error for a wrong option, or for the variable that is used instead of it. */
function wrongOption(option: string, given: unknown, variable: string, text: unknown, allowed: string): GradringError {
  return given !== undefined
    ? invalidArgument(`${option} is '${String(given)}'; it must be ${allowed}.`)
    : new GradringError('ERR_INVALID_ENVIRONMENT', `${variable} is '${String(text)}'; it must be ${allowed}.`);
}
