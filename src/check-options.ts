import { inspect } from 'node:util';
import { invalidArgument } from './errors';
import { similarName } from './similar-name';

/**
 * Checks that options are an object without unknown names: what is misspelt would be ignored otherwise.
 *
 * @param call What the options are for, as the user writes it: `ring.wrap`.
 * @param names All names there are.
 * @param hint What to say after an unknown name, instead of the list of names.
 * @throws GradringError `ERR_INVALID_ARGUMENT`.
 */
export function checkOptions<T extends object>(
  call: string,
  options: T,
  names: Readonly<Record<keyof T, true>>,
  hint?: (name: string) => string | undefined,
): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw invalidArgument(`${call} takes its options as an object, not ${inspect(options, { depth: 0 })}.`);
  }
  const known = Object.keys(names);
  const unknown = Object.keys(options).find(name => !known.includes(name));
  if (unknown === undefined) return;
  const similar = similarName(unknown, known);
  const suggestion = similar === undefined ? '' : ` Did you mean ${similar}?`;
  const list = known.length === 0 ? 'It has no options.' : `Its options are ${known.join(', ')}.`;
  throw invalidArgument(`${call} has no option '${unknown}'.${suggestion} ${hint?.(unknown) ?? list}`);
}

/** @throws GradringError `ERR_INVALID_ARGUMENT` if an option that was given is neither true nor false. */
export function requireBoolean(name: string, value: boolean | undefined): void {
  if (value === undefined || typeof value === 'boolean') return;
  throw invalidArgument(`${name} is ${inspect(value)}; it must be true or false.`);
}

/** @throws GradringError `ERR_INVALID_ARGUMENT` if an option that was given is none of these words. */
export function requireOneOf(name: string, value: string | undefined, values: readonly string[]): void {
  if (value === undefined || values.includes(value)) return;
  throw invalidArgument(`${name} is '${String(value)}'; it must be '${values.join("' or '")}'.`);
}

/** @throws GradringError `ERR_INVALID_ARGUMENT` if an option that was given is no whole number from 1 on. */
export function requireCount(name: string, value: number | undefined): void {
  if (value === undefined || (Number.isSafeInteger(value) && value >= 1)) return;
  throw invalidArgument(`${name} is ${value}; it must be a whole number of at least 1.`);
}
