import { methodOf } from '../compression/compression-method';
import type { Compression } from '../compression/dgc-options';
import { invalidArgument } from '../errors';
import type { LearningRateRule } from './ring-agreement';

/** The options of steps that do not depend on who applies the updates. */
export interface StepOptions {
  /** Undefined: it is chosen before the first step. */
  readonly compression: Compression | undefined;
  readonly onNonFinite: 'error' | 'skip';
  readonly learningRateRule: LearningRateRule;
  readonly verifyEvery: number;
  readonly overlap: 0 | 1;
}

const KINDS: readonly unknown[] = ['dgc', 'none', 'custom'];

/** A hint of {@link checkOptions} for a compression that is passed where the options belong. */
export function hintAtName(option: string): string | undefined {
  return option === 'kind' ? 'Pass the compression by its name: { compression: dgc(…) }.' : undefined;
}

/** @throws GradringError `ERR_INVALID_ARGUMENT` if it is none, or its module cannot be loaded. */
export function checkCompression(compression: Compression | undefined): void {
  if (compression === undefined) return;
  if (!KINDS.includes(compression?.kind)) {
    throw invalidArgument('compression must be what dgc({ … }), noCompression() or another compression returns.');
  }
  methodOf(compression).compressors([]); // throws here if a module cannot be loaded
}
