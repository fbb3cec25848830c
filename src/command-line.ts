import type { Options } from 'yargs';
import { invalidArgument } from './errors';
import { similarName } from './similar-name';

/** An option with a value: always text, so that what is said of a wrong one is what was typed. */
export const TEXT_OPTION = { type: 'string', requiresArg: true } as const satisfies Options;

export const JSON_OPTION = {
  type: 'boolean',
  default: false,
  describe: 'One JSON object a line instead of a table',
} as const satisfies Options;

/**
 * An option whose value is a number: taken as text, too. It has no type, because `--help` would show the type and call
 * it a string.
 */
export const NUMBER_OPTION = { requiresArg: true } as const satisfies Options;

/** What a number on the command line must be. */
export interface Wanted {
  /** The option's name, without dashes. */
  readonly option: string;
  /** In words, behind "must be": `a whole number from 1 on`. */
  readonly words: string;
  readonly accepts: (value: number) => boolean;
}

/**
 * A number from the command line.
 *
 * @throws ERR_INVALID_ARGUMENT if it is none, or not one that is wanted.
 */
export function parseNumber(text: string, { option, words, accepts }: Wanted): number {
  const value = toNumber(text);
  if (!accepts(value)) throw invalidArgument(`${flag(option)} is '${text}'; it must be ${words}.`);
  return value;
}

/** What was typed, as a number; NaN if it is none. */
export const toNumber = (text: string): number => (text.trim() === '' ? NaN : Number(text));

/** An option as users type it: `--node-rank`, `-n`. */
export const flag = (option: string): string => (option.length === 1 ? `-${option}` : `--${option}`);

/** Numbers separated by commas, each as {@link parseNumber} has it. */
export function parseNumbers(text: string, wanted: Wanted): number[] {
  return text.split(',').map(part => parseNumber(part, wanted));
}

/**
 * One of some words from the command line.
 *
 * @throws ERR_INVALID_ARGUMENT if it is another.
 */
export function parseName<Name extends string>(text: string, option: string, names: readonly Name[]): Name {
  const name = names.find(candidate => candidate === text);
  if (name !== undefined) return name;
  const similar = similarName(text, names);
  const hint = similar === undefined ? '' : ` Did you mean ${similar}?`;
  throw invalidArgument(`${flag(option)} is '${text}'; it must be one of ${names.join(', ')}.${hint}`);
}

/** One or several words separated by commas, each as {@link parseName} has it. */
export function parseNames<Name extends string>(text: string, option: string, names: readonly Name[]): Name[] {
  return text.split(',').map(part => parseName(part, option, names));
}

export const isCount = (value: number): boolean => Number.isSafeInteger(value) && value > 0;
