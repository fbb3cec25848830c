import { lowRank } from './compressors/custom-compression';
import { type Compression, dgc } from './dgc-options';

/** From so many exchanges on, DGC with the sparsity of the paper sends each element ten times or more. */
export const LONG_TRAINING = 10_000;

/** The paper's warm-up, as a share of the training: 4 of 100 epochs. */
const WARM_UP = 0.04;

/** What the default depends on. */
export interface DefaultFor {
  /** Optimizer steps of the whole training. 0 if not known. */
  readonly steps: number;
  /** How many steps share an exchange. */
  readonly stepsPerExchange: number;
  /** Whether the ranks can apply the momentum before they select, as DGC needs it: not with Adam and others. */
  readonly takesMomentum: boolean;
}

/**
 * What compresses if the program does not say it: {@link lowRank}, and DGC at 99.9 % in a training so long that each
 * element is sent ten times or more. The rule was declared before the study that decided it: see docs/study.md.
 */
export function defaultCompression({ steps, stepsPerExchange, takesMomentum }: DefaultFor): Compression {
  if (!takesMomentum || steps / stepsPerExchange < LONG_TRAINING) return lowRank();
  return dgc({ sparsity: 0.999, warmUpSteps: Math.round(WARM_UP * steps) });
}
