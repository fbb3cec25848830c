#!/usr/bin/env node
import yargs, { type CommandModule } from 'yargs';
import { GradringError, invalidArgument } from './errors';
import { requireNode } from './node-version';
import { type ParsedCommand, usageWords } from './usage-words';
import { readVersion } from './version';

/**
 * Each command has a file of its own, in the folder of its subject. To add a command, list it here. Only the one that
 * is run is loaded: so ranks start without benchmarks and studies.
 */
const COMMANDS: Readonly<Record<string, () => Promise<CommandModule>>> = {
  run: async () => (await import('./launcher/run-command')).runCommand,
  agent: async () => (await import('./launcher/hosts/agent')).agentCommand,
  bench: async () => (await import('./bench/bench-command')).benchCommand,
  study: async () => (await import('./study/study-command')).studyCommand,
  timeline: async () => (await import('./timeline/timeline-command')).timelineCommand,
  doctor: async () => (await import('./doctor/doctor-command')).doctorCommand,
  'link-tensorflow': async () => (await import('./native-tensorflow/link-command')).linkCommand,
};

/** Errors in the command line itself, not in the work of a command. */
const USAGE_ERRORS: ReadonlySet<string> = new Set([
  'ERR_INVALID_ARGUMENT',
  'ERR_INVALID_ENVIRONMENT',
  'ERR_SCRIPT_NOT_FOUND',
]);

/**
 * Runs one command line, without the program's name. Never rejects: an error is printed on stderr. The exit code of the
 * process is 2 if the command line was wrong, 1 for other errors, and otherwise what the command sets.
 */
export async function main(argv: readonly string[]): Promise<void> {
  try {
    if (argv[0] !== 'doctor') requireNode(); // the doctor tells more
    await run(argv);
  } catch (error) {
    report(error);
  }
}

async function run(argv: readonly string[]): Promise<void> {
  const [name = ''] = argv;
  const isKnown = Object.hasOwn(COMMANDS, name);
  const commands = await Promise.all((isKnown ? [name] : Object.keys(COMMANDS)).map(each => COMMANDS[each]!()));
  const separated = name === 'run' ? (await import('./launcher/run-command')).separateScript(argv) : [...argv];
  const parser = yargs(separated)
    .scriptName('gradring')
    .locale('en')
    .parserConfiguration({
      'populate--': true,
      'boolean-negation': false,
      'duplicate-arguments-array': false,
      'parse-numbers': false, // So that the `007` of a script stays what it is.
      'parse-positional-numbers': false,
    })
    .usage('$0 <command> [options]\n\nTrains one TensorFlow.js model on many processes.')
    .command(commands)
    .demandCommand(1, 'A command is missing.')
    .strict()
    .version(readVersion())
    .alias('help', 'h')
    .example('$0 run -n 4 train.js', 'train with four processes on this host')
    .example('$0 doctor', 'show what this machine has for a ring')
    .example('$0 bench all-reduce -n 4', 'measure a collective on four ranks')
    .epilogue('$0 <command> --help shows the options of a command.')
    .wrap(Math.min(120, process.stdout.columns ?? 100))
    .exitProcess(false)
    .fail((message, error) => {
      // yargs reports a wrong command line as a YError. All other errors come from the work of the command.
      if (error && error.name !== 'YError') throw error;
      const typed = separated.slice(0, separated.includes('--') ? separated.indexOf('--') : undefined);
      throw invalidArgument(`${usageWords(message ?? error.message, typed, commandOf(parser))} See --help.`);
    });
  await parser.parseAsync();
}

/** The command that yargs is parsing. yargs has this, but its types do not. */
function commandOf(parser: unknown): ParsedCommand {
  const known = parser as {
    getInternalMethods(): {
      getCommandInstance(): { getCommands(): string[] };
      getContext(): { fullCommands: string[] };
    };
    getOptions(): { key: Record<string, boolean>; alias: Record<string, string[]> };
  };
  const methods = known.getInternalMethods();
  const { key, alias } = known.getOptions();
  return {
    usage: methods.getContext().fullCommands.join(' '),
    commands: methods.getCommandInstance().getCommands(),
    options: [...Object.keys(key), ...Object.values(alias).flat()],
  };
}

function report(error: unknown): void {
  if (error instanceof GradringError) {
    console.error(`gradring: ${error.code}: ${error.message}`);
    process.exitCode = USAGE_ERRORS.has(error.code) ? 2 : 1;
  } else {
    console.error(error); // a bug: show its stack
    process.exitCode = 1;
  }
}

if (require.main === module) void main(process.argv.slice(2));
