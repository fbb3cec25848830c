import { inspect } from 'node:util';
import { isFloat32Array } from 'node:util/types';
import { checkOptions, requireBoolean, requireOneOf } from '../check-options';
import type { Communicator } from '../communicator/communicator';
import type { Compression } from '../compression/dgc-options';
import { GradringError, invalidArgument } from '../errors';
import { brief } from '../printable';
import { similarName } from '../similar-name';
import { captureState, requireFits, restoreState } from './capture-state';
import { EveryStep } from './exchange-policy';
import { ExchangeSteps, type Momentum, type StepStatistics, type UpdateRule } from './exchange-steps';
import { ExchangedTensors, type LoadedGradients, type TrainedTensor } from './exchanged-tensors';
import type { StepState } from './step-state';
import { checkCompression, hintAtName, type StepOptions } from './step-options';
import { inBrackets, sizeOf } from './shapes';
import type { CheckpointedSteps } from './training-checkpoint';

/** The shapes of what is trained, by name. The order of the names must be the same on all ranks. */
export type Shapes<N extends string = string> = { readonly [name in N]: readonly number[] };

/**
 * The gradients of a step, by name: all of them, each with the elements of its shape in row-major order. Null: it is
 * zero.
 */
export type NamedGradients<N extends string = string> = { readonly [name in N]: Float32Array | null };

/**
 * The updates of a step, by name. Subtract each from its weights, times the learning rate. They are views of the memory
 * of the exchange: valid until the next step begins. They may be changed, and passed on as gradients.
 */
export type NamedUpdates<N extends string = string> = { readonly [name in N]: Float32Array };

/** What `ring.gradients` may take. */
export interface GradientOptions {
  /** What `dgc`, `noCompression`, `lowRank`, `qsgd` and the like return. Default `lowRank()`. */
  readonly compression?: Compression;
  /**
   * The momentum of the training, at least 0 and less than 1. It is in the updates, so the program must not apply it
   * again. Deep Gradient Compression applies it on each rank before it selects (paper, section 3.2); the default,
   * `lowRank`, applies it to the mean. Default 0.
   */
  readonly momentum?: number;
  /** Whether the momentum is Nesterov's. Default false. */
  readonly nesterov?: boolean;
  /**
   * What to do when a gradient holds NaN or infinity on some rank. `error` raises `ERR_NON_FINITE` on every rank.
   * `skip` returns null on all ranks, and the training goes on. In both cases the gradient of that rank is dropped. The
   * other ranks keep theirs for later steps where the compression keeps what it does not send. Default `error`.
   */
  readonly onNonFinite?: 'error' | 'skip';
  /** The first {@link RingGradients.learningRate}. Default 1. */
  readonly learningRate?: number;
}

const NAMES = {
  ...{ compression: true, momentum: true, nesterov: true, onNonFinite: true, learningRate: true },
} as const satisfies Record<keyof GradientOptions, true>;

/**
 * The gradients of a training, whose mean over all ranks each step returns. Made by {@link CoreRing.gradients}. Before
 * the first step the ranks compare names, shapes and options.
 *
 * ```ts
 * const weights = new Float32Array(200);
 * const gradients = core.gradients({ weights: [10, 20] }, { momentum: 0.9 });
 * for (let step = 0; step < 10; step++) {
 *   const updates = await gradients.step({ weights: weights.map(weight => weight - core.rank) });
 *   updates.weights.forEach((update, i) => (weights[i] -= 0.1 * update));
 * }
 * console.log(gradients.statistics.steps); // 10
 * gradients.dispose();
 * ```
 */
export class RingGradients<N extends string = string, Skipped extends null = never> {
  private readonly rule: ProgramsRule;
  /** @internal */
  readonly steps: ArraySteps;
  /** What each step returns. */
  private updates: NamedUpdates<N> | undefined;

  constructor(communicator: Communicator, shapes: Shapes<N>, options: GradientOptions = {}) {
    checkOptions('ring.gradients', options, NAMES, hintAtName);
    const { compression, onNonFinite = 'error', momentum = 0, nesterov = false, learningRate } = options;
    checkCompression(compression);
    requireOneOf('onNonFinite', onNonFinite, ['error', 'skip']);
    if (typeof momentum !== 'number' || !(momentum >= 0 && momentum < 1)) {
      throw invalidArgument(`momentum is ${inspect(momentum)}; it must be at least 0, and less than 1.`);
    }
    requireBoolean('nesterov', nesterov);
    this.rule = new ProgramsRule({ momentum, nesterov }, learningRate);
    this.steps = new ArraySteps(communicator, tensorsOf(shapes), this.rule, { compression, onNonFinite });
  }

  /**
   * The learning rate with which the program multiplies the updates. Only `dgc({ rescaleResiduals: true })` needs it.
   * It may be changed between steps, in the same way on all ranks, which is compared. A checkpoint has it.
   */
  get learningRate(): number {
    return this.rule.learningRate;
  }

  set learningRate(learningRate: number) {
    this.rule.learningRate = learningRate;
  }

  /**
   * What this process has done and sent so far. It begins at zero when a training is resumed. The compression ratio is
   * `denseBytes / bytesSent`.
   */
  get statistics(): StepStatistics {
    return this.steps.statistics;
  }

  /**
   * Sets the epoch, from 0, on which DGC's warm-up depends.
   *
   * @param stepsPerEpoch How many steps each epoch has. A warm-up that has fewer epochs than stages, such as
   *   `warmUpEpochs: 1`, needs it to go through all of them.
   */
  setEpoch(epoch: number, stepsPerEpoch?: number): void {
    this.steps.setEpoch(epoch, stepsPerEpoch);
  }

  /**
   * Exchanges the gradients of this rank, and returns the mean update of all ranks, with the same bits on each. Await
   * it before the next step. The arrays that are passed are only read, before the promise settles.
   *
   * @returns Views that are valid until the next step begins: the same arrays after every step. Null with `onNonFinite:
   *   'skip'` if the step was skipped on all ranks.
   * @throws GradringError `ERR_NON_FINITE`, `ERR_MODEL_MISMATCH`, `ERR_NO_EPOCH`; `ERR_INVALID_ARGUMENT` for gradients
   *   that are not those of the shapes, before anything is sent; and what every collective may throw (see
   *   {@link Communicator}).
   */
  async step(gradients: NamedGradients<N>): Promise<NamedUpdates<N> | Skipped> {
    const given = this.checked(gradients);
    return this.updatesAfter(await this.steps.takeAwake(given));
  }

  /** {@link step}; the thread sleeps meanwhile. */
  stepSync(gradients: NamedGradients<N>): NamedUpdates<N> | Skipped {
    const given = this.checked(gradients);
    return this.updatesAfter(this.steps.takeAsleep(given));
  }

  /** Closes the exchange, and frees its memory when no view of it is left. */
  dispose(): void {
    this.steps.checkIdle();
    this.updates = undefined;
    this.steps.close();
  }

  private updatesAfter(isApplied: boolean): NamedUpdates<N> | Skipped {
    if (!isApplied) return null as Skipped;
    const { exchange, variables } = this.steps.trained!;
    this.updates ??= Object.fromEntries(
      variables.map(({ name }, i) => [name, exchange.gradient(i)]),
    ) as NamedUpdates<N>;
    return this.updates;
  }

  private checked(gradients: NamedGradients<N>): GradientsByName {
    this.steps.checkOpen();
    return checkedGradients(gradients, this.steps.tensors);
  }
}

/** Checked gradients: one for each tensor. */
type GradientsByName = ReadonlyMap<string, Float32Array | null>;

/** The program applies the updates: the rule of its training. */
class ProgramsRule implements UpdateRule<ExchangedArrays> {
  /** The class of tfjs with this rule, so that a wrapped optimizer can go on from a checkpoint. */
  readonly className: string;
  /** Undefined as long as nobody has given a learning rate. */
  givenRate: number | undefined;

  constructor(
    readonly takenOver: Momentum,
    learningRate: number | undefined,
  ) {
    this.className = takenOver.momentum === 0 ? 'SGD' : 'Momentum';
    if (learningRate !== undefined) this.learningRate = learningRate;
  }

  get learningRate(): number {
    return this.givenRate ?? 1;
  }

  set learningRate(learningRate: number) {
    if (typeof learningRate !== 'number' || !(learningRate >= 0 && learningRate < Infinity)) {
      throw invalidArgument(`learningRate is ${inspect(learningRate)}; it must be a number, 0 or more.`);
    }
    this.givenRate = learningRate;
  }

  apply(): void {}
}

/** Typed arrays whose gradients are exchanged. */
class ExchangedArrays extends ExchangedTensors {
  load(gradients: GradientsByName): LoadedGradients {
    const { exchange } = this;
    // An update of the last step lies where another gradient may be written before it is read.
    const memories = new Set(this.variables.map((_, i) => exchange.gradient(i).buffer));
    const isInTheWay = ({ buffer, byteOffset }: Float32Array, own: Float32Array) =>
      memories.has(buffer) && !(buffer === own.buffer && byteOffset === own.byteOffset);
    const values = this.variables.map(({ name }, i) => {
      const gradient = gradients.get(name)!;
      return gradient !== null && isInTheWay(gradient, exchange.gradient(i)) ? gradient.slice() : gradient;
    });
    return this.loadEach((_, i) => (values[i] == null ? undefined : { values: values[i], isCopy: false }));
  }
}

/** The steps of a program that applies the updates by itself. */
export class ArraySteps
  extends ExchangeSteps<TrainedTensor, ExchangedArrays, GradientsByName>
  implements CheckpointedSteps<StepState>
{
  declare readonly inner: ProgramsRule;
  protected readonly differently = 'Ranks call ring.gradients differently';
  private isClosed = false;

  constructor(
    communicator: Communicator,
    readonly tensors: readonly TrainedTensor[],
    rule: ProgramsRule,
    { compression, onNonFinite }: Pick<StepOptions, 'compression' | 'onNonFinite'>,
  ) {
    super(communicator, {
      policy: new EveryStep<ExchangedArrays, GradientsByName>(),
      inner: rule,
      outer: rule,
      options: { compression, onNonFinite, learningRateRule: 'constant', verifyEvery: 0, overlap: 0 },
      words: 'the training',
      busyWords: 'A step is under way, or is being saved: await it first.',
    });
  }

  override close(): void {
    this.isClosed = true;
    super.close();
  }

  /** @throws GradringError `ERR_CLOSED`. */
  checkOpen(): void {
    if (this.isClosed) throw new GradringError('ERR_CLOSED', 'These gradients were disposed of.');
  }

  async withState<T>(use: (state: StepState) => Promise<T>): Promise<T> {
    return this.whileBusy(async () => {
      this.checkOpen();
      const { counters, variables } = captureState(this, undefined);
      return use({ counters: { ...counters, learningRate: this.inner.givenRate }, variables });
    });
  }

  requireFits(state: StepState): void {
    this.checkOpen();
    requireFits(this, state);
  }

  async restoreState(state: StepState): Promise<void> {
    this.checkOpen();
    this.checkIdle();
    await restoreState(this, state);
  }

  protected override namesIn(): string[] {
    return this.tensors.map(({ name }) => name);
  }

  protected override variablesNamed(): readonly TrainedTensor[] {
    return this.tensors;
  }

  protected override openExchange(
    variables: readonly TrainedTensor[],
    options: ConstructorParameters<typeof ExchangedArrays>[2],
  ): ExchangedArrays {
    return new ExchangedArrays(this.communicator, variables, options);
  }

  protected override hashesOf(): string[] {
    return [];
  }

  protected override adviceFor(): string {
    return '';
  }

  protected override sharedOptions(): Record<string, unknown> {
    return {};
  }
}

/** @throws GradringError `ERR_INVALID_ARGUMENT`. */
function tensorsOf(shapes: Shapes): TrainedTensor[] {
  if (typeof shapes !== 'object' || shapes === null || Array.isArray(shapes)) {
    throw invalidArgument(`ring.gradients takes shapes by name, as { w: [10, 20] }, not ${brief(shapes)}.`);
  }
  const tensors = Object.entries(shapes).map(([name, shape]): TrainedTensor => {
    const isLength = (length: unknown) => Number.isSafeInteger(length) && (length as number) >= 0;
    if (!Array.isArray(shape) || !shape.every(isLength)) {
      throw invalidArgument(
        `The shape of '${name}' is ${brief(shape)}; it must be a list of whole numbers, 0 or more.`,
      );
    }
    return { name, shape: [...(shape as number[])], dtype: 'float32', size: sizeOf(shape) };
  });
  if (tensors.length === 0) throw invalidArgument('ring.gradients takes the shape of at least one array.');
  return tensors;
}

/** @throws GradringError `ERR_INVALID_ARGUMENT`, naming the array. */
function checkedGradients(gradients: NamedGradients, tensors: readonly TrainedTensor[]): GradientsByName {
  if (
    typeof gradients !== 'object' ||
    gradients === null ||
    Array.isArray(gradients) ||
    ArrayBuffer.isView(gradients)
  ) {
    throw invalidArgument(`step takes gradients by name, as { w: gradient }, not ${brief(gradients)}.`);
  }
  const given = new Map<string, unknown>(Object.entries(gradients));
  const names = tensors.map(({ name }) => name);
  const unknown = [...given.keys()].find(name => !names.includes(name));
  if (unknown !== undefined) {
    const similar = similarName(unknown, names);
    const words = similar === undefined ? `The names are ${names.join(', ')}.` : `Did you mean ${similar}?`;
    throw invalidArgument(`There is a gradient of '${unknown}', but ring.gradients has no shape of it. ${words}`);
  }
  return new Map(
    tensors.map(({ name, shape, size }) => {
      const gradient = given.get(name);
      if (gradient === null) return [name, null];
      if (gradient === undefined) {
        throw invalidArgument(`There is no gradient of '${name}'. Pass null if it is zero.`);
      }
      if (!isFloat32Array(gradient)) {
        throw invalidArgument(`The gradient of '${name}' is ${brief(gradient)}; it must be a Float32Array, or null.`);
      }
      if (gradient.length !== size) {
        const words = `but its shape ${inBrackets(shape)} has ${size}`;
        throw invalidArgument(`The gradient of '${name}' has ${gradient.length} elements, ${words}.`);
      }
      return [name, gradient];
    }),
  );
}
