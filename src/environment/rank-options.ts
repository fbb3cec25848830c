import path from 'node:path';
import { GradringError, invalidArgument } from '../errors';
import { LONGEST_DELAY_MS } from '../waking-time';
import { printable } from '../printable';
import { A_DELAY, msOf } from './link-delay';
import { A_RATE, bitsPerSecondOf } from './link-rate';
import { NETWORK_FAULTS } from './network';
import { stopAfterMs } from './stop';
import { MOST_THREADS } from './threads';

/** How the ranks of one host are connected; see {@link RankOptions.transport}. */
export type TransportName = 'auto' | 'tcp' | 'ipc';

/** When TCP is encrypted; see {@link RankOptions.encryption}. */
export type Encryption = 'auto' | 'on' | 'off';

/** The defaults come first. */
export const TRANSPORTS: readonly TransportName[] = ['auto', 'tcp', 'ipc'];
export const ENCRYPTIONS: readonly Encryption[] = ['auto', 'on', 'off'];

/**
 * How a rank takes part in its ring. Each option is one member here, and one row of {@link RANK_OPTIONS}: `connect`
 * takes all of them, and each has a variable.
 */
export interface RankOptions {
  /**
   * How long a collective may take before it fails with `ERR_TIMEOUT`, in ms. Default 300,000; `GRADRING_TIMEOUT_MS`.
   */
  readonly timeoutMs: number;
  /** How long to wait until all ranks have come, in ms. Default 60,000; `GRADRING_CONNECT_TIMEOUT_MS`. */
  readonly connectTimeoutMs: number;
  /**
   * After how long a collective that waits prints on stderr which ranks it waits for, in ms; again after twice that
   * time, and so on. So does rank 0 of a static run before there is a ring. 0: never. Default 30,000;
   * `GRADRING_STALL_MS`.
   */
  readonly stallMs: number;
  /**
   * How long a neighbour may be silent before it counts as lost, in ms. Default 10,000;
   * `GRADRING_HEARTBEAT_TIMEOUT_MS`.
   */
  readonly heartbeatTimeoutMs: number;
  /**
   * `auto`: unix sockets between ranks of one host, TCP between hosts. `tcp` and `ipc` force one. Default `auto`;
   * `GRADRING_TRANSPORT`.
   */
  readonly transport: TransportName;
  /**
   * `auto`: TCP is encrypted, and both ends must prove that they belong to this run, except on the loopback interface.
   * `on`: there too. `off`: never. All ranks must use the same value. Default `auto`; `GRADRING_ENCRYPTION`. Encryption
   * needs a run token.
   */
  readonly encryption: Encryption;
  /**
   * The network interface, such as `eth1`, at whose address ranks listen for neighbours on other hosts: IPv4 if it has
   * that. Default: the interface towards the master; `GRADRING_IFACE`.
   */
  readonly iface: string | undefined;
  /**
   * The TCP ports at which the ranks of a host listen for their neighbours, such as `30000-30100`: at most two for each
   * rank. The master port is another one. Default: any that are free; `GRADRING_PORT_RANGE`.
   */
  readonly portRange: string | undefined;
  /**
   * The IP address at which other hosts reach the ranks of this host, if that is none of its own: behind NAT, in a
   * container. Ports must stay the same. Without {@link iface} ranks then listen at all interfaces. Default: the
   * address at which they listen; `GRADRING_ADVERTISE_ADDR`.
   */
  readonly advertiseAddr: string | undefined;
  /**
   * How many threads of a rank compress, encode and decode gradients with `lowRank()`, `dgc()` or `gradientDropping()`,
   * 1 to 64. Other compressions use one. The number changes no bit. Default: the rank's share of the cores of its host,
   * less the one that trains; `GRADRING_THREADS`.
   */
  readonly threads: number | undefined;
  /**
   * For experiments: limits what a rank sends to the rate of a slow network, such as `100mbit` or `2.5gbit`, though its
   * real links are faster. All ranks must use the same value. Default: no limit; `GRADRING_LINK_RATE`.
   */
  readonly linkRate: string | undefined;
  /**
   * For experiments: everything on the links and lanes between neighbours arrives so much later, such as `50ms`, in
   * each direction. The ranks then use TCP on one host, too. All ranks must use the same value. Default: no delay;
   * `GRADRING_LINK_DELAY`.
   */
  readonly linkDelay: string | undefined;
  /** The delay varies by so much in both directions, such as `10ms`. Default: not at all; `GRADRING_LINK_JITTER`. */
  readonly linkJitter: string | undefined;
  /**
   * A folder for the timeline of each rank, `rank-0.json`, …: a trace for chrome://tracing and ui.perfetto.dev. It is
   * created. Default: no timeline; `GRADRING_TIMELINE`.
   */
  readonly timeline: string | undefined;
  /**
   * After this time since its start, such as `55m` or `11.5h`, a rank is told to stop, as by SIGTERM: all ranks save
   * and end ({@link CheckpointOptions.saveOnStop}). Default: it is not; `GRADRING_STOP_AFTER`.
   */
  readonly stopAfter: string | undefined;
}

/** An option of a rank: one row. */
interface Row<Value> {
  readonly variable: string;
  /** Without it, there is no value unless one is given. */
  readonly byDefault?: Value;
  /** The value of a variable's text. Default: the text. */
  readonly read?: (text: string) => Value;
  /** What the value must be, if it is something else. */
  readonly faultOf?: (value: Value) => string | undefined;
  /** What it means, for the reference pages (Markdown) and `--help`. */
  readonly meaning: string;
  /** The default in words, if there is no value. */
  readonly otherwise?: string;
  /** `gradring run` and `launch` have the option, too, and pass it on to the ranks. */
  readonly isLaunched?: true;
  /** It is about one host: `ranksCheck` it where they run, or there may be `one` host only. */
  readonly host?: 'ranksCheck' | 'one';
  /** A folder, which does not change with the working directory. */
  readonly isFolder?: true;
  /** All ranks must have the same value; how messages name it. */
  readonly agreed?: string;
}

const whole = (least: number, most: number, what = 'a whole number') => ({
  read: Number,
  faultOf: (value: number) =>
    Number.isInteger(value) && value >= least && value <= most ? undefined : `${what} from ${least} to ${most}`,
});

const milliseconds = (least: number) => whole(least, LONGEST_DELAY_MS, 'a whole number of milliseconds');

const oneOf = <Name extends string>(names: readonly Name[]) => ({
  byDefault: names[0]!,
  read: (text: string) => text as Name,
  faultOf: (value: Name) => (names.includes(value) ? undefined : `one of ${names.join(', ')}`),
});

/** @param parse Gives undefined for a text that is not what the words say. */
const parsedBy = (parse: (text: string) => unknown, words: string) => ({
  faultOf: (text: string) => (parse(text) === undefined ? words : undefined),
});

/** In the order of the reference pages. */
export const RANK_OPTIONS = {
  timeoutMs: {
    variable: 'GRADRING_TIMEOUT_MS',
    ...milliseconds(1),
    byDefault: 300_000,
    meaning: 'the deadline of a collective',
  },
  connectTimeoutMs: {
    variable: 'GRADRING_CONNECT_TIMEOUT_MS',
    ...milliseconds(1),
    byDefault: 60_000,
    meaning: 'how long to wait until all ranks have come',
  },
  stallMs: {
    variable: 'GRADRING_STALL_MS',
    ...milliseconds(0),
    byDefault: 30_000,
    meaning:
      'after how long a collective that waits, or rank 0 of a static run before there is a ring, prints which ranks are missing ([stall report](../reliability.md#the-stall-report)); 0: never',
  },
  heartbeatTimeoutMs: {
    variable: 'GRADRING_HEARTBEAT_TIMEOUT_MS',
    ...milliseconds(1),
    byDefault: 10_000,
    meaning: 'how long a neighbour may be silent before it counts as lost',
  },
  transport: {
    variable: 'GRADRING_TRANSPORT',
    ...oneOf(TRANSPORTS),
    meaning: '`auto` (unix sockets within a host, TCP between hosts), `tcp`, `ipc`',
  },
  encryption: {
    variable: 'GRADRING_ENCRYPTION',
    ...oneOf(ENCRYPTIONS),
    agreed: 'encryption',
    meaning: '`auto` (TCP that leaves the host), `on` (TCP on loopback too), `off`; the same on all ranks',
  },
  timeline: {
    variable: 'GRADRING_TIMELINE',
    isLaunched: true,
    isFolder: true,
    meaning:
      'a folder for the [timeline](../how-to/timeline.md) of each rank: `rank-0.json`, …; `gradring timeline merge` merges them',
    otherwise: 'no timeline',
  },
  stopAfter: {
    variable: 'GRADRING_STOP_AFTER',
    ...parsedBy(stopAfterMs, 'a time such as 90s, 55m or 11.5h'),
    isLaunched: true,
    meaning:
      'after this time since the start of a rank, such as `55m` or `11.5h`, all ranks [save and stop](../how-to/save-and-resume.md#when-it-is-told-to-stop)',
    otherwise: 'they do not',
  },
  threads: {
    variable: 'GRADRING_THREADS',
    ...whole(1, MOST_THREADS),
    meaning:
      'how many [threads](../architecture.md#threads) of a rank compress, encode and decode gradients with `lowRank()`, `dgc()` or `gradientDropping()`; other compressions use one',
    otherwise: 'its share of the cores, less the one that trains',
  },
  linkRate: {
    variable: 'GRADRING_LINK_RATE',
    ...parsedBy(bitsPerSecondOf, A_RATE),
    isLaunched: true,
    agreed: 'link rate',
    meaning:
      'for experiments: each rank sends no faster than [a network of this rate](../how-to/network-lab.md#without-root), such as `100mbit`; the same on all ranks',
    otherwise: 'no limit',
  },
  linkDelay: {
    variable: 'GRADRING_LINK_DELAY',
    ...parsedBy(msOf, A_DELAY),
    isLaunched: true,
    agreed: 'link delay',
    meaning:
      'for experiments: everything between neighbours arrives [so much later](../how-to/network-lab.md#a-long-delay), such as `50ms`, in each direction; the same on all ranks',
    otherwise: 'no delay',
  },
  linkJitter: {
    variable: 'GRADRING_LINK_JITTER',
    ...parsedBy(msOf, A_DELAY),
    isLaunched: true,
    agreed: 'link jitter',
    meaning: 'the link delay varies by so much, such as `10ms`: less than the delay; the same on all ranks',
    otherwise: 'it does not vary',
  },
  iface: {
    variable: 'GRADRING_IFACE',
    faultOf: NETWORK_FAULTS.iface,
    isLaunched: true,
    host: 'ranksCheck',
    meaning:
      'the [network interface](../how-to/start-ranks.md#several-interfaces-firewalls-nat), such as `eth1`, at which ranks of other hosts reach these',
    otherwise: 'the one to the master',
  },
  portRange: {
    variable: 'GRADRING_PORT_RANGE',
    faultOf: NETWORK_FAULTS.portRange,
    isLaunched: true,
    meaning: 'the TCP ports of the ranks, such as `30000-30100`: up to two for each rank of a host',
    otherwise: 'any that are free',
  },
  advertiseAddr: {
    variable: 'GRADRING_ADVERTISE_ADDR',
    faultOf: NETWORK_FAULTS.advertiseAddr,
    isLaunched: true,
    host: 'one',
    meaning: 'the IP address at which other hosts reach these ranks, behind NAT or in a container',
    otherwise: 'the one where they listen',
  },
} as const satisfies { readonly [Name in keyof RankOptions]: Row<NonNullable<RankOptions[Name]>> };

export type RankOption = keyof RankOptions;

/** Those that `gradring run` and `launch` have, too. */
export type LaunchedOption = {
  [Name in keyof RankOptions]: (typeof RANK_OPTIONS)[Name] extends { isLaunched: true } ? Name : never;
}[keyof RankOptions];

const ROWS: readonly (readonly [RankOption, Row<string | number>])[] = Object.entries(
  RANK_OPTIONS as unknown as Readonly<Record<RankOption, Row<string | number>>>,
) as never;

/** The rows of {@link LaunchedOption}. */
export const LAUNCHED = ROWS.filter(([, row]) => row.isLaunched) as readonly (readonly [
  LaunchedOption,
  Row<string | number>,
])[];

/** Those that are about one host. */
export const OF_ONE_HOST: readonly LaunchedOption[] = LAUNCHED.flatMap(([name, { host }]) =>
  host === 'one' ? name : [],
);

/**
 * Completes the options of a rank with its variables and the defaults.
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` or `ERR_INVALID_ENVIRONMENT`, naming the option or the variable.
 */
export function readRankOptions(given: Partial<RankOptions>, env: NodeJS.ProcessEnv): RankOptions {
  return Object.fromEntries(ROWS.map(([name]) => [name, readRankOption(name, given[name], env)])) as never;
}

/** {@link readRankOptions} for one of them. */
export function readRankOption<Name extends RankOption>(
  name: Name,
  given: RankOptions[Name] | undefined,
  env: NodeJS.ProcessEnv,
): RankOptions[Name] {
  const { variable, byDefault, read = String } = RANK_OPTIONS[name] as unknown as Row<string | number>;
  const text = env[variable] || undefined;
  const value = given ?? (text === undefined ? byDefault : read(text));
  const fault = value === undefined ? undefined : faultIn(RANK_OPTIONS[name], value);
  if (fault === undefined) return value as RankOptions[Name];
  throw given === undefined
    ? new GradringError('ERR_INVALID_ENVIRONMENT', `${variable} is '${text}'; it must be ${fault}.`)
    : invalidArgument(`${name} is '${String(given)}'; it must be ${fault}.`);
}

/**
 * The variables by which the launcher passes its options on to the ranks.
 *
 * @param env The variables that the ranks get in any case.
 * @param isElsewhere Whether the ranks are on other hosts.
 * @throws GradringError `ERR_INVALID_ARGUMENT`.
 */
export function variablesFor(
  given: Partial<Pick<RankOptions, LaunchedOption>>,
  env: NodeJS.ProcessEnv,
  { isElsewhere, nameOf }: { isElsewhere: boolean; nameOf: (option: LaunchedOption) => string },
): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const [name, row] of LAUNCHED) {
    const value = given[name] ?? (row.isFolder ? env[row.variable] : undefined);
    if (value === undefined || value === '') continue;
    const fault = isElsewhere && row.host === 'ranksCheck' ? undefined : faultIn(row, value);
    if (fault !== undefined) throw invalidArgument(`${nameOf(name)} is '${value}'; it must be ${fault}.`);
    variables[row.variable] = row.isFolder ? path.resolve(value) : String(value);
  }
  return variables;
}

/** What a value must be, if it is something else. */
function faultIn(row: unknown, value: unknown): string | undefined {
  const { read, faultOf } = row as Row<unknown>;
  return read === undefined && typeof value !== 'string' ? 'a text' : faultOf?.(value);
}

const AGREED = ROWS.filter(([, row]) => row.agreed !== undefined);

/** The values on which all ranks must agree, as texts. */
export function agreedValues(options: RankOptions): string[] {
  return AGREED.map(([name]) => String(options[name] ?? ''));
}

/** Where two ranks do not agree, in words: `link rate '1gbit', rank 0 has 'none'`. Undefined: they agree. */
export function disagreement(of: readonly string[], holder: string, its: readonly string[]): string | undefined {
  const at = AGREED.findIndex((_, i) => of[i] !== its[i]);
  if (at === -1) return undefined;
  return `${AGREED[at]![1].agreed} '${printable(of[at] || 'none', 40)}', ${holder} has '${its[at] || 'none'}'`;
}

/** The default of an option in words. */
export function defaultWords(name: RankOption): string {
  const { byDefault, otherwise } = RANK_OPTIONS[name] as Row<string | number>;
  return otherwise ?? String(byDefault);
}

/** What an option means, without Markdown. */
export function plainMeaning(name: RankOption): string {
  return RANK_OPTIONS[name].meaning.replace(/\[(.*?)\]\(.*?\)|`/g, '$1');
}

/** The name of an option as a flag has it: `link-rate`. */
export function flagName<Name extends string>(option: Name): KebabCase<Name> {
  return option.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`) as KebabCase<Name>;
}

type KebabCase<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Uppercase<First> ? `-${Lowercase<First>}` : First}${KebabCase<Rest>}`
  : Name;
