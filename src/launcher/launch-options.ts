import { statSync } from 'node:fs';
import path from 'node:path';
import { isMainThread } from 'node:worker_threads';
import { checkOptions } from '../check-options';
import { counted } from '../counted';
import type { FoundPlace } from '../environment/find-place';
import { MAX_PORT, withoutBrackets } from '../environment/network';
import {
  LAUNCHED,
  type LaunchedOption,
  OF_ONE_HOST,
  type RankOptions,
  variablesFor,
} from '../environment/rank-options';
import { DEFAULT_MASTER_PORT, MAX_WORLD_SIZE } from '../environment/variables';
import { GradringError, invalidArgument } from '../errors';
import { LONGEST_DELAY_MS } from '../waking-time';
import { checkHosts, type HostRanks } from './hosts/host-list';
import { ranksByEnvironment, taskOf } from './launcher-task';
import type { PortWords } from '../rendezvous/master-port';
import { typescriptOptions } from './typescript-loader';

/** What {@link launch} starts, and how. Times are in milliseconds. */
export interface LaunchOptions extends Partial<Pick<RankOptions, LaunchedOption>> {
  /**
   * How many ranks to start on this host, 1 or more. Required, unless `PET_NPROC_PER_NODE` says it, or there are
   * {@link hosts}; then it is that of each host that has no number, 1 by default.
   */
  readonly ranks?: number;
  /**
   * Starts the ranks on these hosts over `ssh`, in this order, and none here. Each host must have the script, gradring
   * and Node at the same paths and in the same versions. `localhost` and the name of this host need no `ssh`. A host
   * that hears nothing of this process for 60 s ends its ranks, so do not block it for that long. Default: this host.
   */
  readonly hosts?: readonly HostRanks[];
  /** Options for `ssh` itself, such as `['-p', '2222']`. */
  readonly sshArgs?: readonly string[];
  /**
   * The program of every rank: a JavaScript file that Node runs, relative to the working directory. A TypeScript file
   * (`.ts`, `.mts`, `.cts`) needs Node 22.6 or newer, or `tsx` or `ts-node` installed in the project of the script.
   */
  readonly script: string;
  /** The arguments of the script, passed on unchanged. */
  readonly args?: readonly string[];
  /** Arguments for Node itself, before the script, such as `--max-old-space-size=4096`. */
  readonly nodeArgs?: readonly string[];
  /**
   * The host where the ranks meet: that of rank 0, in an elastic run that of the launcher. Default `127.0.0.1`.
   * Required if there is more than one node, unless a scheduler says it.
   */
  readonly masterAddr?: string;
  /** Its TCP port. Default: a free one; with more than one node 29500, because all nodes must agree. */
  readonly masterPort?: number;
  /**
   * How many hosts take part, each with its own launcher and the same number of ranks. Default 1; in a task of Slurm,
   * MPI or another scheduler: as many as there are tasks.
   */
  readonly nodes?: number;
  /** The number of this host among them: 0 … nodes − 1. Default 0, or the number of the task. */
  readonly nodeRank?: number;
  /**
   * A file with the run token, the same on all nodes. Default: `GRADRING_RUN_TOKEN`; without it, on one node, a new
   * token.
   */
  readonly tokenFile?: string;
  /**
   * Makes the run elastic: when ranks are lost, the others continue while at least this many are left. With fewer, the
   * run fails, or all ranks are started again if {@link maxRestarts} allows it. One launcher only, and not from a
   * worker thread. Default: not elastic; with `maxRestarts`, the number of ranks.
   */
  readonly min?: number;
  /**
   * Makes the run elastic: how many times a lost rank is started again, to join the others, or all ranks if too few are
   * left. A rank that was started again and fails by itself before it has joined is not started once more. Default 0.
   */
  readonly maxRestarts?: number;
  /** A folder for the log of each rank, `rank-0.log`, …. It is created. Default: no logs. */
  readonly outputDir?: string;
  /** How many GPUs of its own each rank gets, if there are any. 0: it computes on the CPU. Default 1. */
  readonly gpusPerRank?: number;
  /** Environment variables for the ranks, in addition to those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Where the output of the ranks goes. Default: that of this process. The stream is not ended. */
  readonly stdout?: NodeJS.WritableStream;
  /** Where the error output of the ranks and the launcher's own messages go. Default: that of this process. */
  readonly stderr?: NodeJS.WritableStream;
  /** Whether each line of output begins with `[rank] `, in colour on a terminal. Default true. */
  readonly prefix?: boolean;
  /** How long ranks may take to end after SIGINT, SIGTERM or SIGHUP, before they get SIGKILL. Default 10,000. */
  readonly graceMs?: number;
  /**
   * How long the other ranks may continue after one failed, before they get SIGTERM. Default 3,000. This gives them
   * time to notice the loss and to report it themselves.
   */
  readonly failureGraceMs?: number;
}

/** How messages name the options. */
export interface OptionWords {
  /** An option's name. */
  readonly nameOf: (option: keyof LaunchOptions) => string;
  /** A number as it was given. */
  readonly valueOf: (option: keyof LaunchOptions, value: number) => string;
}

/** How errors name what decides on the master port. */
export function portWords({ nameOf }: OptionWords, place: string): PortWords {
  return { masterAddr: nameOf('masterAddr'), masterPort: nameOf('masterPort'), place };
}

/** For a program: the names in {@link LaunchOptions}. */
const PROGRAM_WORDS: OptionWords = { nameOf: option => option, valueOf: (_, value) => String(value) };

/** The options whose types a plan has, too. */
type Planned =
  | 'script'
  | 'args'
  | 'nodeArgs'
  | 'nodeRank'
  | 'gpusPerRank'
  | 'env'
  | 'stdout'
  | 'stderr'
  | 'prefix'
  | 'graceMs'
  | 'failureGraceMs';

/** {@link LaunchOptions} checked and completed, except for the port. */
export interface LaunchPlan extends Required<Pick<LaunchOptions, Planned>> {
  /** How many ranks this launcher starts, and the number of the first one. */
  readonly ranks: number;
  readonly firstRank: number;
  /** Where each of them runs. */
  readonly seats: readonly Seat[];
  /** Those of all launchers. */
  readonly worldSize: number;
  /** Undefined: the ranks run on this host. */
  readonly remote: RemotePlan | undefined;
  /** The working folder of the ranks. All paths here are absolute, whatever becomes of this process's own. */
  readonly folder: string;
  /** Not for ranks on other hosts: see {@link RemotePlan}. */
  readonly masterAddr: string;
  /** Undefined: any free port. */
  readonly masterPort: number | undefined;
  /** How many launchers take part. One starts the ranks of all hosts of a {@link RemotePlan}. */
  readonly nodes: number;
  /** Set if this launcher is one of several tasks of a scheduler. */
  readonly task: FoundPlace | undefined;
  /** Undefined: the run is not elastic, and the ranks end together. */
  readonly elastic: ElasticPlan | undefined;
  readonly tokenFile: string | undefined;
  readonly outputDir: string | undefined;
  /** For messages about the options. */
  readonly words: OptionWords;
}

/** The place of a rank. */
export interface Seat {
  /** Undefined: this host. */
  readonly host: string | undefined;
  /** Its number among the ranks there. */
  readonly localRank: number;
}

/** Where ranks run that are started over `ssh`. */
export interface RemotePlan {
  readonly hosts: readonly Required<HostRanks>[];
  readonly sshArgs: readonly string[];
  /** Undefined: the launcher finds out at which address the hosts reach the first one, or this one if it is elastic. */
  readonly masterAddr: string | undefined;
}

/** How an elastic run continues when ranks are lost. */
export type ElasticPlan = Required<Pick<LaunchOptions, 'min' | 'maxRestarts'>>;

const OPTIONS = {
  ...{ ranks: true, hosts: true, sshArgs: true },
  ...{ script: true, args: true, nodeArgs: true, env: true, stdout: true, stderr: true, prefix: true },
  ...{ masterAddr: true, masterPort: true, nodes: true, nodeRank: true, tokenFile: true, min: true, maxRestarts: true },
  ...{ outputDir: true, gpusPerRank: true, graceMs: true, failureGraceMs: true },
  ...(Object.fromEntries(LAUNCHED.map(([name]) => [name, true])) as Record<LaunchedOption, true>),
} as const satisfies Record<keyof LaunchOptions, true>;

/** More than any run needs. */
const MAX_RESTARTS = 2 ** 31 - 1;

/** More than any host has. */
const MAX_GPUS = 1024;

/**
 * Checks the options and completes them.
 *
 * @param words How errors name the options.
 * @throws GradringError `ERR_INVALID_ARGUMENT`, also for a TypeScript file that nothing on this machine can run;
 *   `ERR_SCRIPT_NOT_FOUND` if the script is not a file.
 */
export function planLaunch(options: LaunchOptions, words: OptionWords = PROGRAM_WORDS): LaunchPlan {
  checkOptions('launch', options, OPTIONS);
  const { gpusPerRank = 1, graceMs = 10_000, failureGraceMs = 3_000 } = options;
  const { nameOf } = words;
  const hosts = planHosts(options, words);
  requireWhole(words, 'gpusPerRank', gpusPerRank, 0, MAX_GPUS);
  const env = { ...process.env, ...options.env };
  const ranks =
    hosts?.reduce((sum, host) => sum + host.ranks, 0) ?? options.ranks ?? ranksByEnvironment(env, gpusPerRank);
  if (ranks === undefined) throw invalidArgument(`How many ranks? Give ${nameOf('ranks')}, or ${nameOf('hosts')}.`);
  const task = taskOf(options, nameOf);
  const { nodes = task?.worldSize ?? 1, nodeRank = task?.rank ?? 0 } = options;
  const masterAddr = options.masterAddr || task?.masterAddr;
  if (options.ranks !== undefined) requireWhole(words, 'ranks', options.ranks, 1, MAX_WORLD_SIZE);
  requireWhole(words, 'nodes', nodes, 1, MAX_WORLD_SIZE);
  requireWhole(words, 'nodeRank', nodeRank, 0, nodes - 1, `, because ${nameOf('nodes')} is ${nodes}`);
  requireWhole(words, 'graceMs', graceMs, 0, LONGEST_DELAY_MS);
  requireWhole(words, 'failureGraceMs', failureGraceMs, 0, LONGEST_DELAY_MS);
  if (options.masterPort !== undefined) requireWhole(words, 'masterPort', options.masterPort, 1, MAX_PORT);
  if (nodes * ranks > MAX_WORLD_SIZE) {
    const what = hosts === undefined ? `${nodes} nodes with ${ranks} ranks each are` : `${nameOf('hosts')} asks for`;
    throw invalidArgument(`${what} ${nodes * ranks} ranks; a run has at most ${MAX_WORLD_SIZE}.`);
  }
  if (nodes > 1 && !masterAddr) {
    throw invalidArgument(
      `${nameOf('nodes')} is ${nodes}, so ${nameOf('masterAddr')} is needed: the address of node 0, at which all other nodes reach it.`,
    );
  }
  const script = resolveScript(options.script);
  const { nodeArgs = [] } = options;
  return {
    ranks,
    firstRank: nodeRank * ranks,
    seats: (hosts ?? [{ host: undefined, ranks }]).flatMap(host =>
      Array.from({ length: host.ranks }, (_, localRank) => ({ host: host.host, localRank })),
    ),
    worldSize: nodes * ranks,
    remote: hosts && {
      hosts,
      sshArgs: options.sshArgs ?? [],
      masterAddr: options.masterAddr ? withoutBrackets(options.masterAddr) : undefined,
    },
    folder: process.cwd(),
    script,
    args: options.args ?? [],
    nodeArgs: [
      ...nodeArgs,
      // On other hosts their agents look.
      ...(hosts === undefined ? typescriptOptions(script, nodeArgs, env) : []),
    ],
    masterAddr: withoutBrackets(masterAddr || '127.0.0.1'),
    masterPort: options.masterPort ?? (nodes > 1 ? (task?.masterPort ?? DEFAULT_MASTER_PORT) : undefined),
    task,
    nodes,
    nodeRank,
    elastic: planElastic(options, ranks, nodes, words),
    tokenFile: options.tokenFile && path.resolve(options.tokenFile),
    outputDir: options.outputDir && path.resolve(options.outputDir),
    gpusPerRank,
    env: { ...options.env, ...variablesFor(options, env, { isElsewhere: hosts !== undefined, nameOf }) },
    stdout: options.stdout ?? process.stdout,
    stderr: options.stderr ?? process.stderr,
    prefix: options.prefix ?? true,
    graceMs,
    failureGraceMs,
    words,
  };
}

/** What the launcher of several hosts does not do, and why. */
const NOT_BESIDE_HOSTS: { readonly [name in keyof LaunchOptions]?: (hosts: string) => string } = {
  nodes: hosts => `is for a launcher on each host; with ${hosts} one launcher starts all ranks`,
  nodeRank: hosts => `is for a launcher on each host; with ${hosts} one launcher starts all ranks`,
  ...Object.fromEntries(OF_ONE_HOST.map(name => [name, hosts => `is about one host; ${hosts} may name several`])),
};

/** The hosts with the numbers of their ranks. Undefined: the ranks run on this host. */
function planHosts(options: LaunchOptions, { nameOf, valueOf }: OptionWords): Required<HostRanks>[] | undefined {
  const { hosts, ranks, sshArgs } = options;
  const name = nameOf('hosts');
  if (hosts === undefined) {
    if (sshArgs !== undefined) throw invalidArgument(`${nameOf('sshArgs')} needs ${name}.`);
    return undefined;
  }
  for (const other of Object.keys(NOT_BESIDE_HOSTS) as (keyof typeof NOT_BESIDE_HOSTS)[]) {
    if (options[other] === undefined) continue;
    throw invalidArgument(`${nameOf(other)} ${NOT_BESIDE_HOSTS[other]!(name)}.`);
  }
  checkHosts(hosts, name);
  if (ranks !== undefined && hosts.every(host => host.ranks !== undefined)) {
    throw invalidArgument(
      `${nameOf('ranks')} is ${valueOf('ranks', ranks)}, but every host in ${name} has its own number. Leave out one of them.`,
    );
  }
  return hosts.map(host => ({ host: host.host, ranks: host.ranks ?? ranks ?? 1 }));
}

function planElastic(
  { min, maxRestarts, hosts }: LaunchOptions,
  ranks: number,
  nodes: number,
  words: OptionWords,
): ElasticPlan | undefined {
  if (min === undefined && maxRestarts === undefined) return undefined;
  const { nameOf } = words;
  if (nodes > 1) {
    throw invalidArgument(
      `${nameOf('nodes')} is ${nodes}, but an elastic run (${nameOf('min')}, ${nameOf('maxRestarts')}) has one node.`,
    );
  }
  if (!isMainThread) {
    throw invalidArgument(
      `An elastic run (${nameOf('min')}, ${nameOf('maxRestarts')}) must be launched on the main thread of its process: a worker thread may be terminated with the rendezvous open, which would abort the process.`,
    );
  }
  const why =
    hosts === undefined ? `${nameOf('ranks')} is ${ranks}` : `${nameOf('hosts')} has ${counted(ranks, 'rank')}`;
  if (min !== undefined) requireWhole(words, 'min', min, 1, ranks, `, because ${why}`);
  if (maxRestarts !== undefined) requireWhole(words, 'maxRestarts', maxRestarts, 0, MAX_RESTARTS);
  return { min: min ?? ranks, maxRestarts: maxRestarts ?? 0 };
}

function requireWhole(
  { nameOf, valueOf }: OptionWords,
  option: keyof LaunchOptions,
  value: number,
  least: number,
  most: number,
  why = '',
): void {
  if (Number.isInteger(value) && value >= least && value <= most) return;
  const range = least === most ? String(least) : `a whole number from ${least} to ${most}`;
  throw invalidArgument(`${nameOf(option)} is ${valueOf(option, value)}; it must be ${range}${why}.`);
}

function resolveScript(script: string): string {
  const resolved = path.resolve(script);
  const found = statSync(resolved, { throwIfNoEntry: false });
  if (found?.isFile()) return resolved;
  const reason = !found ? 'does not exist' : found.isDirectory() ? 'is a directory, not a script' : 'is not a file';
  throw new GradringError('ERR_SCRIPT_NOT_FOUND', `${resolved} ${reason}.`);
}
