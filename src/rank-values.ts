import { GradringError, invalidArgument } from './errors';
import type { Check } from './shape';

/** The most bytes of a value. A model of 100,000 variables takes some 20 MB. */
export const LARGEST_VALUE = 64 * 2 ** 20;

/** A small value as JSON, for an all-gather. */
export function encodeValue(value: unknown): Uint8Array {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  if (bytes.length <= LARGEST_VALUE) return bytes;
  throw invalidArgument(`A state is ${bytes.length} bytes of JSON; it may have ${LARGEST_VALUE}.`);
}

/**
 * The value that a rank sent.
 *
 * @throws GradringError `ERR_PROTOCOL` if it is no such value.
 */
export function decodeValue<T>(bytes: Uint8Array, rank: number, isValue: Check<T>): T {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw brokenValue(rank); // the error of the parser would quote the text
  }
  return checkedValue(value, rank, isValue);
}

/** The values that all ranks sent, by rank. Throws as {@link decodeValue} does. */
export function decodeValues<T>(all: readonly Uint8Array[], isValue: Check<T>): T[] {
  return all.map((bytes, rank) => decodeValue(bytes, rank, isValue));
}

/** @throws GradringError `ERR_PROTOCOL` if what a rank sent is no such value. */
export function checkedValue<T>(value: unknown, rank: number, isValue: Check<T>): T {
  if (isValue(value)) return value;
  throw brokenValue(rank);
}

export function brokenValue(rank: number): GradringError {
  const words = `Rank ${rank} broke the protocol: what it told the others is not what ranks tell each other there.`;
  return new GradringError('ERR_PROTOCOL', words, { rank });
}
