import { flag } from './command-line';
import { similarName } from './similar-name';

/** The command that yargs was parsing when it found an error. */
export interface ParsedCommand {
  /** The command with its arguments: `timeline merge <folder>`. */
  readonly usage: string;
  /** The names of the commands within it. */
  readonly commands: readonly string[];
  /** The names of its options. */
  readonly options: readonly string[];
}

/** How yargs' own messages begin. */
const WRONG = /^(Unknown argument|Not enough arguments following|Not enough non-option arguments)s?: (.*)/;

/**
 * Turns a message of yargs about a wrong command line into one that names commands and options as users type them, and
 * that suggests the right one.
 *
 * @param typed The command line, without the arguments of a script.
 */
export function usageWords(message: string, typed: readonly string[], command: ParsedCommand): string {
  const [, what, rest = ''] = WRONG.exec(message) ?? [];
  switch (what) {
    case 'Unknown argument':
      return unknownWords(rest.split(', '), typed, command);
    case 'Not enough arguments following':
      return `${flag(rest)} has no value. If the value begins with a dash, write ${flag(rest)}=VALUE.`;
    case 'Not enough non-option arguments':
      return `An argument is missing. Usage: gradring ${command.usage}.`;
    default:
      return /[.?]$/.test(message) ? message : `${message}.`;
  }
}

/** Names only one of several unknown names: yargs lists each option in kebab-case and again in camelCase. */
function unknownWords(
  unknown: readonly string[],
  typed: readonly string[],
  { commands, options }: ParsedCommand,
): string {
  const word = unknown.find(name => typed.includes(name)); // not an option: that has dashes
  if (word !== undefined && commands.length > 0) {
    return withSuggestion(`Unknown command: ${word}.`, similarName(word, commands));
  }
  const option = unknown.find(name => name !== word);
  if (option === undefined) return `Unexpected argument: ${word}.`;
  const letters = typed.find(each => /^--?[a-z]{2}$/i.test(each) && each.endsWith(option)); // -np is -n -p for yargs
  const meant = similarName(option, options) ?? options.find(name => letters?.replace(/^-*/, '').startsWith(name));
  return withSuggestion(`Unknown option: ${letters ?? flag(option)}.`, meant && flag(meant));
}

function withSuggestion(words: string, meant: string | undefined): string {
  return meant === undefined ? words : `${words} Did you mean ${meant}?`;
}
