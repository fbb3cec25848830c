import { statSync } from 'node:fs';
import path from 'node:path';
import { checkOptions } from '../check-options';
import { GradringError, invalidArgument } from '../errors';
import { LONGEST_DELAY_MS } from '../longest-delay';
import { typescriptOptions } from './typescript-loader';

/** What to start, and how. Times are in milliseconds. */
export interface LaunchOptions {
  /** How many ranks to start on this host: 1 or more. */
  readonly ranks: number;
  /**
   * The program of every rank: a JavaScript file, relative to the working directory. Node runs it. A TypeScript file
   * (`.ts`, `.mts`, `.cts`) needs a Node that runs it by itself (22.6 or newer), or `tsx` or `ts-node` where the script
   * or the working directory finds it.
   */
  readonly script: string;
  /** The script's own arguments, passed on untouched. */
  readonly args?: readonly string[];
  /** Arguments for Node itself, before the script, such as `--max-old-space-size=4096`. */
  readonly nodeArgs?: readonly string[];
  /** Where rank 0 holds the rendezvous. Default `127.0.0.1`; needed when there are more nodes than one. */
  readonly masterAddr?: string;
  /** Its TCP port. Default: a free one; with more nodes than one 29500, since all nodes must agree. */
  readonly masterPort?: number;
  /** How many hosts take part, each with its own launcher and as many ranks as here. Default 1. */
  readonly nodes?: number;
  /** Which of them this one is: 0 … nodes − 1. Default 0. */
  readonly nodeRank?: number;
  /**
   * A file that holds the run token, the same on all nodes. Default: what `GRADRING_RUN_TOKEN` says; else, on one node,
   * a new one.
   */
  readonly tokenFile?: string;
  /**
   * The run is elastic: when ranks are lost, the others go on while there are so many of them. Fewer are a failure, or
   * a restart of all if {@link maxRestarts} allows one. One node only. Default: not elastic; with `maxRestarts` as many
   * as there are ranks.
   */
  readonly min?: number;
  /**
   * The run is elastic: so many times a lost rank is started again, to join the others, or all ranks are, where too few
   * are left. A rank that was started again and fails by itself before it has joined is not. Default: 0.
   */
  readonly maxRestarts?: number;
  /** A folder for one log a rank: `rank-0.log`, …; it is created. Default: no logs. */
  readonly outputDir?: string;
  /** A folder for one timeline a rank: `rank-0.json`, …; it is made. Default: what `GRADRING_TIMELINE` says. */
  readonly timeline?: string;
  /** How many GPUs of its own each rank gets, if there are any; 0: none, it computes on the CPU. Default 1. */
  readonly gpusPerRank?: number;
  /** Variables for the ranks, beside those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Where the ranks' output goes. Default: this process's. The streams are not ended. */
  readonly stdout?: NodeJS.WritableStream;
  /** Where the ranks' error output and the launcher's own words go. Default: this process's. */
  readonly stderr?: NodeJS.WritableStream;
  /** Whether each line begins with `[rank] `, coloured on a terminal. Default true. */
  readonly prefix?: boolean;
  /** How long ranks that were asked to end (SIGINT, SIGTERM, SIGHUP) may take before SIGKILL. Default 10,000. */
  readonly graceMs?: number;
  /**
   * How long the other ranks may go on after one failed, before they get SIGTERM. Default 3,000. It lets them notice
   * the loss and report it in their own words.
   */
  readonly failureGraceMs?: number;
}

/** How messages speak of the options. */
export interface OptionWords {
  /** An option's name. */
  readonly nameOf: (option: keyof LaunchOptions) => string;
  /** A number as it was given. */
  readonly valueOf: (option: keyof LaunchOptions, value: number) => string;
}

/** For a program, which names the options of {@link LaunchOptions}. */
const PROGRAM_WORDS: OptionWords = { nameOf: option => option, valueOf: (_, value) => String(value) };

/** {@link LaunchOptions} checked, with all defaults but the port's. */
export interface LaunchPlan {
  readonly ranks: number;
  /** Absolute. */
  readonly script: string;
  readonly args: readonly string[];
  readonly nodeArgs: readonly string[];
  readonly masterAddr: string;
  /** Undefined: any free one. */
  readonly masterPort: number | undefined;
  readonly nodes: number;
  readonly nodeRank: number;
  /** Undefined: the ranks end together. */
  readonly elastic: ElasticPlan | undefined;
  readonly tokenFile: string | undefined;
  readonly outputDir: string | undefined;
  readonly gpusPerRank: number;
  readonly env: Readonly<Record<string, string>>;
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream;
  readonly prefix: boolean;
  readonly graceMs: number;
  readonly failureGraceMs: number;
  /** For messages about the options. */
  readonly words: OptionWords;
}

/** How an elastic run goes on when ranks are lost. */
export interface ElasticPlan {
  readonly min: number;
  readonly maxRestarts: number;
}

const OPTIONS = {
  ...{ ranks: true, script: true, args: true, nodeArgs: true, env: true, stdout: true, stderr: true, prefix: true },
  ...{ masterAddr: true, masterPort: true, nodes: true, nodeRank: true, tokenFile: true, min: true, maxRestarts: true },
  ...{ outputDir: true, timeline: true, gpusPerRank: true, graceMs: true, failureGraceMs: true },
} as const satisfies Record<keyof LaunchOptions, true>;

/** torchrun's, and the one that a rank takes when nobody names any. */
const DEFAULT_MASTER_PORT = 29_500;

/** What WORLD_SIZE may be at most. */
const MAX_WORLD_SIZE = 65_535;

/** More than any run needs. */
const MAX_RESTARTS = 2 ** 31 - 1;

/** More than any host has. */
const MAX_GPUS = 1024;

/**
 * Checks the options and completes them.
 *
 * @param words How errors speak of the options.
 * @throws GradringError `ERR_INVALID_ARGUMENT`, also for a TypeScript file that nothing here can run, or
 *   `ERR_SCRIPT_NOT_FOUND` if the script is no file.
 */
export function planLaunch(options: LaunchOptions, words: OptionWords = PROGRAM_WORDS): LaunchPlan {
  checkOptions('launch', options, OPTIONS);
  const { ranks, nodes = 1, nodeRank = 0, gpusPerRank = 1, graceMs = 10_000, failureGraceMs = 3_000 } = options;
  const { nameOf } = words;
  requireWhole(words, 'ranks', ranks, 1, MAX_WORLD_SIZE);
  requireWhole(words, 'nodes', nodes, 1, MAX_WORLD_SIZE);
  requireWhole(words, 'nodeRank', nodeRank, 0, nodes - 1, `, because ${nameOf('nodes')} is ${nodes}`);
  requireWhole(words, 'gpusPerRank', gpusPerRank, 0, MAX_GPUS);
  requireWhole(words, 'graceMs', graceMs, 0, LONGEST_DELAY_MS);
  requireWhole(words, 'failureGraceMs', failureGraceMs, 0, LONGEST_DELAY_MS);
  if (options.masterPort !== undefined) requireWhole(words, 'masterPort', options.masterPort, 1, 65_535);
  if (nodes * ranks > MAX_WORLD_SIZE) {
    throw invalidArgument(
      `${nodes} nodes with ${ranks} ranks each are ${nodes * ranks} ranks; a run has at most ${MAX_WORLD_SIZE}.`,
    );
  }
  if (nodes > 1 && !options.masterAddr) {
    throw invalidArgument(
      `${nameOf('nodes')} is ${nodes}, so ${nameOf('masterAddr')} is needed: the address of node 0, at which all other nodes reach it.`,
    );
  }
  const script = resolveScript(options.script);
  const { nodeArgs = [] } = options;
  return {
    ranks,
    script,
    args: options.args ?? [],
    nodeArgs: [...nodeArgs, ...typescriptOptions(script, nodeArgs, { ...process.env, ...options.env })],
    masterAddr: options.masterAddr || '127.0.0.1',
    masterPort: options.masterPort ?? (nodes > 1 ? DEFAULT_MASTER_PORT : undefined),
    nodes,
    nodeRank,
    elastic: planElastic(options, words),
    tokenFile: options.tokenFile,
    outputDir: options.outputDir,
    gpusPerRank,
    env: {
      ...options.env,
      ...(options.timeline !== undefined && { GRADRING_TIMELINE: path.resolve(options.timeline) }),
    },
    stdout: options.stdout ?? process.stdout,
    stderr: options.stderr ?? process.stderr,
    prefix: options.prefix ?? true,
    graceMs,
    failureGraceMs,
    words,
  };
}

function planElastic(
  { ranks, nodes = 1, min, maxRestarts }: LaunchOptions,
  words: OptionWords,
): ElasticPlan | undefined {
  if (min === undefined && maxRestarts === undefined) return undefined;
  const { nameOf } = words;
  if (nodes > 1) {
    throw invalidArgument(
      `${nameOf('nodes')} is ${nodes}, but an elastic run (${nameOf('min')}, ${nameOf('maxRestarts')}) has one node.`,
    );
  }
  if (min !== undefined) requireWhole(words, 'min', min, 1, ranks, `, because ${nameOf('ranks')} is ${ranks}`);
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
