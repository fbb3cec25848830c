import { addressSpaceLimit } from '../address-space';
import { LARGEST_DENSITY } from './sparsity-schedule';
import { type ClipNorms, clipNormsAt } from './clipping';
import { type Compressor, PLAIN } from './compressors/compressor';
import { compressorFileHash, compressorOf } from './compressors/compressor-of';
import { CodedTreatment } from './compressors/coded-treatment';
import { CompressorTreatment } from './compressors/compressor-treatment';
import type { CustomCompression } from './compressors/custom-compression';
import { lowRankCodes } from './compressors/low-rank';
import type { TensorCodes } from './compressors/tensor-code';
import {
  type Compression,
  type DgcCompression,
  ENTRY_ROUTES,
  type EntryRoute,
  type NoCompression,
  SAME_UPDATES,
} from './dgc-options';
import { LargestTreatment, RoundedTreatment, type TreatmentKind, WholeTreatment } from './tensor-treatment';
import type { ValueFormat } from './value-format';

/** How the gradients of a step travel: each has a file in `exchange/routes`. */
export type RouteName = EntryRoute | 'coded' | 'custom';

/** What a training asks of a compression, whatever its kind. {@link methodOf} has one for each kind. */
export interface CompressionMethod {
  /** The format of values on a sparse route. */
  readonly format: ValueFormat;
  /** The largest density of its schedule. */
  readonly largestDensity: number;
  /** Whether a rank applies its own momentum before it selects (section 3.2 of the paper). */
  readonly correctsMomentum: boolean;
  readonly rescalesResiduals: boolean;
  /** Whether the ranks of a host add their gradients, and send them as one. */
  readonly perHost: boolean;
  /** Whether any thread may treat any tensor. */
  readonly usesThreads: boolean;
  /** The seed of its random numbers. */
  readonly seed: number;
  /** The hash of a file that decides what it does, which must be the same on all ranks. */
  readonly fileHash: number | undefined;
  /** Whether elements lose their momentum when they are sent at that density (section 3.3). */
  masksAt(density: number): boolean;
  /** Whether a tensor of that shape is sent whole at any density: it is small, or of one dimension. */
  sendsWhole(shape: readonly number[]): boolean;
  /** How a step of that density treats a tensor. */
  treatment(isWhole: boolean, density: number): TreatmentKind;
  /** The routes that a step of that density may take. */
  routes(density: number): readonly RouteName[];
  /** What clips the gradient of a rank, and what the mean, in a step with that momentum. */
  clipNorms(momentumFactor: number): ClipNorms;
  /**
   * The compressors of tensors of these shapes: a function that gives that of a tensor. Undefined if its treatments
   * need none.
   *
   * @throws GradringError `ERR_INVALID_ARGUMENT` if a module cannot be loaded.
   */
  compressors(shapes: readonly (readonly number[])[]): ((isWhole: boolean) => Compressor) | undefined;
  /** The codes of the tensors of a model with these large shapes. Undefined if its treatments need none. */
  codes(shapes: readonly (readonly number[])[]): TensorCodes | undefined;
}

/** The method of a compression. */
export function methodOf(compression: Compression): CompressionMethod {
  switch (compression.kind) {
    case 'none':
      return noMethod(compression);
    case 'dgc':
      return dgcMethod(compression);
    case 'custom':
      return compression.compressor in CODES ? codedMethod(compression) : customMethod(compression);
  }
}

const COMMON = {
  format: 'float32',
  largestDensity: 0,
  correctsMomentum: false,
  rescalesResiduals: false,
  perHost: false,
  usesThreads: false,
  seed: 0,
  fileHash: undefined,
  masksAt: () => false,
  compressors: () => undefined,
  codes: () => undefined,
} as const satisfies Partial<CompressionMethod>;

function noMethod({ clipNorm }: NoCompression): CompressionMethod {
  return {
    ...COMMON,
    sendsWhole: () => true,
    treatment: () => WholeTreatment,
    routes: () => ['dense'],
    clipNorms: () => ({ rank: undefined, mean: clipNorm }),
  };
}

function dgcMethod(compression: DgcCompression): CompressionMethod {
  const { values, momentumCorrection, rescaleResiduals, maskBelow, clipNorm, clipAt, route, perHost } = compression;
  return {
    ...COMMON,
    format: values,
    largestDensity: largestDensity(compression),
    correctsMomentum: momentumCorrection,
    rescalesResiduals: rescaleResiduals,
    perHost,
    usesThreads: true,
    masksAt: density => density < maskBelow,
    sendsWhole: shape => isSmall(shape, compression),
    treatment(isWhole, density) {
      if (!isWhole && density < 1) return LargestTreatment;
      // A step that sends everything goes by the dense ring, which does not round.
      return isWhole && values !== 'float32' ? RoundedTreatment : WholeTreatment;
    },
    routes(density) {
      if (density === 1) return ['dense']; // where everything is sent, there is nothing to choose
      if (route === 'auto') return SAME_UPDATES;
      return route === 'any' ? ENTRY_ROUTES : [route];
    },
    clipNorms: momentumFactor =>
      clipNormsAt(clipAt === 'auto' ? (momentumFactor === 0 ? 'mean' : 'rank') : clipAt, clipNorm),
  };
}

function customMethod(compression: CustomCompression): CompressionMethod {
  const { clipAt, clipNorm, seed } = compression;
  return {
    ...COMMON,
    seed,
    get fileHash() {
      return compressorFileHash(compression);
    },
    sendsWhole: shape => isSmall(shape, compression),
    treatment: () => CompressorTreatment,
    routes: () => ['custom'],
    clipNorms: () => clipNormsAt(clipAt, clipNorm),
    compressors(shapes) {
      const compressor = compressorOf(compression, shapes);
      return isWhole => (isWhole ? (compressor.small ?? PLAIN) : compressor);
    },
  };
}

/** The compressions of codes, by the name of their compressor. */
const CODES: Readonly<Record<string, (options: never, shapes: readonly (readonly number[])[]) => TensorCodes>> = {
  lowRank: lowRankCodes,
};

function codedMethod(compression: CustomCompression): CompressionMethod {
  const { clipAt, clipNorm, seed, compressor, options } = compression;
  return {
    ...COMMON,
    // Each thread has a memory of its own, which reserves far more addresses than it uses.
    usesThreads: addressSpaceLimit() === undefined,
    seed,
    sendsWhole: shape => isSmall(shape, compression),
    treatment: () => CodedTreatment,
    routes: () => ['coded'],
    clipNorms: () => clipNormsAt(clipAt, clipNorm),
    codes: shapes => CODES[compressor]!(options as never, shapes),
  };
}

/** Their indices, and their selection, would cost more than they save. */
function isSmall(shape: readonly number[], { denseBelow }: { readonly denseBelow: number }): boolean {
  return shape.length <= 1 || shape.reduce((product, size) => product * size, 1) < denseBelow;
}

function largestDensity({ sparsity, warmUp, warmUpEpochs = 0, warmUpSteps }: DgcCompression): number {
  if (sparsity === 'auto') return LARGEST_DENSITY;
  const warmsUp = warmUp === 'sparse' && warmUpEpochs + warmUpSteps > 0;
  return Math.max(1 - sparsity, warmsUp ? LARGEST_DENSITY : 0);
}
