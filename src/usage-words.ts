import { flag } from './command-line';
import { similarName } from './similar-name';

/** The command that yargs was parsing when something was wrong. */
export interface ParsedCommand {
  /** How it is called, with its arguments: `timeline merge <folder>`. */
  readonly usage: string;
  /** Names of the commands within it, and of its options. */
  readonly commands: readonly string[];
  readonly options: readonly string[];
}

/** yargs' own words. */
const WRONG = /^(Unknown argument|Not enough arguments following|Not enough non-option arguments)s?: (.*)/;

/**
 * What yargs says of a wrong command line, in words that name commands and options as users type them, and that suggest
 * what was probably meant.
 *
 * @param typed The command line, without what belongs to a script.
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

/** Of several unknown names one is enough: options come in kebab-case and again in camelCase. */
function unknownWords(
  unknown: readonly string[],
  typed: readonly string[],
  { commands, options }: ParsedCommand,
): string {
  const word = unknown.find(name => typed.includes(name)); // no option: that has dashes
  if (word !== undefined && commands.length > 0) {
    return withSuggestion(`Unknown command: ${word}.`, similarName(word, commands));
  }
  const option = unknown.find(name => name !== word);
  if (option === undefined) return `Unexpected argument: ${word}.`;
  const meant = similarName(option, options);
  return withSuggestion(`Unknown option: ${flag(option)}.`, meant && flag(meant));
}

function withSuggestion(words: string, meant: string | undefined): string {
  return meant === undefined ? words : `${words} Did you mean ${meant}?`;
}
