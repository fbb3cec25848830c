import { accessSync, constants, statSync } from 'node:fs';
import path from 'node:path';
import { parseNumber, parseNumbers } from '../command-line';
import { invalidArgument } from '../errors';

/** A seed from the command line. @throws ERR_INVALID_ARGUMENT */
export function parseSeed(text: string): number {
  return parseNumber(text, {
    option: 'seed',
    words: 'a whole number from 0 to 4294967295',
    accepts: value => Number.isInteger(value) && value >= 0 && value < 2 ** 32,
  });
}

/** Fractions of a tensor from the command line, each less than 1. @throws ERR_INVALID_ARGUMENT */
export function parseDensities(text: string): number[] {
  return parseNumbers(text, {
    option: 'density',
    words: 'more than 0 and less than 1, or several such numbers, separated by commas',
    accepts: value => value >= Number.EPSILON && value < 1,
  });
}

/** {@link parseDensities} for an option that takes one. */
export function parseDensity(text: string): number {
  const [density, ...others] = parseDensities(text);
  if (others.length > 0) throw invalidArgument(`--density is '${text}'; it must be one number.`);
  return density!;
}

/** Checks the file of an option before the measurement. @throws ERR_INVALID_ARGUMENT */
export function requireWritable(file: string, option: string): void {
  const folder = path.dirname(path.resolve(file));
  try {
    accessSync(folder, constants.W_OK);
  } catch {
    throw invalidArgument(`--${option} is '${file}', but ${folder} does not exist or cannot be written to.`);
  }
  if (statSync(file, { throwIfNoEntry: false })?.isDirectory()) {
    throw invalidArgument(`--${option} is '${file}', which is a folder; it must be a file.`);
  }
}

const MEMORY_BYTES = 2 ** 32;
/** A heap needs a little for itself. */
const HEAP_BYTES = 64 * 1024;

/** @throws ERR_INVALID_ARGUMENT if a case does not fit in a WebAssembly memory. The message says what it needs. */
export function requireRoom(
  { elements, density }: { readonly elements: number; readonly density: number },
  bytes: number,
  bytesAnElement: number,
): void {
  if (bytes + HEAP_BYTES <= MEMORY_BYTES) return;
  throw invalidArgument(
    `--elements ${elements} at density ${density} needs ${(bytes / 2 ** 30).toFixed(1)} GiB, but a WebAssembly memory ` +
      `has at most 4. Each element needs about ${bytesAnElement} bytes, and 8 more if it is sent.`,
  );
}
