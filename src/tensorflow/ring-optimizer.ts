import { tf } from './tfjs';
import { checkOptions } from '../check-options';
import { type Communicator, Purpose } from '../communicator/communicator';
import type { VariableShape } from '../exchange/arena-layout';
import type { ExchangeHandle } from '../exchange/exchange-handle';
import type { ExchangeResult, ExchangeStep } from '../exchange/messages';
import { LARGEST_DENSITY } from '../compression/choose-sparsity';
import { type Compression, dgc } from '../compression/dgc-options';
import { travelsDense } from '../compression/sparsity-schedule';
import { GradringError, invalidArgument } from '../errors';
import {
  captureInner,
  disposeInner,
  type InnerState,
  type NamedTensor,
  type OptimizerState,
  restoreInner,
  type VariableState,
} from './optimizer-state';
import { DataCheck } from './data-check';
import { gradientValues } from './gradient-values';
import { isOwnOptimizer, notOurs } from './one-copy';
import { type LearningRateRule, RingResize } from './ring-resize';
import { shareStep } from './share-step';
import { SentFraction } from './sent-fraction';
import { Verification, type VerifiedStep } from './verification';
import { warn } from './warn';
import { checkDescriptions, checkHashes, describe, fromBytes, hashesOf, toBytes } from './replicas';

/** What {@link Ring.wrap} may take. */
export interface WrapOptions {
  /** `dgc({ … })` or `noCompression()`. Default `dgc()`. */
  readonly compression?: Compression;
  /**
   * What to do when a gradient holds NaN or infinity on some rank. `error` raises `ERR_NON_FINITE` on every rank.
   * `skip` applies nothing on any rank and continues. In both cases that gradient is dropped, and the other ranks hold
   * theirs back for later steps (except dense tensors with float32 values, which are dropped). Values that have
   * overflowed are dropped on all ranks. Default `error`.
   */
  readonly onNonFinite?: 'error' | 'skip';
  /**
   * In an elastic run the ring may change its size. `linear` multiplies the learning rate by worldSize ÷ the size at
   * the launch, so that the gradient of each rank keeps its weight. `constant` does not change it. Default `linear`.
   */
  readonly learningRateRule?: LearningRateRule;
  /** Compares the hash of the weights of all ranks every so many steps. 0: never. Default 1000. */
  readonly verifyEvery?: number;
}

/** What a wrapped optimizer has sent on this rank. */
export interface StepStatistics {
  /** How many steps were taken, skipped ones included. */
  readonly steps: number;
  /** How many steps were skipped by `onNonFinite: 'skip'`. */
  readonly skippedSteps: number;
  /** Bytes sent, forwarded frames and headers included. */
  readonly bytesSent: number;
  /** Bytes that a dense ring all-reduce of the same gradients would have sent. */
  readonly denseBytes: number;
  /** The fraction of each large tensor that the last step sent. */
  readonly density: number;
}

const OPTIONS = { compression: true, onNonFinite: true, learningRateRule: true, verifyEvery: true } as const;

/** Gradients by the name of their variable: what `tf.variableGrads` returns, or a list. */
export type Gradients = tf.NamedTensorMap | NamedTensor[];

/**
 * An optimizer that applies the mean gradient of all ranks. Made by {@link Ring.wrap}. It is a `tf.Optimizer` for
 * `model.compile`, `minimize` and custom loops.
 *
 * Deep Gradient Compression has to apply the momentum before it selects (paper, section 3.2). So the wrapper takes over
 * the momentum of `tf.train.momentum` (plain or Nesterov); `tf.train.sgd` has none. The inner optimizer then only gives
 * its learning rate. Any other optimizer gets the averaged gradient, as compression leaves it: see docs/algorithms.md.
 *
 * ```ts
 * const w = tf.variable(tf.zeros([50, 40]), true, 'weights');
 * const optimizer = ring.wrap(tf.train.momentum(0.1, 0.9), { compression: dgc({ steps: 10 }) });
 * for (let step = 0; step < 10; step++) await optimizer.minimizeAsync(() => w.sub(ring.rank).square().mean());
 * console.log(optimizer.statistics.steps); // 10
 * optimizer.dispose();
 * ```
 */
export class RingOptimizer extends tf.Optimizer {
  /**
   * The name of this class for tfjs.
   *
   * @nocollapse
   */
  static get className(): string {
    return 'RingOptimizer';
  }

  /**
   * Whether this is a wrapped optimizer. Use this instead of `instanceof`: for tfjs, every object with the methods of
   * an optimizer is an instance of every optimizer class.
   */
  static is(optimizer: unknown): optimizer is RingOptimizer {
    return (optimizer as Partial<tf.Optimizer> | undefined)?.constructor === RingOptimizer;
  }

  private readonly compression: Compression;
  private readonly onNonFinite: 'error' | 'skip';
  private readonly verification: Verification;
  private readonly resize: RingResize;
  /** The momentum that was taken over; `undefined` if the inner optimizer applies the averaged gradient itself. */
  private readonly takenOver: { readonly momentum: number; readonly nesterov: boolean } | undefined;
  private variables: tf.Variable[] = [];
  /** What {@link getWeights} gave last, which `model.save` does not dispose of. */
  private given: tf.Tensor[] = [];
  private exchange: ExchangeHandle | undefined;
  /** State from {@link restoreState}, until the first step tells the variables. */
  private restored: ReadonlyMap<string, tf.TensorBuffer<tf.Rank>> | undefined;
  private epoch: number | undefined;
  /** An asynchronous step is under way, and the arenas are the comm thread's. */
  private stepping = false;
  /** What the last step applied, for ranks for whom it failed. Kept in elastic runs only. */
  private lastUpdates: readonly Float32Array[] = [];
  private total = { steps: 0, skippedSteps: 0, bytesSent: 0, denseBytes: 0, density: 1 };

  constructor(
    private readonly communicator: Communicator,
    private readonly inner: tf.Optimizer,
    options: WrapOptions = {},
  ) {
    super();
    if (RingOptimizer.is(inner)) throw invalidArgument('The optimizer is wrapped already.');
    if (!isOwnOptimizer(inner)) {
      const words = 'ring.wrap takes a tf.Optimizer such as tf.train.momentum(0.1, 0.9).';
      throw notOurs('optimizer', 'applyGradients', inner, words);
    }
    checkOptions('ring.wrap', options, OPTIONS, name =>
      name === 'kind' ? 'Pass the compression by its name: { compression: dgc(…) }.' : undefined,
    );
    const { compression = dgc(), onNonFinite = 'error', verifyEvery = 1000, learningRateRule = 'linear' } = options;
    if (compression?.kind !== 'dgc' && compression?.kind !== 'none') {
      throw invalidArgument('compression must be what dgc({ … }) or noCompression() returns.');
    }
    if (onNonFinite !== 'error' && onNonFinite !== 'skip') {
      throw invalidArgument(`onNonFinite is '${String(onNonFinite)}'; it must be 'error' or 'skip'.`);
    }
    this.compression = compression;
    this.onNonFinite = onNonFinite;
    this.verification = new Verification(communicator, verifyEvery);
    this.resize = new RingResize(communicator, learningRateRule);
    this.takenOver = momentumOf(inner);
    if (compression.kind === 'none') return;
    this.sentFraction = new SentFraction(communicator, compression, this.takenOver !== undefined);
    if (this.takenOver === undefined) this.warnOfForeignMomentum(compression.sparsity);
  }

  /** The learning rate of the inner optimizer. It may be changed between steps, in the same way on all ranks. */
  get learningRate(): number {
    return (this.inner as unknown as { learningRate: number }).learningRate;
  }

  set learningRate(learningRate: number) {
    const inner = this.inner as unknown as { learningRate: number; setLearningRate?: (learningRate: number) => void };
    if (inner.setLearningRate !== undefined) inner.setLearningRate(learningRate);
    else inner.learningRate = learningRate;
  }

  /** Sets {@link learningRate}. (The optimizers of tfjs have this method.) */
  setLearningRate(learningRate: number): void {
    this.learningRate = learningRate;
  }

  /** What this rank has sent so far. The compression ratio of a run is `denseBytes / bytesSent`. */
  get statistics(): StepStatistics {
    return this.total;
  }

  /** Sets the epoch, from 0, on which DGC's warm-up depends. `ring.callbacks()` does it for `model.fit`. */
  setEpoch(epoch: number): void {
    if (!Number.isInteger(epoch) || epoch < 0) throw invalidArgument(`epoch is ${epoch}; epochs are counted from 0.`);
    this.epoch = epoch;
  }

  /**
   * Like {@link setEpoch}, but never goes back: a second `model.fit`, which counts from 0 again, does not repeat DGC's
   * warm-up.
   *
   * @internal
   */
  beginEpoch(epoch: number): void {
    this.setEpoch(Math.max(epoch, (this.epoch ?? -1) + 1));
  }

  /**
   * Which fraction of the gradients is sent. Undefined without compression.
   *
   * @internal
   */
  readonly sentFraction: SentFraction | undefined;

  /**
   * Exchanges the gradients of all ranks and applies their mean. The thread sleeps during the exchange.
   *
   * @throws GradringError `ERR_NON_FINITE`, `ERR_MODEL_MISMATCH`, `ERR_REPLICAS_DIVERGED`, `ERR_NO_EPOCH`, and what
   *   every collective may throw (see {@link Communicator}).
   */
  override applyGradients(gradients: Gradients): void {
    this.checkIdle();
    const named = toNamedTensors(gradients);
    const { communicator } = this;
    const { units } = communicator;
    const gather = <T>(own: T, purpose: Purpose) =>
      communicator.allGatherSync(toBytes(own), { variableLength: true, purpose }).map(fromBytes<T>);
    if (this.exchange === undefined) {
      const greeting = this.prepare(named);
      this.open(units.runSync({ name: GREETING, run: () => gather(greeting, Purpose.FirstStep) }));
    }
    const run = () => this.exchange!.runSync(this.load(named, Array.isArray(gradients)));
    const result = units.runSync({ ...this.stepUnit(), run: () => this.told(run()) });
    this.finish(result);
    if (!result.verifies) return;
    this.verify(units.runSync({ name: 'verify', run: () => gather(hashesOf(this.variables), Purpose.VerifyStep) }));
  }

  /** Like {@link applyGradients}, but the thread does not sleep. */
  async applyGradientsAsync(gradients: Gradients): Promise<void> {
    this.checkIdle();
    this.stepping = true;
    try {
      const named = toNamedTensors(gradients);
      const { communicator } = this;
      const { units } = communicator;
      const gather = async <T>(own: T, purpose: Purpose) =>
        (await communicator.allGather(toBytes(own), { variableLength: true, purpose })).map(fromBytes<T>);
      if (this.exchange === undefined) {
        const greeting = this.prepare(named);
        this.open(await units.run({ name: GREETING, run: () => gather(greeting, Purpose.FirstStep) }));
      }
      const run = () => this.exchange!.run(this.load(named, Array.isArray(gradients)));
      const result = await units.run({ ...this.stepUnit(), run: async () => this.told(await run()) });
      this.finish(result);
      if (!result.verifies) return;
      const hashes = () => gather(hashesOf(this.variables), Purpose.VerifyStep);
      this.verify(await units.run({ name: 'verify', run: hashes }));
    } finally {
      this.stepping = false;
    }
  }

  /**
   * Like `minimize`, but the thread does not sleep: `const cost = await optimizer.minimizeAsync(() => loss(), true)`.
   */
  async minimizeAsync(f: () => tf.Scalar, returnCost = false, varList?: tf.Variable[]): Promise<tf.Scalar | null> {
    const { value, grads } = this.computeGradients(f, varList);
    try {
      const named = varList?.map(({ name }) => ({ name, tensor: grads[name]! }));
      await this.applyGradientsAsync(named ?? grads);
    } catch (error) {
      value.dispose();
      throw error;
    } finally {
      tf.dispose(grads);
    }
    if (returnCost) return value;
    value.dispose();
    return null;
  }

  /**
   * Gives away what a checkpoint keeps of this rank: views, so that no step may be taken until the promise of `use`
   * settles.
   *
   * @internal
   */
  async withState<T>(use: (state: OptimizerState) => Promise<T>): Promise<T> {
    this.checkIdle();
    this.stepping = true;
    let inner: InnerState = { weights: [], fields: [] };
    try {
      if (this.takenOver === undefined) inner = await captureInner(this.inner);
      const { steps, skippedSteps, density } = this.total;
      const { iterations, epoch, learningRate } = this;
      const expectedSteps = this.sentFraction?.expected;
      const optimizer = this.inner.getClassName();
      const { lastWorldSize } = this.resize;
      const counters = {
        ...{ optimizer, steps, skippedSteps, density, iterations, epoch, learningRate },
        ...(lastWorldSize !== undefined && { worldSize: lastWorldSize }),
        ...(expectedSteps !== undefined && { expectedSteps }),
      };
      return await use({ counters, variables: this.variableStates(), inner });
    } finally {
      this.stepping = false;
      disposeInner(inner);
    }
  }

  /**
   * Takes back what {@link withState} gave, on this or another rank. The arrays become the optimizer's, the tensors
   * stay the caller's.
   *
   * @internal
   */
  async restoreState({ counters, variables, inner }: OptimizerState): Promise<void> {
    this.checkIdle();
    this.requireSharedMomenta(variables);
    const { steps, skippedSteps, density, iterations, epoch, learningRate } = counters;
    this.total = { ...this.total, steps, skippedSteps, density };
    this.resize.lastWorldSize = counters.worldSize;
    if (this.sentFraction !== undefined && counters.expectedSteps !== undefined) {
      this.sentFraction.expected = counters.expectedSteps;
    }
    this.iterations_ = iterations;
    this.epoch = epoch;
    if (learningRate !== undefined) this.learningRate = learningRate;
    const buffers = variables.flatMap(({ name, shape, momentum, residual }) => [
      [momentumName(name), tf.buffer([...shape], 'float32', momentum)] as const,
      [residualName(name), tf.buffer([...shape], 'float32', residual)] as const,
    ]);
    this.restored = variables.length > 0 ? new Map(buffers) : undefined;
    if (this.exchange !== undefined) this.restore();
    if (this.takenOver === undefined) await restoreInner(this.inner, inner);
  }

  /**
   * Takes the state of the others, on a rank that joins them: as {@link restoreState}, and of the variables that they
   * train, in their order. Needs no word with them.
   *
   * @param hasBegun Whether they have taken a step since they were started. If not, they compare what they train in the
   *   next, with this rank.
   * @internal
   */
  async adoptState(state: OptimizerState, hasBegun: boolean): Promise<void> {
    await this.restoreState(state);
    if (!hasBegun) return;
    this.variables = state.variables.map(({ name }) => variableNamed(name));
    this.openExchange();
  }

  /**
   * Whether the learning rate follows the size of the ring, so that a rank's gradient always has the same weight.
   *
   * @internal
   */
  get keepsSum(): boolean {
    return this.resize.isLinear;
  }

  /**
   * As {@link setEpoch} or `model.fit` last told it.
   *
   * @internal
   */
  get currentEpoch(): number | undefined {
    return this.epoch;
  }

  /**
   * The names of the variables that it trains. Undefined before the first step.
   *
   * @internal
   */
  get trainedNames(): ReadonlySet<string> | undefined {
    return this.exchange && new Set(this.variables.map(({ name }) => name));
  }

  // `model.save(…, { includeOptimizer: true })` writes the inner optimizer: the file can be loaded without a ring.

  /** The class of the inner optimizer. */
  override getClassName(): string {
    return this.inner.getClassName();
  }

  /** The configuration of the inner optimizer. */
  override getConfig(): tf.serialization.ConfigDict {
    return this.inner.getConfig();
  }

  /**
   * The state of the inner optimizer, as `model.save(…, { includeOptimizer: true })` saves it: with the momentum of
   * this rank, and without its residuals. {@link Ring.checkpoint} saves a whole training. The tensors belong to the
   * optimizer, and are valid until the next call.
   */
  override async getWeights(): Promise<NamedTensor[]> {
    this.checkIdle();
    if (this.takenOver === undefined) return this.inner.getWeights();
    tf.dispose(this.given);
    const momenta = this.inner.constructor === tf.MomentumOptimizer ? this.variableStates() : [];
    const weights = [
      { name: 'iter', tensor: tf.scalar(this.iterations, 'int32') }, // tfjs calls it so
      ...momenta.map(({ name, shape, momentum }) => {
        return { name: `${name}/momentum`, tensor: tf.tensor(momentum.slice(), [...shape]) };
      }),
    ];
    this.given = weights.map(({ tensor }) => tensor);
    return weights;
  }

  /**
   * Not supported: only a checkpoint has the state of all ranks.
   *
   * @throws GradringError `ERR_INVALID_ARGUMENT`, always.
   */
  override async setWeights(): Promise<void> {
    throw invalidArgument(
      'A wrapped optimizer does not take weights: each rank has a state of its own. Save and resume by ring.checkpoint(…).',
    );
  }

  /**
   * Closes the exchange, and frees its memory and the variables of the inner optimizer. In an elastic run close the
   * ring before: until then other ranks may still need the last step of this one.
   */
  override dispose(): void {
    this.checkIdle();
    this.exchange?.close();
    this.exchange = undefined;
    this.variables = [];
    tf.dispose(this.given);
    this.inner.dispose();
    super.dispose();
  }

  private checkIdle(): void {
    if (!this.stepping) return;
    throw invalidArgument(
      'The optimizer is within a step, or is being saved: await applyGradientsAsync, minimizeAsync, and checkpoint.save.',
    );
  }

  /** Of a variable that travels whole the momentum is that of the average, so it must be the same on all ranks. */
  private requireSharedMomenta(variables: readonly VariableState[]): void {
    if (!this.takenOver?.momentum) return;
    const own = variables.find(
      ({ shape, momentum, isMomentumShared }) =>
        !isMomentumShared && travelsDense(this.compression, shape, momentum.length),
    );
    if (own === undefined) return;
    const words = `The gradient of '${own.name}' was compressed when the checkpoint was saved, and now travels whole, but the ranks have momenta of their own. Wrap the optimizer with the compression (denseBelow) of before.`;
    throw new GradringError('ERR_CHECKPOINT', words, { variable: own.name });
  }

  private variableStates(): VariableState[] {
    const stateOf = (name: string, shape: number[], momentum: Float32Array, residual: Float32Array): VariableState => {
      const isMomentumShared = this.sharesMomentum(shape, momentum.length, this.total.density);
      return { name, shape, momentum, residual, isMomentumShared };
    };
    const { exchange, restored } = this;
    if (exchange !== undefined) {
      return this.variables.map(({ name, shape }, i) =>
        stateOf(name, shape, exchange.momentum(i), exchange.residual(i)),
      );
    }
    return [...(restored ?? [])].flatMap(([momentumKey, { shape, values }]) => {
      if (!momentumKey.endsWith(MOMENTUM_SUFFIX)) return [];
      const name = momentumKey.slice(0, -MOMENTUM_SUFFIX.length);
      const residual = restored!.get(residualName(name))!;
      return [stateOf(name, shape, values as Float32Array, residual.values as Float32Array)];
    });
  }

  /** Learns from the first gradients which variables there are. Returns what the ranks must agree on. */
  private prepare(gradients: readonly NamedTensor[]): Greeting {
    this.sentFraction?.beginSteps(this.total.steps);
    const names = new Set(gradients.map(({ name }) => name)); // a layer in several models may be listed twice
    this.variables = [...names].map(variableNamed);
    return {
      variables: this.variables.map(describe),
      options: this.optionsToAgreeOn(),
      hashes: hashesOf(this.variables),
      data: DataCheck.of(this.communicator).take(),
    };
  }

  private told(result: ExchangeResult): StepResult {
    const { worldSize } = this.communicator;
    return { ...result, density: this.densityNow(), worldSize, ...this.verification.of(this.total.steps) };
  }

  /** Whether a variable's momentum is that of the average, as what travels whole is averaged first. */
  private sharesMomentum(shape: readonly number[], elementCount: number, density: number): boolean {
    return density === 1 || travelsDense(this.compression, shape, elementCount);
  }

  /** A step, but for its exchange. */
  private stepUnit() {
    this.communicator.units.checkOutside('An optimizer step');
    const share = (root: number, isBehind: boolean, { nonFinite, density }: StepResult) => {
      const sharesMomentum = this.variables.map(({ shape, size }) => this.sharesMomentum(shape, size, density));
      const { communicator, lastUpdates } = this;
      const exchange = this.exchange!;
      shareStep({
        communicator,
        exchange,
        sharesMomentum,
        lastUpdates,
        root,
        isBehind,
        isApplied: nonFinite === undefined,
      });
    };
    return { name: `step ${this.total.steps}`, share };
  }

  private open(all: readonly Greeting[]): void {
    checkDescriptions(all.map(({ variables }) => variables));
    checkSameOptions(all.map(({ options }) => options));
    checkHashes(
      all.map(({ hashes }) => hashes),
      this.variables,
      'before the first step',
    );
    DataCheck.of(this.communicator).compare(all.map(({ data }) => data));
    this.openExchange();
  }

  private openExchange(): void {
    const variables = this.variables.map(({ name, shape }): VariableShape => ({ name, shape }));
    this.exchange = this.communicator.openExchange({ variables, ...this.exchangeOptions() });
    this.restore();
  }

  private optionsToAgreeOn(): Record<string, unknown> {
    return {
      optimizer: this.inner.getClassName(),
      learningRate: this.learningRate,
      ...this.takenOver,
      compression: this.compression,
      onNonFinite: this.onNonFinite,
      verifyEvery: this.verification.every,
      learningRateRule: this.resize.rule,
      step: this.total.steps,
    };
  }

  private exchangeOptions() {
    return { compression: this.compression, nesterov: this.takenOver?.nesterov ?? false };
  }

  /**
   * Copies the gradients to the arenas, and sums their squares while they are in the cache.
   *
   * @param all Whether they name every variable that is trained, as lists do (with `null` where the loss did not depend
   *   on one), or only those that the loss depended on, as `minimize` without a list has them.
   */
  private load(gradients: readonly NamedTensor[], all: boolean): ExchangeStep {
    return this.communicator.recorded('copy', this.spanArguments(), () => this.copy(gradients, all));
  }

  private copy(gradients: readonly NamedTensor[], all: boolean): ExchangeStep {
    const given = new Map(gradients.map(({ name, tensor }) => [name, tensor]));
    const unexpected = [...given.keys()].find(name => !this.variables.some(variable => variable.name === name));
    if (unexpected !== undefined) {
      const words = `There is a gradient of '${unexpected}', which the first step did not train. Wrap one optimizer for each set of variables.`;
      throw new GradringError('ERR_MODEL_MISMATCH', words, { variable: unexpected });
    }
    const step = {
      step: this.total.steps,
      epoch: this.epoch,
      learningRate: this.learningRate,
      density: this.densityNow(),
      momentumFactor: this.takenOver?.momentum ?? 0,
      momentumCorrection: this.resize.momentumCorrection,
      sumOfSquares: 0,
      nonFiniteTensor: -1,
    };
    this.variables.forEach(({ name }, i) => {
      const segment = this.exchange!.gradient(i);
      const tensor = given.get(name);
      if (all && !given.has(name)) {
        const words = `'${name}', which the first step trained, is trained no more. Wrap a new optimizer when a layer is frozen.`;
        throw new GradringError('ERR_MODEL_MISMATCH', words, { variable: name });
      }
      if (tensor == null) {
        segment.fill(0); // the loss did not depend on it this time
        return;
      }
      if (tensor.size !== segment.length) {
        throw invalidArgument(
          `The gradient of '${name}' has the shape [${tensor.shape.join(', ')}], and not that of the variable.`,
        );
      }
      const { values, isCopy } = gradientValues(tensor);
      this.exchange!.writeGradient(i, values, isCopy);
      const sumOfSquares = this.exchange!.sumOfSquares(i);
      if (!Number.isFinite(sumOfSquares) && step.nonFiniteTensor === -1) step.nonFiniteTensor = i;
      step.sumOfSquares += sumOfSquares;
    });
    return step;
  }

  private densityNow(): number {
    return this.sentFraction?.densityAt({ epoch: this.epoch, step: this.total.steps }) ?? 1;
  }

  /** Momentum correction is for momentum and SGD: see docs/algorithms.md. */
  private warnOfForeignMomentum(sparsity: number | 'auto'): void {
    const name = this.inner.getClassName();
    const isGiven = sparsity !== 'auto';
    if (isGiven && sparsity <= 1 - LARGEST_DENSITY) return;
    const words = isGiven
      ? `${name} cannot correct for what dgc() holds back: above a sparsity of 0.75 it learns several times slower, however long the training. Leave the sparsity out, which makes it 0.75.`
      : `${name} cannot correct for what dgc() holds back, so that only 75 % of each gradient is held back.`;
    const advice = 'tf.train.momentum with dgc() sends far less; noCompression() is exact. See docs/algorithms.md.';
    warn(this.communicator, `${words} ${advice}`);
  }

  private finish(result: StepResult): void {
    const { nonFinite, bytesSent, denseBytes, density, worldSize } = result;
    this.verification.finishStep(result);
    if (nonFinite === undefined) this.resize.lastWorldSize = worldSize;
    this.lastUpdates = [];
    const step = this.total.steps;
    this.total = {
      steps: step + 1,
      skippedSteps: this.total.skippedSteps + (nonFinite === undefined ? 0 : 1),
      bytesSent: this.total.bytesSent + bytesSent,
      denseBytes: this.total.denseBytes + denseBytes,
      density,
    };
    if (nonFinite === undefined) {
      this.communicator.recorded('apply', { ...this.spanArguments(), step }, () => this.applyUpdate());
      return;
    }
    if (this.onNonFinite === 'skip') return;
    const variable = this.variables[nonFinite.tensor]!.name;
    const where =
      nonFinite.rank === undefined
        ? 'overflows in the sum over all ranks'
        : `holds NaN or infinity on rank ${nonFinite.rank}`;
    const words = `The gradient of '${variable}' ${where}, in step ${step}. Nothing was applied on any rank. (Lower the learning rate, clip with dgc({ clipNorm }), or pass onNonFinite: 'skip'.)`;
    const details = { ...(nonFinite.rank !== undefined && { rank: nonFinite.rank }), variable, step };
    throw new GradringError('ERR_NON_FINITE', words, details);
  }

  private applyUpdate(): void {
    if (this.communicator.isElastic)
      this.lastUpdates = this.variables.map((_, i) => this.exchange!.gradient(i).slice());
    const rate = this.learningRate;
    const { rateFactor } = this.resize;
    tf.tidy(() => {
      if (this.takenOver === undefined) {
        if (rateFactor !== 1) this.learningRate = rate * rateFactor;
        // Copies, as the inner optimizer may keep them, and the memory is written again in the next step.
        this.inner.applyGradients(this.variables.map(({ name }, i) => ({ name, tensor: this.updateTensor(i, true) })));
        if (rateFactor !== 1) this.learningRate = rate;
        return;
      }
      const factor = tf.scalar(-rate * rateFactor);
      const copies = worksBehind();
      this.variables.forEach((variable, i) =>
        variable.assign(tf.tidy(() => tf.add(tf.mul(factor, this.updateTensor(i, copies)), variable))),
      );
    });
    this.incrementIterations();
  }

  /** A variable's update. Where it is no copy, it must be used up before the next step. */
  private updateTensor(i: number, copies: boolean): tf.Tensor {
    const update = this.exchange!.gradient(i);
    return tf.tensor(copies ? update.slice() : update, this.variables[i]!.shape);
  }

  /** What the timeline tells of a step. */
  private spanArguments() {
    const elements = this.variables.reduce((sum, { size }) => sum + size, 0);
    return { step: this.total.steps, tensors: this.variables.length, bytes: 4 * elements };
  }

  private verify(hashes: readonly string[][]): void {
    checkHashes(hashes, this.variables, `after step ${this.total.steps - 1}`);
  }

  private restore(): void {
    if (this.restored === undefined) return;
    this.variables.forEach(({ name }, i) => {
      const momentum = this.restored!.get(momentumName(name))?.values as Float32Array | undefined;
      const residual = this.restored!.get(residualName(name))?.values as Float32Array | undefined;
      const segment = this.exchange!.momentum(i);
      if (momentum?.length !== segment.length || residual?.length !== segment.length) {
        const words = `The restored optimizer state does not fit the model: it lacks '${name}', or has it in another shape.`;
        throw new GradringError('ERR_MODEL_MISMATCH', words, { variable: name });
      }
      segment.set(momentum);
      this.exchange!.residual(i).set(residual);
    });
    this.restored = undefined;
  }
}

const GREETING = 'first step';

/** The result of a step, the same on all ranks as far as it matters. */
interface StepResult extends ExchangeResult, VerifiedStep {
  readonly density: number;
  /** Of the ring that took it. */
  readonly worldSize: number;
}

function variableNamed(name: string): tf.Variable {
  const variable = tf.engine().registeredVariables[name];
  if (variable === undefined) throw invalidArgument(`There is a gradient of '${name}', but no variable of that name.`);
  if (variable.dtype !== 'float32') {
    throw invalidArgument(`Variable '${name}' is ${variable.dtype}; only float32 variables can be trained.`);
  }
  return variable;
}

/** What ranks tell each other before the first step. */
interface Greeting {
  readonly variables: string[];
  readonly options: Record<string, unknown>;
  /** Of the variables. */
  readonly hashes: string[];
  /** Of what was given to `ring.shard`. */
  readonly data: string[];
}

/** Whether the backend may still be reading a tensor's values when the operation on it has returned, as on a GPU. */
function worksBehind(): boolean {
  return (tf.backend() as { isUsingGpuDevice?: boolean }).isUsingGpuDevice === true;
}

const MOMENTUM_SUFFIX = '/gradring_momentum';
const RESIDUAL_SUFFIX = '/gradring_residual';

const momentumName = (variable: string) => variable + MOMENTUM_SUFFIX;
const residualName = (variable: string) => variable + RESIDUAL_SUFFIX;

function momentumOf(inner: tf.Optimizer): { momentum: number; nesterov: boolean } | undefined {
  const { momentum = 0, useNesterov = false } = inner.getConfig() as { momentum?: number; useNesterov?: boolean };
  // Not by `instanceof`, to which tfjs says yes for all. A user's subclass has rules of its own, and keeps them.
  switch (inner.constructor) {
    case tf.MomentumOptimizer:
      return { momentum, nesterov: useNesterov };
    case tf.SGDOptimizer:
      return { momentum: 0, nesterov: false };
    default:
      return undefined;
  }
}

/** @throws GradringError `ERR_MODEL_MISMATCH`, naming the first option that a rank has otherwise than rank 0. */
function checkSameOptions(all: readonly Record<string, unknown>[]): void {
  const first = all[0]!;
  all.forEach((options, rank) => {
    for (const name of Object.keys({ ...first, ...options })) {
      const [expected, found] = [JSON.stringify(first[name]), JSON.stringify(options[name])];
      if (found === expected) continue;
      const words = `Ranks wrap their optimizers differently: ${name} is ${expected} on rank 0, but ${found} on rank ${rank}.`;
      throw new GradringError('ERR_MODEL_MISMATCH', words, { rank });
    }
  });
}

function toNamedTensors(gradients: Gradients): NamedTensor[] {
  if (Array.isArray(gradients)) return gradients;
  return Object.entries(gradients).map(([name, tensor]) => ({ name, tensor }));
}
