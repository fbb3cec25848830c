import type { Communicator } from '../communicator/communicator';
import { chooseSparsity, densityAt, warmUpStages } from '../compression/sparsity-schedule';
import type { DgcCompression } from '../compression/dgc-options';
import { invalidArgument } from '../errors';
import { isNumber, isOptional, isWith } from '../shape';
import { inform, warn, warnOnce } from './warn';

/** If an element is sent less often in a training, on average, most of the gradient is never applied. */
const LEAST_SENDS = 0.5;

/** A choice is said again if it differs by this factor from the last one that was said. */
const NOTABLE = 2;

/** How many optimizer steps a training should have. */
export interface ExpectedSteps {
  /** In all. */
  readonly steps: number;
  /** Where the first epoch began, if the number of steps in an epoch is known only at its end. */
  readonly since?: { readonly epoch: number; readonly step: number } | undefined;
}

export const isExpectedSteps = isWith<ExpectedSteps>({
  steps: isNumber,
  since: isOptional(isWith({ epoch: isNumber, step: isNumber })),
});

/** The length of a `model.fit`. */
export interface FitLength {
  readonly epochs: number;
  /** Null if it is not known before the first epoch ends. */
  readonly stepsPerEpoch: number | null;
}

/** Which fraction of its gradients a wrapped optimizer sends: as given to `dgc()`, or chosen by the number of steps. */
export class SentFraction {
  /** Undefined if not known. */
  expected: ExpectedSteps | undefined;
  /** Undefined if not known. */
  stepsPerEpoch: number | undefined;
  /** What the optimizer trains, in words: a model, or variables. Set before anything is said. */
  trains = '';
  /** The density that the user was told last. */
  private said: number | undefined;

  /**
   * @param words What takes the steps: `the Adam optimizer`.
   * @param correctsMomentum See {@link chooseSparsity}.
   * @param stepsPerExchange See {@link chooseSparsity}.
   */
  constructor(
    private readonly communicator: Communicator,
    private readonly compression: DgcCompression,
    private readonly words: string,
    private readonly correctsMomentum: boolean,
    private readonly stepsPerExchange: number,
  ) {
    if (compression.steps > 0) this.expected = { steps: compression.steps };
  }

  /** A `model.fit` that was interrupted continues with the sparsity that it had chosen. */
  goOn({ stepsPerEpoch }: FitLength): void {
    this.stepsPerEpoch = stepsPerEpoch ?? undefined;
  }

  /** A `model.fit` begins with that epoch, after `step` steps. */
  beginFit(epoch: number, { epochs, stepsPerEpoch }: FitLength, step: number): void {
    this.stepsPerEpoch = stepsPerEpoch ?? undefined;
    if (this.compression.steps > 0) return;
    const steps = step + (epochs - epoch) * (stepsPerEpoch ?? 1);
    this.expected = { steps, since: stepsPerEpoch === null ? { epoch, step } : undefined };
    if (stepsPerEpoch !== null) this.say(step);
  }

  /** An epoch of it has ended, after `step` steps. */
  endEpoch({ epochs }: FitLength, step: number): void {
    const since = this.expected?.since;
    if (since === undefined) return;
    this.expected = { steps: since.step + (epochs - since.epoch) * (step - since.step) };
    if (step < this.expected.steps) this.say(step);
  }

  /** The first step of a training is about to be taken. */
  beginSteps(step: number): void {
    if (step === 0 && this.stepsPerEpoch === undefined) this.warnOfLeftOutStages();
    if (this.expected?.since === undefined) this.say(step);
  }

  /** @throws GradringError `ERR_NO_EPOCH` */
  densityAt(progress: { readonly epoch: number | undefined; readonly step: number }): number {
    return densityAt(this.chosenAt(progress.step), { ...progress, stepsPerEpoch: this.stepsPerEpoch });
  }

  /**
   * How many steps the warm-up has.
   *
   * @throws GradringError `ERR_INVALID_ARGUMENT` if that depends on the steps of an epoch, which are not known.
   */
  warmUpSteps(step: number): number {
    const { warmUpEpochs, warmUpSteps } = this.chosenAt(step);
    const isChosenLater = this.compression.sparsity === 'auto' && this.expected?.since !== undefined;
    if (warmUpEpochs === 0 && !isChosenLater) return warmUpSteps;
    if (warmUpEpochs > 0 && this.stepsPerEpoch !== undefined) return warmUpEpochs * this.stepsPerEpoch;
    throw invalidArgument(
      'learningRateWarmUp: true lasts as long as the warm-up of dgc(), but how many steps that has is not known before an epoch has ended. Pass { steps } instead of true.',
    );
  }

  /** Names the optimizer, because a program may have several. */
  private get optimizer(): string {
    return `${this.words} of ${this.trains}`;
  }

  private chosenAt(step: number) {
    const { correctsMomentum, stepsPerExchange, expected } = this;
    return chooseSparsity(this.compression, { steps: expected?.steps, step, correctsMomentum, stepsPerExchange });
  }

  /** A short warm-up goes through its stages within the epochs. That needs the steps of an epoch. */
  private warnOfLeftOutStages(): void {
    const chosen = this.chosenAt(0);
    const { warmUpEpochs, warmUp } = chosen;
    const stages = warmUpStages(chosen).length;
    if (warmUp === 'dense' || warmUpEpochs === 0 || warmUpEpochs >= stages) return;
    warnOnce(
      this.communicator,
      `The warm-up of dgc() for ${this.optimizer} has ${stages} stages, more than its ${warmUpEpochs === 1 ? 'epoch' : `${warmUpEpochs} epochs`}. How many steps an epoch has is not known, so some stages are left out. Pass batchesPerEpoch to fitDataset, stepsPerEpoch to setEpoch, or warmUpSteps to dgc().`,
    );
  }

  /** Tells the user, on rank 0, what was chosen; or warns if what was given does not fit. */
  private say(step: number): void {
    const { communicator, compression, expected, said } = this;
    const { sparsity } = this.chosenAt(step);
    const density = 1 - sparsity;
    if (said !== undefined && density < said * NOTABLE && density > said / NOTABLE) return;
    this.said = density;
    if (compression.sparsity === 'auto') {
      if (!this.correctsMomentum) return; // nothing was chosen
      inform(
        communicator,
        expected === undefined
          ? `dgc() does not know how many steps ${this.optimizer} will take. It sends 25 % of each large gradient at first, and less with time. dgc({ steps }) sends less from the start.`
          : `dgc() chose a sparsity of ${Number(sparsity.toPrecision(4))} for ${counted(expected.steps)} of ${this.optimizer}. dgc({ sparsity }) sets another.`,
      );
    } else if (expected !== undefined && (expected.steps / this.stepsPerExchange) * density < LEAST_SENDS) {
      warn(
        communicator,
        `A sparsity of ${sparsity} sends an element once in ${Math.round(this.stepsPerExchange / density)} steps on average, but ${this.optimizer} takes ${counted(expected.steps)}: most of the gradient is never applied. Leave the sparsity out of dgc(), which then chooses one for the number of steps, or lower it.`,
      );
    }
  }
}

function counted(steps: number): string {
  return `${steps} ${steps === 1 ? 'step' : 'steps'}`;
}
