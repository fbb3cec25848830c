import type { Argv, CommandModule, Options } from 'yargs';
import { Parser } from 'yargs/helpers';
import { invalidArgument } from '../errors';
import { launch } from './launch';
import type { LaunchOptions } from './launch-options';

const OPTIONS = {
  ranks: {
    alias: 'n',
    type: 'number',
    requiresArg: true,
    demandOption: true,
    describe: 'How many ranks to start on this host',
  },
  min: {
    type: 'number',
    requiresArg: true,
    describe: 'Go on while so many ranks are left [default: none may be lost]',
  },
  'max-restarts': {
    type: 'number',
    requiresArg: true,
    describe: 'How many times to start a lost rank again, or all where too few are left [default: 0]',
  },
  'output-dir': {
    type: 'string',
    requiresArg: true,
    describe: 'Folder that keeps a log a rank: rank-0.log, … [default: no logs]',
  },
  timeline: {
    type: 'string',
    requiresArg: true,
    describe: 'Folder for a timeline a rank: rank-0.json, …; see timeline --help [default: none]',
  },
  'master-addr': {
    type: 'string',
    requiresArg: true,
    describe: 'Host where rank 0 holds the rendezvous [default: 127.0.0.1; needed with --nodes]',
  },
  'master-port': {
    type: 'number',
    requiresArg: true,
    describe: 'Its TCP port [default: a free one; 29500 with --nodes]',
  },
  nodes: { type: 'number', requiresArg: true, default: 1, describe: 'How many hosts take part' },
  'node-rank': { type: 'number', requiresArg: true, default: 0, describe: 'Which of them this is: 0 … nodes − 1' },
  'token-file': {
    type: 'string',
    requiresArg: true,
    describe: 'File with the run token, 64 hexadecimal digits, the same on every host [default: GRADRING_RUN_TOKEN]',
  },
  'gpus-per-rank': {
    type: 'number',
    requiresArg: true,
    default: 1,
    describe: 'How many GPUs of its own each rank gets, where there are any',
  },
  'no-gpu': { type: 'boolean', default: false, describe: 'Compute on the CPU, even where there are GPUs' },
  'no-prefix': { type: 'boolean', default: false, describe: 'Do not begin output lines with the rank' },
  'grace-ms': {
    type: 'number',
    requiresArg: true,
    default: 10_000,
    describe: 'How long ranks may take to end when asked to, before SIGKILL',
  },
} as const satisfies Record<string, Options>;

/** `gradring run`: {@link launch} for the command line. The exit code is that of the launch. */
export const runCommand: CommandModule = {
  command: 'run',
  describe: 'Start a script as several ranks on this host',
  builder: (yargs: Argv) =>
    yargs
      .usage('$0 run -n <ranks> [options] [--] <script> [arguments of the script...]')
      .options(OPTIONS)
      .example('$0 run -n 4 train.js', 'four ranks on this host')
      .example('$0 run -n 4 train.js --epochs 3', 'options after the script are its own')
      .example('$0 run -n 4 --min 2 --max-restarts 3 train.js', 'survives lost ranks, and replaces them')
      .example('$0 run -n 2 --output-dir logs train.js', 'keeps logs/rank-0.log and logs/rank-1.log')
      .example('$0 run -n 2 --timeline trace train.js', 'records trace/rank-0.json and trace/rank-1.json')
      .example(
        '$0 run -n 8 --nodes 2 --node-rank 1 --master-addr 10.0.0.5 --token-file token train.js',
        'ranks 8 … 15 of 16, where node 0 is 10.0.0.5',
      )
      .epilogue(
        'When a rank fails, the others are ended, and the exit code is that of the first failure; with --min or ' +
          '--max-restarts the others may go on. SIGINT, SIGTERM and ' +
          'SIGHUP are passed on; the same signal again ends the ranks at once.',
      ),
  handler: async parsed => {
    const [script, ...args] = (parsed['--'] ?? []) as string[];
    if (script === undefined) throw invalidArgument('No script was named. Usage: gradring run -n <ranks> <script>');
    const options: LaunchOptions = {
      script,
      args,
      ranks: parsed['ranks'] as number,
      prefix: !parsed['no-prefix'],
      nodes: parsed['nodes'] as number,
      nodeRank: parsed['node-rank'] as number,
      graceMs: parsed['grace-ms'] as number,
      gpusPerRank: parsed['no-gpu'] ? 0 : (parsed['gpus-per-rank'] as number),
      ...(parsed['min'] !== undefined && { min: parsed['min'] as number }),
      ...(parsed['max-restarts'] !== undefined && { maxRestarts: parsed['max-restarts'] as number }),
      ...(parsed['output-dir'] !== undefined && { outputDir: parsed['output-dir'] as string }),
      ...(parsed['timeline'] !== undefined && { timeline: parsed['timeline'] as string }),
      ...(parsed['token-file'] !== undefined && { tokenFile: parsed['token-file'] as string }),
      ...(parsed['master-addr'] !== undefined && { masterAddr: parsed['master-addr'] as string }),
      ...(parsed['master-port'] !== undefined && { masterPort: parsed['master-port'] as number }),
    };
    process.exitCode = (await launch(options)).exitCode;
  },
};

/**
 * Puts `--` before the script of a `run` command line, so that what follows stays the script's own, as in
 * `run -n 2 train.js -n 5`. yargs could halt at the first non-option itself, but for it that is the word `run`.
 */
export function separateScript(argv: readonly string[]): string[] {
  if (argv[0] !== 'run') return [...argv];
  const parsed = Parser(argv.slice(1), {
    alias: { ranks: ['n'], help: ['h'] },
    ...namesByType(),
    configuration: { 'halt-at-non-option': true, 'boolean-negation': false, 'parse-positional-numbers': false },
  });
  const start = argv.length - parsed._.length;
  if (start === argv.length || argv[start - 1] === '--') return [...argv];
  return [...argv.slice(0, start), '--', ...argv.slice(start)];
}

/** The options as yargs' parser wants them. */
function namesByType(): Record<'number' | 'string' | 'boolean', string[]> {
  const entries: [string, { type: 'number' | 'string' | 'boolean' }][] = Object.entries(OPTIONS);
  const named = (type: string): string[] => entries.filter(([, option]) => option.type === type).map(([name]) => name);
  return { number: named('number'), string: named('string'), boolean: [...named('boolean'), 'help'] };
}
