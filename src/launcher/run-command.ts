import path from 'node:path';
import type { Argv, CommandModule, Options } from 'yargs';
import { Parser } from 'yargs/helpers';
import { flag, NUMBER_OPTION, TEXT_OPTION, toNumber } from '../command-line';
import { defaultWords, flagName, LAUNCHED, type LaunchedOption, plainMeaning } from '../environment/rank-options';
import { invalidArgument } from '../errors';
import { type HostRanks, parseHosts, readHostfile } from './hosts/host-list';
import { launchPlan } from './launch';
import { type LaunchOptions, type OptionWords, planLaunch } from './launch-options';
import { splitNodeOptions } from './node-options';

/** Those of {@link LAUNCHED}. */
const RANK_FLAGS = Object.fromEntries(
  LAUNCHED.map(([name]) => {
    const words = plainMeaning(name);
    const describe = `${words[0]!.toUpperCase()}${words.slice(1)} [default: ${defaultWords(name)}]`;
    return [flagName(name), { ...TEXT_OPTION, describe }];
  }),
) as Record<ReturnType<typeof flagName<LaunchedOption>>, Options>;

const OPTIONS = {
  ranks: {
    ...NUMBER_OPTION,
    alias: 'n',
    describe:
      'How many ranks to start on this host, or on each of --hosts that has no number [default: PET_NPROC_PER_NODE; required if neither that nor --hosts is set]',
  },
  hosts: {
    ...TEXT_OPTION,
    alias: 'H',
    describe: 'Start the ranks over ssh on these hosts, with so many ranks each: a:2,b:2 [default: this host]',
  },
  hostfile: {
    ...TEXT_OPTION,
    describe: 'A file with a host on each line, as in --hosts, or as in "a slots=2"; or with a line for each rank',
  },
  'ssh-args': { ...TEXT_OPTION, describe: 'Options for ssh itself, separated by spaces: --ssh-args="-p 2222"' },
  min: {
    ...NUMBER_OPTION,
    describe: 'Continue after a loss while at least this many ranks are left [default: no rank may be lost]',
  },
  'max-restarts': {
    ...NUMBER_OPTION,
    describe: 'How many times to start a lost rank again, or all ranks if too few are left [default: 0]',
  },
  'output-dir': {
    ...TEXT_OPTION,
    describe: 'A folder for the log of each rank: rank-0.log, … [default: no logs]',
  },
  ...RANK_FLAGS,
  'master-addr': {
    ...TEXT_OPTION,
    describe:
      'The host where the ranks meet: that of rank 0, in an elastic run that of the launcher; needed with --nodes [default: 127.0.0.1]',
  },
  'master-port': {
    ...NUMBER_OPTION,
    describe: 'The TCP port of the rendezvous [default: a free port; 29500 with --nodes]',
  },
  nodes: {
    ...NUMBER_OPTION,
    describe: 'How many hosts take part, each with its own launcher [default: 1, or the tasks of Slurm or MPI]',
  },
  'node-rank': {
    ...NUMBER_OPTION,
    describe: 'The number of this host: 0 … nodes − 1 [default: 0, or the number of the task]',
  },
  'token-file': {
    ...TEXT_OPTION,
    describe: 'A file with the run token, 64 hexadecimal digits, the same on every host [default: GRADRING_RUN_TOKEN]',
  },
  'gpus-per-rank': {
    ...NUMBER_OPTION,
    describe: 'How many GPUs of its own each rank gets, if there are any [default: 1]',
  },
  'node-args': {
    ...TEXT_OPTION,
    describe: 'Options for Node itself, separated by spaces: --node-args="--max-old-space-size=4096"',
  },
  'no-gpu': { type: 'boolean', default: false, describe: 'Compute on the CPU, even if there are GPUs' },
  'no-prefix': { type: 'boolean', default: false, describe: 'Do not begin output lines with the rank' },
  'grace-ms': {
    ...NUMBER_OPTION,
    describe: 'How long ranks may take to end when they are asked to, in ms; then they get SIGKILL [default: 10000]',
  },
} as const satisfies Record<string, Options>;

type CamelCase<Name extends string> = Name extends `${infer First}-${infer Rest}`
  ? `${First}${Capitalize<CamelCase<Rest>>}`
  : Name;

const asIs = (text: string): string => text;

/** How the text of each of {@link OPTIONS} is read for {@link LaunchOptions}. Undefined: its handler knows. */
const READERS = {
  ...{ ranks: toNumber, min: toNumber, maxRestarts: toNumber, nodes: toNumber, nodeRank: toNumber },
  ...{ masterPort: toNumber, gpusPerRank: toNumber, graceMs: toNumber },
  ...{ outputDir: asIs, tokenFile: asIs, masterAddr: asIs },
  ...(Object.fromEntries(LAUNCHED.map(([name, { read = asIs }]) => [name, read])) as Record<
    LaunchedOption,
    typeof asIs
  >),
  nodeArgs: (text: string) => splitNodeOptions(text, flag('node-args')),
  sshArgs: (text: string) => splitNodeOptions(text, flag('ssh-args')),
  ...{ hosts: undefined, hostfile: undefined, noGpu: undefined, noPrefix: undefined },
} as const satisfies Record<CamelCase<keyof typeof OPTIONS>, ((text: string) => unknown) | undefined>;

/** What {@link READERS} read. */
type Read = {
  [Name in keyof typeof READERS]?: (typeof READERS)[Name] extends (text: string) => infer Value ? Value : never;
};

/** `gradring run`: {@link launch} for the command line. The exit code is that of the launch. */
export const runCommand: CommandModule = {
  command: 'run',
  describe: 'Start a script as several ranks, on this host or on others',
  builder: (yargs: Argv) =>
    yargs
      .usage(
        '$0 run -n <ranks> [options] [--] <script> [arguments of the script...]\n' +
          '$0 run -H <hosts> [options] [--] <script> [arguments of the script...]\n\n' +
          'Starts a script as several ranks, on this host or over ssh on others. They train one model together.',
      )
      .options(OPTIONS)
      .example('$0 run -n 4 train.js', 'four ranks on this host')
      .example('$0 run -n 4 train.js --epochs 3', 'options after the script belong to the script')
      .example('$0 run -n 4 train.ts', 'TypeScript: needs Node 22.18 or newer, tsx or ts-node')
      .example('$0 run -n 4 --min 2 --max-restarts 3 train.js', 'continue when ranks are lost, and replace them')
      .example('$0 run -n 2 --output-dir logs train.js', 'write logs/rank-0.log and logs/rank-1.log')
      .example('$0 run -n 4 --link-rate 100mbit train.js', 'as over a network of 100 Mbit/s')
      .example('$0 run -H a:2,b:2 train.js', 'two ranks each on the hosts a and b, over ssh')
      .example('$0 run -n 4 --stop-after 55m train.js', 'save and end with exit code 75 after 55 minutes')
      .example('$0 run -n 2 --timeline trace train.js', 'record trace/rank-0.json and trace/rank-1.json')
      .example(
        '$0 run -n 8 --nodes 2 --node-rank 1 --master-addr 10.0.0.5 --token-file token train.js',
        'ranks 8 … 15 of 16; node 0 is 10.0.0.5',
      )
      .example(
        '$0 run -n 2 --nodes 2 --master-addr 10.0.0.5 --iface eth1 --port-range 30000-30003 --token-file token train.js',
        'listen at the address of eth1, at these ports',
      )
      .epilogue(
        'When a rank fails, the others are ended, and the exit code is that of the root cause. With --min or ' +
          '--max-restarts the others may continue. SIGINT, SIGTERM and SIGHUP are passed on to the ranks; the same signal ' +
          'again ends them at once. Told to stop by SIGTERM, SIGUSR1 or --stop-after, a training with a checkpoint ' +
          'saves, and the exit code is 75.',
      ),
  handler: async parsed => {
    const [script, ...args] = (parsed['--'] ?? []) as string[];
    if (script === undefined) throw invalidArgument(missingScriptWords(parsed));
    const hosts = hostsOf(parsed);
    const isCounted = (hosts ?? parsed['ranks']) !== undefined || Boolean(process.env['PET_NPROC_PER_NODE']);
    if (!isCounted) throw invalidArgument(missingRanksWords(script, args));
    const options: LaunchOptions = {
      script,
      args,
      ...(hosts !== undefined && { hosts }),
      prefix: !parsed['no-prefix'],
      ...given(parsed),
      ...(parsed['no-gpu'] === true && { gpusPerRank: 0 }),
    };
    process.exitCode = (await launchPlan(planLaunch(options, wordsFor(parsed)))).exitCode;
  },
};

function hostsOf({ hosts, hostfile }: Partial<Record<string, unknown>>): readonly HostRanks[] | undefined {
  if (hosts !== undefined && hostfile !== undefined) {
    throw invalidArgument('Give --hosts (-H) or --hostfile, not both.');
  }
  if (hosts !== undefined) return parseHosts(hosts as string, '--hosts (-H)');
  return hostfile === undefined ? undefined : readHostfile(hostfile as string, '--hostfile');
}

/** The values of the options on the command line. */
function given(parsed: Readonly<Record<string, unknown>>): Read {
  const entries = Object.entries(READERS).flatMap(([name, read]) => {
    const text = parsed[name] as string | undefined;
    return text === undefined || read === undefined ? [] : [[name, read(text)]];
  });
  return Object.fromEntries(entries) as Read;
}

function missingScriptWords(parsed: Readonly<Record<string, unknown>>): string {
  const isScript = (value: unknown): boolean => typeof value === 'string' && /\.[cm]?[jt]s$/.test(value);
  const option = Object.keys(OPTIONS).find(name => isScript(parsed[name]));
  const taken = option === undefined ? '' : ` (${flag(option)} took '${parsed[option] as string}')`;
  return `A script is missing${taken}. Usage: gradring run -n <ranks> <script>, or gradring run -H <hosts> <script>`;
}

function missingRanksWords(script: string, args: readonly string[]): string {
  const words = 'How many ranks? Give --ranks (-n), such as -n 4, or --hosts (-H).';
  const at = args.findIndex(word => /^(-n\d*|-H|--(ranks|hosts|hostfile)(=.*)?)$/.test(word));
  if (at === -1) return words;
  const late = args.slice(at, /^-\w$|^--\w+$/.test(args[at]!) ? at + 2 : at + 1).join(' ');
  const name = path.basename(script);
  return `${words} Options go before the script; '${late}' after ${name} belongs to ${name}.`;
}

/** Messages name options as flags, and show values as they were typed. */
function wordsFor(parsed: Readonly<Record<string, unknown>>): OptionWords {
  const hosts = parsed['hosts'] !== undefined ? '--hosts (-H)' : '--hostfile';
  const isTyped = parsed['hosts'] !== undefined || parsed['hostfile'] !== undefined;
  const names: { [option in keyof LaunchOptions]?: string } = {
    ranks: '--ranks (-n)',
    hosts: isTyped ? hosts : '--hosts or --hostfile',
  };
  return {
    nameOf: option => names[option] ?? flag(flagName(option)),
    valueOf: option => `'${parsed[option] as string}'`,
  };
}

/**
 * Puts `--` before the script of a `run` command line, so that what follows belongs to the script, as in
 * `run -n 2 train.js -n 5`. yargs could stop at the first word that is not an option, but for yargs that word is `run`.
 */
export function separateScript(argv: readonly string[]): string[] {
  const names = Object.keys(OPTIONS) as (keyof typeof OPTIONS)[];
  const isBoolean = (name: keyof typeof OPTIONS): boolean =>
    'type' in OPTIONS[name] && OPTIONS[name].type === 'boolean';
  const parsed = Parser(argv.slice(1), {
    alias: { help: 'h', ...Object.fromEntries(names.map(name => [name, (OPTIONS[name] as Options).alias ?? []])) },
    string: names.filter(name => !isBoolean(name)),
    boolean: [...names.filter(isBoolean), 'help'],
    configuration: { 'halt-at-non-option': true, 'boolean-negation': false, 'parse-positional-numbers': false },
  });
  const start = argv.length - parsed._.length;
  if (start === argv.length || argv[start - 1] === '--') return [...argv];
  return [...argv.slice(0, start), '--', ...argv.slice(start)];
}
