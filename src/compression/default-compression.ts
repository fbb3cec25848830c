import { lowRank } from './compressors/custom-compression';
import { type Compression, dgc } from './dgc-options';

/** From so many exchanges on, DGC with the sparsity of the paper sends each element ten times or more. */
const LONG_TRAINING = 10_000;

/** The paper's warm-up, as a share of the training: 4 of 100 epochs. */
const WARM_UP = 0.04;

/** How long a training is. */
export interface TrainingLength {
  /** Optimizer steps in all. 0 if not known. */
  readonly steps: number;
  /** How many exchanges these have. */
  readonly exchanges: number;
}

/**
 * What compresses if the program does not say it: {@link lowRank}, and DGC at 99.9 % in a training so long that each
 * element is sent ten times or more. The rule was declared before the study that decided it: see docs/study.md.
 *
 * @param takesMomentum Whether the ranks can apply the momentum before they select, as DGC needs it: not with Adam.
 */
export function defaultCompression({ steps, exchanges }: TrainingLength, takesMomentum: boolean): Compression {
  if (!takesMomentum || exchanges < LONG_TRAINING) return lowRank();
  return dgc({ sparsity: 0.999, warmUpSteps: Math.round(WARM_UP * steps) });
}
