import { readFileSync } from 'node:fs';
import type { Options } from 'yargs';
import { invalidArgument } from './errors';
import { similarName } from './similar-name';

/** An option with a value. It is read as text, so that messages can show a wrong value as it was typed. */
export const TEXT_OPTION = { type: 'string', requiresArg: true } as const satisfies Options;

export const JSON_OPTION = {
  type: 'boolean',
  default: false,
  describe: 'Print one JSON object a line instead of a table',
} as const satisfies Options;

/**
 * An option whose value is a number. It is read as text, too. It has no type here, because `--help` would show the type
 * `string`.
 */
export const NUMBER_OPTION = { requiresArg: true } as const satisfies Options;

/** The values of options, as they were typed. */
export type Typed<Rows extends Readonly<Record<string, Options>>> = {
  readonly [Name in keyof Rows]: Rows[Name] extends { readonly type: 'boolean' }
    ? boolean
    : Rows[Name] extends { readonly default: string }
      ? string
      : string | undefined;
};

/** Which numbers an option accepts. */
export interface Wanted {
  /** The option's name, without dashes. */
  readonly option: string;
  /** In words, to follow "must be": `a whole number, 1 or more`. */
  readonly words: string;
  readonly accepts: (value: number) => boolean;
}

/**
 * Reads a number of the command line.
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` if it is not a number, or not one that the option accepts.
 */
export function parseNumber(text: string, { option, words, accepts }: Wanted): number {
  const value = toNumber(text);
  if (!accepts(value)) throw invalidArgument(`${flag(option)} is '${text}'; it must be ${words}.`);
  return value;
}

/** Typed text as a number; NaN if it is not a number. */
export const toNumber = (text: string): number => (text.trim() === '' ? NaN : Number(text));

/** An option as users type it: `--node-rank`, `-n`. */
export const flag = (option: string): string => (option.length === 1 ? `-${option}` : `--${option}`);

/** Reads numbers separated by commas, each with {@link parseNumber}. */
export function parseNumbers(text: string, wanted: Wanted): number[] {
  return text.split(',').map(part => parseNumber(part, wanted));
}

/**
 * Reads a word of the command line that must be one of some names.
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` if it is another word.
 */
export function parseName<Name extends string>(text: string, option: string, names: readonly Name[]): Name {
  const name = names.find(candidate => candidate === text);
  if (name !== undefined) return name;
  const similar = similarName(text, names);
  const hint = similar === undefined ? '' : ` Did you mean ${similar}?`;
  throw invalidArgument(`${flag(option)} is '${text}'; it must be one of ${names.join(', ')}.${hint}`);
}

/** Reads words separated by commas, each with {@link parseName}. */
export function parseNames<Name extends string>(text: string, option: string, names: readonly Name[]): Name[] {
  return text.split(',').map(part => parseName(part, option, names));
}

/** A whole number, 1 or more. @throws ERR_INVALID_ARGUMENT */
export function parseCount(text: string, option: string, most = Number.MAX_SAFE_INTEGER): number {
  return parseNumber(text, { option, words: countWords(most), accepts: value => isCount(value, most) });
}

/** Whole numbers, each 1 or more, separated by commas. @throws ERR_INVALID_ARGUMENT */
export function parseCounts(text: string, option: string): number[] {
  const most = Number.MAX_SAFE_INTEGER;
  const words = `${countWords(most)}, or several, separated by commas`;
  return parseNumbers(text, { option, words, accepts: value => isCount(value, most) });
}

function isCount(value: number, most: number): boolean {
  return Number.isSafeInteger(value) && value > 0 && value <= most;
}

function countWords(most: number): string {
  return most === Number.MAX_SAFE_INTEGER ? 'a whole number, 1 or more' : `a whole number from 1 to ${most}`;
}

/**
 * The text of a file that an option names.
 *
 * @param option The option, for the error.
 * @throws GradringError `ERR_INVALID_ARGUMENT` if it cannot be read.
 */
export function readOptionFile(file: string, option: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'does not exist' : `cannot be read: ${message}`;
    throw invalidArgument(`${option} is '${file}', which ${why}.`);
  }
}
