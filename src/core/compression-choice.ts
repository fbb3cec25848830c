import type { Communicator } from '../communicator/communicator';
import { type CompressionMethod, methodOf } from '../compression/compression-method';
import { defaultCompression, type TrainingLength } from '../compression/default-compression';
import { describeCompression } from '../compression/describe-compression';
import type { Compression, DgcCompression } from '../compression/dgc-options';
import { chooseSparsity, densityAt, warmUpStages } from '../compression/sparsity-schedule';
import { counted } from '../counted';
import { invalidArgument } from '../errors';
import { isCount, isNumber, isOptional, isWith } from '../shape';
import { inform, warn, warnOnce } from './warn';

/** If an element is sent less often in a training, on average, most of the gradient is never applied. */
const LEAST_SENDS = 0.5;

/** A choice is said again if it differs by this factor from the last one that was said. */
const NOTABLE = 2;

/** What low rank computes on one thread for a parameter, and beside that for each rank, in ms: docs/performance.md. */
const LOW_RANK_MS = 7e-6;
const LOW_RANK_MS_OF_RANK = 0.6e-6;

/** So long a computation in each step is told. */
const LONG_MS = 100;

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

export const isTrainingLength = isWith<TrainingLength>({ steps: isCount, exchanges: isCount });

/** The length of a `model.fit`. */
export interface FitLength {
  readonly epochs: number;
  /** Null if it is not known before the first epoch ends. */
  readonly stepsPerEpoch: number | null;
}

/** How a training is compressed, and which fraction of its gradients is sent: as given, or by the number of steps. */
export class CompressionChoice {
  /** Undefined if not known. */
  expected: ExpectedSteps | undefined;
  /** Undefined if not known. */
  stepsPerEpoch: number | undefined;
  /** What the optimizer trains, in words: a model, or variables. Set before anything is said. */
  trains = '';
  /** What was given, or chosen by {@link chosenBy}: until that is set, what a short training has. */
  compression: Compression;
  /** What {@link compression} does. */
  method: CompressionMethod;
  /**
   * The length of the training by which the compression was chosen. A checkpoint keeps it: the state of a training fits
   * its compression only. Undefined if one was given, or if there was no step yet.
   */
  chosenBy: TrainingLength | undefined;
  /** The density that the user was told last. */
  private said: number | undefined;
  /** Whether the user was told that another length would have another default. */
  private hasSaidOther = false;

  /**
   * @param given Undefined: it is chosen before the first step.
   * @param words What takes the steps: `the Adam optimizer`.
   * @param takesMomentum Whether the ranks can apply the momentum before they select.
   * @param stepsPerExchange See {@link chooseSparsity}.
   */
  constructor(
    private readonly communicator: Communicator,
    readonly given: Compression | undefined,
    private readonly words: string,
    private readonly takesMomentum: boolean,
    private readonly stepsPerExchange: number,
  ) {
    this.compression = this.compressionFor({ steps: 0, exchanges: 0 });
    this.method = methodOf(this.compression);
    if (given?.kind === 'dgc' && given.steps > 0) this.expected = { steps: given.steps };
  }

  /** What is expected, as far as it is known. */
  lengthOf({ steps = 0, since }: Partial<ExpectedSteps> = this.expected ?? {}): TrainingLength {
    const known = since === undefined ? steps : 0;
    return { steps: known, exchanges: Math.floor(known / this.stepsPerExchange) };
  }

  /** What was given, or what a training of that length has by default. */
  compressionFor(length: TrainingLength): Compression {
    return this.given ?? defaultCompression(length, this.takesMomentum);
  }

  /** Chooses a compression if none was given, and none was chosen before. The first step is about to be taken. */
  choose(): void {
    if (this.chosenBy === undefined) this.chooseBy(this.lengthOf());
  }

  /** Chooses by that length, if no compression was given. */
  chooseBy(length: TrainingLength): void {
    if (this.given !== undefined) return;
    this.chosenBy = length;
    this.compression = this.compressionFor(length);
    this.method = methodOf(this.compression);
  }

  /** A `model.fit` that was interrupted continues with the sparsity that it had chosen. */
  goOn({ stepsPerEpoch }: FitLength): void {
    this.stepsPerEpoch = stepsPerEpoch ?? undefined;
  }

  /** A `model.fit` begins with that epoch, after `step` steps. */
  beginFit(epoch: number, { epochs, stepsPerEpoch }: FitLength, step: number): void {
    this.stepsPerEpoch = stepsPerEpoch ?? undefined;
    if (this.given?.kind === 'dgc' && this.given.steps > 0) return;
    const steps = step + (epochs - epoch) * (stepsPerEpoch ?? 1);
    this.expected = { steps, since: stepsPerEpoch === null ? { epoch, step } : undefined };
    const isChosen = this.given !== undefined || this.chosenBy !== undefined;
    if (stepsPerEpoch !== null && isChosen) this.say(step);
    this.sayIfOther();
  }

  /** An epoch of it has ended, after `step` steps. */
  endEpoch({ epochs }: FitLength, step: number): void {
    const since = this.expected?.since;
    if (since === undefined) return;
    this.expected = { steps: since.step + (epochs - since.epoch) * (step - since.step) };
    if (step < this.expected.steps) this.say(step);
    this.sayIfOther();
  }

  /** The first step of a training of so many parameters is about to be taken. */
  beginSteps(step: number, parameters: number): void {
    if (step === 0 && this.stepsPerEpoch === undefined) this.warnOfLeftOutStages();
    if (this.given === undefined || this.expected?.since === undefined) this.say(step);
    const { worldSize, threads } = this.communicator;
    const ms = (parameters * (LOW_RANK_MS + worldSize * LOW_RANK_MS_OF_RANK)) / threads;
    if (this.given === undefined && this.compression.kind === 'custom' && ms >= LONG_MS) {
      inform(
        this.communicator,
        `lowRank() computes about ${(ms / 1000).toFixed(1)} s in each step for the ${parameters} parameters of ${this.optimizer}. If a step does not take much longer than that, { compression: dgc() } is faster.`,
      );
    }
  }

  /**
   * The fraction of each large tensor that is sent: 1 with another compression than DGC.
   *
   * @throws GradringError `ERR_NO_EPOCH`
   */
  densityAt(progress: { readonly epoch: number | undefined; readonly step: number }): number {
    const { compression, stepsPerEpoch } = this;
    if (compression.kind !== 'dgc') return 1;
    return densityAt(this.chosenAt(compression, progress.step), { ...progress, stepsPerEpoch });
  }

  /**
   * How many steps the warm-up has.
   *
   * @throws GradringError `ERR_INVALID_ARGUMENT` if that depends on the steps of an epoch, which are not known.
   */
  warmUpSteps(step: number): number {
    const { given } = this;
    const compression = this.compressionFor(this.chosenBy ?? this.lengthOf());
    if (compression.kind !== 'dgc') {
      if (given === undefined) return 0;
      throw invalidArgument(
        'learningRateWarmUp: true lasts as long as the warm-up of dgc(), but this optimizer has another compression. Pass { steps } instead of true.',
      );
    }
    const { warmUpEpochs, warmUpSteps } = this.chosenAt(compression, step);
    const isChosenLater = compression.sparsity === 'auto' && this.expected?.since !== undefined;
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

  private chosenAt(compression: DgcCompression, step: number) {
    const { stepsPerExchange, expected } = this;
    const correctsMomentum = this.correctsMomentum(compression);
    return chooseSparsity(compression, { steps: expected?.steps, step, correctsMomentum, stepsPerExchange });
  }

  private correctsMomentum({ momentumCorrection }: DgcCompression): boolean {
    return this.takesMomentum && momentumCorrection;
  }

  /** A short warm-up goes through its stages within the epochs. That needs the steps of an epoch. */
  private warnOfLeftOutStages(): void {
    if (this.compression.kind !== 'dgc') return;
    const chosen = this.chosenAt(this.compression, 0);
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
    if (said === undefined && this.given === undefined) this.sayDefault();
    const sparsity = compression.kind === 'dgc' ? this.chosenAt(compression, step).sparsity : 0;
    const density = 1 - sparsity;
    if (said !== undefined && density < said * NOTABLE && density > said / NOTABLE) return;
    this.said = density;
    if (compression.kind !== 'dgc') return;
    if (compression.sparsity === 'auto') {
      if (!this.correctsMomentum(compression)) return; // nothing was chosen
      inform(
        communicator,
        expected === undefined
          ? `dgc() does not know how many steps ${this.optimizer} will take. It sends 25 % of each large gradient at first, and less with time. dgc({ steps }) sends less from the start.`
          : `dgc() chose a sparsity of ${Number(sparsity.toPrecision(4))} for ${counted(expected.steps, 'step')} of ${this.optimizer}. dgc({ sparsity }) sets another.`,
      );
    } else if (
      this.given !== undefined &&
      expected !== undefined &&
      (expected.steps / this.stepsPerExchange) * density < LEAST_SENDS
    ) {
      warn(
        communicator,
        `A sparsity of ${sparsity} sends an element once in ${Math.round(this.stepsPerExchange / density)} steps on average, but ${this.optimizer} takes ${counted(expected.steps, 'step')}: most of the gradient is never applied. Leave the sparsity out of dgc(), which then chooses one for the number of steps, or lower it.`,
      );
    }
  }

  private sayDefault(): void {
    inform(
      this.communicator,
      `${describeCompression(this.compression)} compresses the gradients of ${this.optimizer}: the default for ${inWords(this.chosenBy!)}. { compression } sets another.`,
    );
  }

  /** Tells the user, once, if the length that is expected now has another default than the one chosen by. */
  private sayIfOther(): void {
    const { chosenBy, compression } = this;
    if (this.given !== undefined || chosenBy === undefined || this.hasSaidOther) return;
    if (this.expected?.since !== undefined) return; // not known yet
    const expected = this.lengthOf();
    const other = this.compressionFor(expected);
    if (other.kind === compression.kind) return;
    this.hasSaidOther = true;
    inform(
      this.communicator,
      `${this.optimizer} keeps ${describeCompression(compression)}, which was chosen for ${inWords(chosenBy)}. A training that has ${inWords(expected)} from the start has ${describeCompression(other)} by default. { compression } sets what it begins with.`,
    );
  }
}

function inWords({ steps, exchanges }: TrainingLength): string {
  if (steps === 0) return 'a training of unknown length';
  return `${counted(steps, 'step')}${exchanges < steps ? ` that share ${exchanges} exchanges` : ''}`;
}
