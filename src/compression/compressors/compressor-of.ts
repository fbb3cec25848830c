import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { crc32 } from 'node:zlib';
import { invalidArgument } from '../../errors';
import type { Compressor, CompressorFactory } from './compressor';
import type { CustomCompression } from './custom-compression';
import { oneBitCompressor } from './one-bit';
import { powerSgdCompressor } from './power-sgd';
import { qsgdCompressor } from './qsgd';
import { ternGradCompressor } from './tern-grad';

const BUILT_IN: Readonly<Record<string, CompressorFactory>> = {
  oneBit: oneBitCompressor,
  ternGrad: ternGradCompressor,
  qsgd: qsgdCompressor,
  powerSgd: powerSgdCompressor,
};

/**
 * Makes the compressor of a compression.
 *
 * @param shapes Those of the tensors that it compresses, without those that {@link Compressor.small} has.
 * @throws GradringError `ERR_INVALID_ARGUMENT` if its module cannot be loaded, or exports something else.
 */
export function compressorOf(
  { compressor, options }: CustomCompression,
  shapes: readonly (readonly number[])[],
): Compressor {
  const make = BUILT_IN[compressor] ?? factoryIn(compressor);
  const made = make(options as never, shapes) as Partial<Compressor> | undefined;
  if (isCompressor(made) && (made.small === undefined || isCompressor(made.small))) return made;
  throw invalidArgument(
    `${basename(compressor)} makes no compressor: it must return an object with errorFeedback (true or false) and average (a function).`,
  );
}

function isCompressor(made: Partial<Compressor> | undefined): made is Compressor {
  return typeof made?.average === 'function' && typeof made.errorFeedback === 'boolean';
}

/** The hash of a compressor's own file, which must be the same on all ranks. Undefined for those of gradring. */
export function compressorFileHash({ compressor }: CustomCompression): number | undefined {
  return compressor in BUILT_IN ? undefined : crc32(readFileSync(require.resolve(compressor)));
}

function factoryIn(module: string): CompressorFactory {
  let exported: unknown;
  try {
    exported = require(module); // eslint-disable-line @typescript-eslint/no-require-imports
  } catch (cause) {
    throw invalidArgument(`The compressor in ${module} cannot be loaded: ${String(cause)}`);
  }
  const factory = (exported as { default?: unknown } | undefined)?.default ?? exported;
  if (typeof factory === 'function') return factory as CompressorFactory;
  throw invalidArgument(
    `${module} must export a function that makes a compressor: module.exports = options => ({ … }).`,
  );
}
