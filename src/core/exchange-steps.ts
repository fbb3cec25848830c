import type { CompressionMethod } from '../compression/compression-method';
import { type Communicator, Purpose } from '../communicator/communicator';
import type { Unit } from '../communicator/units';
import type { Compression } from '../compression/dgc-options';
import { counted } from '../counted';
import { GradringError, invalidArgument } from '../errors';
import { isLinkCost, type LinkCost } from '../exchange/link-cost';
import { asleep, awake, type Ticket, waitFor, type Work } from '../work';
import { type Check, isBetween, isBoolean, isCount, isNumber, isOptional, isWith } from '../shape';
import type { ExchangeResult, ExchangeStep } from '../exchange/messages';
import { CompressionChoice } from './compression-choice';
import type { ExchangePolicy, Load } from './exchange-policy';
import type { ExchangedTensors, TrainedTensor } from './exchanged-tensors';
import { checkSameOptions, type Greeting, isGreeting } from './first-step';
import { sharesMomentum, type VariableState } from './step-state';
import { areTexts, checkDescriptions, compareHashes, describe, gatherValues } from './replicas';
import { Notice, RingResize, StepNotices, Verification, type VerifiedStep } from './ring-agreement';
import type { StepOptions } from './step-options';
import { shareStep } from './share-step';
import { warn, warnHere } from './warn';

/** What the steps of this process have done, on this rank. What was done before a resume does not count. */
export interface StepStatistics {
  /** How many steps this process has taken, skipped ones included. */
  readonly steps: number;
  /** How many of these were skipped by `onNonFinite: 'skip'`. */
  readonly skippedSteps: number;
  /** How many exchanges it has taken part in: one a step, or one for all steps of a round. */
  readonly exchanges: number;
  /** Bytes sent, forwarded frames and headers included. */
  readonly bytesSent: number;
  /** Bytes that a dense ring all-reduce of the gradients of every step would have sent. */
  readonly denseBytes: number;
  /**
   * With `dgc()` and `gradientDropping()`, the fraction of each large tensor that the last step sent, also if a step
   * before a resume was the last. 1 with every other compression: `denseBytes / bytesSent` says how much was saved.
   */
  readonly density: number;
}

/** An exchange that is to be completed. */
interface PendingExchange {
  readonly unit: Unit<StepResult>;
  /** Whether a step ends with it. Otherwise all its steps were counted before. */
  readonly endsStep: boolean;
}

/** The result of an exchange, the same on all ranks as far as it matters. */
export interface StepResult extends ExchangeResult, VerifiedStep {
  /** Size of the ring that took the step. */
  readonly worldSize: number;
}

const isStepResult = isWith<Omit<StepResult, 'route' | 'timesMs'>>({
  nonFinite: isOptional(isWith({ rank: isOptional(isCount), tensor: isCount })),
  notices: isBetween(0, 255),
  bytesSent: isCount,
  denseBytes: isNumber,
  density: isNumber,
  links: isOptional(isLinkCost),
  generation: isCount,
  verifies: isBoolean,
  worldSize: isCount,
}) as Check<StepResult>;

/** Momentum that each rank applies to its gradients before it selects what it sends (section 3.2 of the paper). */
export interface Momentum {
  readonly momentum: number;
  readonly nesterov: boolean;
}

/** Whose momentum and learning rate the exchanges are made for, and what applies the updates that are in them. */
export interface UpdateRule<T> {
  /** The class of the optimizer. A checkpoint and the ranks compare it. */
  readonly className: string;
  learningRate: number;
  /** The momentum that was taken over. Undefined if the averaged gradient is applied by a rule of its own. */
  readonly takenOver: Momentum | undefined;
  /** @param rateFactor Multiplies the learning rate. */
  apply(trained: T, rateFactor: number): void;
}

/** What steps consist of. */
export interface StepParts<T extends ExchangedTensors, G> {
  /** When the ranks exchange, and what. */
  readonly policy: ExchangePolicy<T, G>;
  /** The rule of the training. */
  readonly inner: UpdateRule<T>;
  /** Applies what was exchanged: often {@link inner}. */
  readonly outer: UpdateRule<T>;
  readonly options: StepOptions;
  /** What takes the steps, in words: `the Adam optimizer`. */
  readonly words: string;
  /** The message for a call that comes while a step or a save is under way. */
  readonly busyWords: string;
  /** Undefined if the program divides its data by itself. */
  readonly data?: DataHashes;
}

/** The hashes of the data of all ranks, which should be the same on each. */
export interface DataHashes {
  /** The hashes of this rank since the last comparison. */
  take(): string[];
  /** @param all What {@link take} gave on each rank. */
  compare(all: readonly (readonly string[])[]): void;
}

/**
 * The steps of a training, one after the other, for any array library. Before the first one the ranks compare what
 * they train. Then the policy takes the gradients of each step, and says when the ranks exchange. An exchange is a
 * unit, whose mean is applied; after some the weights are compared. A subclass says what is trained.
 *
 * @template V What is trained.
 * @template T The trained tensors in the memories of an exchange.
 * @template G The gradients of a step, as the program gives them.
 */
export abstract class ExchangeSteps<V extends TrainedTensor, T extends ExchangedTensors<V>, G> {
  readonly choice: CompressionChoice;
  readonly resize: RingResize;
  readonly policy: ExchangePolicy<T, G>;
  readonly inner: UpdateRule<T>;
  readonly outer: UpdateRule<T>;
  /** What the ranks tell each other with each exchange. */
  readonly notices = new StepNotices();
  /** The number of the next step of the training, skipped ones included. A checkpoint keeps it. */
  step = 0;
  /** How many updates were applied. tfjs calls it so. A checkpoint keeps it. */
  iterations = 0;
  statistics: StepStatistics = { steps: 0, skippedSteps: 0, exchanges: 0, bytesSent: 0, denseBytes: 0, density: 1 };
  /** As {@link setEpoch} or `model.fit` last told it. */
  epoch: number | undefined;
  /** How many ranks have taken the last exchange: a number on which all agree, also if the ring has just changed. */
  ranksInStep: number;
  /** What the links of a ring cost: the ring of the last exchange, or of a training that is resumed. */
  links: LinkCost | undefined;
  /** The generation of the ring of the last exchange. */
  private lastGeneration: number | undefined;
  /** The learning rate of the last exchange that is over. */
  lastRate: number | undefined;
  /** The learning rate of the last exchange that has begun. */
  private loadedRate: number | undefined;
  /** How many of the steps that wait for an exchange were taken before a resume. */
  resumedSteps = 0;
  /** Multiplies the gradients of this rank. More than 1 where not all ranks have a batch. */
  gradientFactor = 1;
  /** Undefined before the first step. */
  trained: T | undefined;
  /** Restored state of the variables, until the first step tells which there are. */
  restored: readonly VariableState[] = [];
  /** An exchange that travels while the next gradients are computed. */
  private underWay: { readonly exchange: PendingExchange; readonly ticket: Ticket<ExchangeResult> } | undefined;
  /** An asynchronous step or a save is under way. The memories of the exchange must not be written to. */
  private isBusy = false;
  private readonly options: StepOptions;
  private readonly busyWords: string;
  private readonly data: DataHashes | undefined;
  private readonly verification: Verification;
  /** What the last step applied, for ranks on which it failed. Kept in elastic runs only. */
  private lastUpdates: readonly Float32Array[] = [];

  constructor(
    protected readonly communicator: Communicator,
    { policy, inner, outer, options, words, busyWords, data }: StepParts<T, G>,
  ) {
    const { compression, verifyEvery, learningRateRule } = options;
    this.policy = policy;
    this.inner = inner;
    this.outer = outer;
    this.options = options;
    this.busyWords = busyWords;
    this.data = data;
    this.ranksInStep = communicator.worldSize;
    this.verification = new Verification(communicator, verifyEvery);
    this.resize = new RingResize(communicator, learningRateRule);
    const takesMomentum = outer.takenOver !== undefined;
    this.choice = new CompressionChoice(communicator, compression, words, takesMomentum, policy.stepsPerExchange);
  }

  /** What its compression does. */
  get method(): CompressionMethod {
    return this.choice.method;
  }

  /** Sets the epoch, from 0, on which a warm-up depends. */
  setEpoch(epoch: number, stepsPerEpoch?: number): void {
    if (!Number.isInteger(epoch) || epoch < 0) throw invalidArgument(`epoch is ${epoch}; epochs are counted from 0.`);
    if (stepsPerEpoch !== undefined) {
      if (!Number.isInteger(stepsPerEpoch) || stepsPerEpoch < 1)
        throw invalidArgument(`stepsPerEpoch is ${stepsPerEpoch}; an epoch has a whole number of steps, at least 1.`);
      this.choice.stepsPerEpoch = stepsPerEpoch;
    }
    this.epoch = epoch;
  }

  /** @throws GradringError `ERR_INVALID_ARGUMENT` if a step or a save is under way. */
  checkIdle(): void {
    if (this.isBusy) throw invalidArgument(this.busyWords);
  }

  /** Runs what no step may be taken in. */
  async whileBusy<R>(run: () => Promise<R>): Promise<R> {
    this.checkIdle();
    this.isBusy = true;
    try {
      return await run();
    } finally {
      this.isBusy = false;
    }
  }

  /** A step. Returns whether an update was applied. The thread sleeps meanwhile. */
  takeAsleep(gradients: G): boolean {
    this.checkIdle();
    return asleep(this.take(gradients));
  }

  /** A step. Returns whether an update was applied. */
  takeAwake(gradients: G): Promise<boolean> {
    return this.whileBusy(() => awake(this.take(gradients)));
  }

  private *take(gradients: G): Work<boolean> {
    this.checkOutsideUnits();
    if (this.trained === undefined) yield* this.begin(this.namesIn(gradients));
    yield* this.completeUnderWay();
    const { load, isApplied, nonFiniteTensor } = this.policy.take(this.trained!, gradients, this.gradientFactor);
    if (nonFiniteTensor !== undefined) this.skipAlone(nonFiniteTensor);
    if (load !== undefined && this.options.overlap === 1) {
      this.beginExchange(load);
      return false;
    }
    if (load === undefined) this.countStep();
    const hasUpdate = load !== undefined && (yield* this.complete(this.exchange(load, true)));
    if (!isApplied && !hasUpdate) return false;
    this.iterations++;
    return true;
  }

  /** Applies what is still to come: the update of an exchange that is under way, and the steps that wait for one. */
  async synchronize(): Promise<void> {
    await this.whileBusy(async () => {
      await awake(this.completeUnderWay());
      await awake(this.completeWaiting());
    });
  }

  /** Applies the update of an exchange that is under way. */
  protected *completeUnderWay(): Work<void> {
    const exchange = this.underWay?.exchange;
    this.underWay = undefined;
    if (exchange !== undefined && (yield* this.complete(exchange))) this.iterations++;
  }

  /** Exchanges the steps that wait for it, if there are any. */
  private *completeWaiting(): Work<void> {
    if (this.policy.waitingSteps === 0) return;
    this.checkOutsideUnits();
    if (this.trained === undefined) yield* this.begin(this.restored.map(({ name }) => name)); // resumed
    yield* this.complete(this.exchange(this.policy.loadWaiting(this.trained!), false));
  }

  /** Called before the policy takes gradients: it would take them again if a unit of the user's is run again. */
  private checkOutsideUnits(): void {
    this.communicator.units.checkOutside('An optimizer step');
  }

  /** A step whose gradient is not finite on this rank, and waits for no exchange. */
  private skipAlone(tensor: number): void {
    if (this.options.onNonFinite !== 'skip') return;
    const { statistics } = this;
    this.statistics = { ...statistics, skippedSteps: statistics.skippedSteps + 1 };
    const { name } = this.trained!.variables[tensor]!;
    const what = `The gradient of '${name}' holds NaN or infinity, in step ${this.step} of rank ${this.communicator.rank}.`;
    this.warnOfSkipped(what, 1, statistics.steps + 1, warnHere); // the other ranks do not know
  }

  /** Counts a step that does not wait for an exchange. */
  private countStep(): void {
    this.statistics = { ...this.statistics, steps: this.statistics.steps + 1 };
    this.step += 1;
  }

  /** Begins the exchange of a step. It travels while the next gradients are computed. */
  private beginExchange(load: Load): void {
    const ticket = this.trained!.exchange.start(this.exchangeStep(load, this.step));
    this.countStep();
    this.underWay = { exchange: this.exchange(load, false, ticket), ticket };
  }

  /** The names of what is trained by these gradients. */
  protected abstract namesIn(gradients: G): readonly string[];

  /** What has these names. */
  protected abstract variablesNamed(names: readonly string[]): readonly V[];

  /** Opens the exchange of these variables. */
  protected abstract openExchange(
    variables: readonly V[],
    options: { readonly compression: Compression; readonly nesterov: boolean },
  ): T;

  /** The hashes of the values of variables. Empty if only the program has them. */
  protected abstract hashesOf(variables: readonly V[]): string[];

  /** What to do about variables in which the ranks differ. */
  protected abstract adviceFor(differing: readonly V[]): string;

  /** What else must be the same on all ranks, by the names that users know. */
  protected abstract sharedOptions(variables: readonly V[]): Record<string, unknown>;

  /** What is wrong if options differ. */
  protected abstract readonly differently: string;

  /**
   * The ranks compare what they train, before the first step. Then their exchange is open.
   *
   * @param names The names of the variables that the first step trains.
   * @throws GradringError `ERR_MODEL_MISMATCH`, `ERR_REPLICAS_DIVERGED`; `ERR_INVALID_ARGUMENT` if there are none.
   */
  private *begin(names: readonly string[]): Work<void> {
    const { communicator } = this;
    const variables = this.variablesNamed(names);
    this.choice.choose();
    const own = this.greetingOf(variables);
    const all = yield* gatherValues(communicator, Purpose.FirstStep, isGreeting, own);
    checkDescriptions(all.map(greeting => greeting.variables));
    if (names.length === 0) {
      throw invalidArgument('There is no gradient. Pass those of all variables that are trained, by name.');
    }
    checkSameOptions(
      all.map(({ options }) => options),
      this.differently,
    );
    const hashes = all.map(greeting => greeting.hashes);
    compareHashes(hashes, variables, 'before the first step', differing => this.adviceFor(differing));
    this.data?.compare(all.map(({ data }) => data));
    const [first, ...others] = names;
    this.choice.trains ||= `'${first}'${others.length > 0 ? ` and ${others.length} more` : ''}`;
    this.choice.beginSteps(this.step, elementsOf(variables));
    this.open(variables);
  }

  private greetingOf(variables: readonly V[]): Greeting {
    const { onNonFinite, verifyEvery, learningRateRule, overlap } = this.options;
    const { compression } = this.choice;
    const { className: optimizer, learningRate } = this.inner;
    const options = {
      ...{ optimizer, learningRate, ...this.inner.takenOver, compression },
      compressorFile: this.method.fileHash, // the exchange compares it too, but cannot say what differs
      ...{ onNonFinite, verifyEvery, learningRateRule, overlap, step: this.step },
      ...this.sharedOptions(variables),
    };
    return {
      variables: variables.map(describe),
      options,
      hashes: this.replicasMayDiffer ? [] : this.hashesOf(variables), // if the training was resumed within a round
      data: this.data?.take() ?? [],
    };
  }

  /** The names of the variables that it trains. Undefined before the first step. */
  get trainedNames(): ReadonlySet<string> | undefined {
    return this.trained && new Set(this.trained.variables.map(({ name }) => name));
  }

  /** Whether the learning rate follows the size of the ring, so that a rank's gradient always has the same weight. */
  get keepsSum(): boolean {
    return this.resize.isLinear;
  }

  /** Whether the weights of the ranks may differ now: within a round of local steps. */
  get replicasMayDiffer(): boolean {
    const { changesWeights, waitingSteps } = this.policy;
    return changesWeights && waitingSteps > 0;
  }

  /** Opens the exchange of these variables, and restores their state if there is one. */
  protected open(variables: readonly V[]): void {
    const { compression } = this.choice;
    const nesterov = this.outer.takenOver?.nesterov ?? false;
    this.trained = this.openExchange(variables, { compression, nesterov });
    this.restoreVariables();
  }

  /** Copies {@link restored} state to the exchange, if there is any, and the exchange is open. */
  restoreVariables(): void {
    const { inner, trained, restored } = this;
    if (trained === undefined || restored.length === 0) return;
    if (inner.takenOver === undefined) requireSameOrder(inner.className, restored, trained.variables);
    trained.restore(restored);
    this.restored = [];
  }

  close(): void {
    this.policy.dispose();
    this.trained?.exchange.close();
    this.trained = undefined;
  }

  /** Forgets the exchange that is under way, and the steps that wait for one: other state is restored. */
  async forgetWaiting(): Promise<void> {
    await this.untilStill();
    this.underWay = undefined;
    this.policy.dispose();
  }

  /** Settles when no exchange is under way that writes to the memories of the exchange. */
  async untilStill(): Promise<void> {
    await this.underWay?.ticket.promise.catch(() => undefined); // the next step throws the error
  }

  /**
   * An exchange, up to its result on all ranks.
   *
   * @param ticket The exchange, if it has begun.
   */
  private exchange(load: Load, endsStep: boolean, ticket?: Ticket<ExchangeResult>): PendingExchange {
    const isOfVariable = (result: StepResult) => (result.nonFinite?.tensor ?? 0) < this.trained!.variables.length;
    const done = this.step + Number(endsStep);
    const unit: Unit<StepResult> = {
      name: `step ${done - 1}`,
      run: () => this.exchanged(load, done, ticket),
      isResult: (result): result is StepResult => isStepResult(result) && isOfVariable(result),
      share: (root, isBehind, { nonFinite, density }) => {
        const { communicator, method, lastUpdates } = this;
        const { exchange, variables } = this.trained!;
        const shared = variables.map(({ shape }) => sharesMomentum(method, shape, density));
        const isApplied = nonFinite === undefined;
        shareStep({ communicator, exchange, sharesMomentum: shared, lastUpdates, root, isBehind, isApplied });
      },
    };
    return { unit, endsStep };
  }

  /** @param done How many steps of the training are done after it. */
  private *exchanged(load: Load, done: number, ticket?: Ticket<ExchangeResult>): Work<StepResult> {
    const { worldSize } = this.communicator;
    const result = yield* waitFor(ticket ?? this.trained!.exchange.start(this.exchangeStep(load, done - 1)));
    return { ...result, worldSize, ...this.verification.of(done, this.exchangedSteps) };
  }

  /** How many steps an exchange is for that begins now. */
  private get exchangedSteps(): number {
    return Math.max(1, this.policy.waitingSteps);
  }

  /** Copies to the exchange what is exchanged. */
  private exchangeStep(load: Load, step: number): ExchangeStep {
    const residualScale = this.residualScale();
    this.loadedRate = this.outer.learningRate;
    return this.communicator.observer.record('copy', this.spanArguments(step), () => ({
      step,
      epoch: this.epoch,
      learningRate: this.inner.learningRate,
      density: this.density(step),
      // In an elastic run a step may be run again in another ring, which might choose otherwise.
      maySendAll: this.statistics.density === 1 && !this.communicator.isElastic,
      links: this.linksOfRing,
      residualScale,
      momentumFactor: this.outer.takenOver?.momentum ?? 0,
      momentumScale: this.resize.momentumScale,
      notices: this.notices.own | (this.communicator.stopRequest.reason === undefined ? 0 : Notice.Stop),
      ...load(),
    }));
  }

  /**
   * Waits for an exchange, and applies its update. Returns whether there was one.
   *
   * @throws GradringError `ERR_NON_FINITE` if there was none, unless such steps are skipped; `ERR_REPLICAS_DIVERGED`.
   */
  private *complete(exchange: PendingExchange): Work<boolean> {
    const result = yield* waitFor(this.communicator.units.ticket(exchange.unit));
    const isApplied = this.apply(result, exchange);
    if (result.verifies) yield* this.verify();
    return isApplied;
  }

  /** Counts an exchange, and applies its update. Returns whether there was one. */
  private apply(result: StepResult, { endsStep }: PendingExchange): boolean {
    const { nonFinite, bytesSent, denseBytes, density, worldSize, links, generation } = result;
    const { communicator, statistics, trained, exchangedSteps } = this;
    const isApplied = nonFinite === undefined;
    const countedSteps = exchangedSteps - this.resumedSteps;
    const done = this.step + Number(endsStep);
    const span = this.spanArguments(done - 1);
    this.verification.finishStep(result);
    this.notices.hear(result.notices);
    this.ranksInStep = worldSize;
    if (isApplied) this.resize.lastWorldSize = worldSize;
    this.lastUpdates = [];
    this.links = links;
    this.lastGeneration = generation;
    this.lastRate = this.loadedRate ?? this.outer.learningRate;
    this.step = done;
    this.statistics = {
      steps: statistics.steps + Number(endsStep),
      skippedSteps: statistics.skippedSteps + (isApplied ? 0 : countedSteps),
      exchanges: statistics.exchanges + 1,
      bytesSent: statistics.bytesSent + bytesSent,
      denseBytes: statistics.denseBytes + countedSteps * denseBytes,
      density,
    };
    this.resumedSteps = 0;
    this.policy.beforeUpdate(trained!);
    if (isApplied) {
      communicator.observer.record('apply', span, () => {
        const { variables, exchange } = trained!;
        if (communicator.isElastic) this.lastUpdates = variables.map((_, i) => exchange.gradient(i).slice());
        this.outer.apply(trained!, this.resize.rateFactor);
      });
      return true;
    }
    const variable = trained!.variables[nonFinite.tensor]!.name;
    const where =
      nonFinite.rank === undefined
        ? 'overflows in the sum over all ranks'
        : `holds NaN or infinity on rank ${nonFinite.rank}`;
    const when = exchangedSteps === 1 ? `in step ${done - 1}` : `in steps ${done - exchangedSteps} to ${done - 1}`;
    const what = `The gradient of '${variable}' ${where}, ${when}. Nothing was applied on any rank.`;
    if (this.options.onNonFinite === 'skip') {
      this.warnOfSkipped(what, countedSteps, this.statistics.steps);
      return false;
    }
    const words = `${what} (Lower the learning rate, clip with the clipNorm of a compression, as lowRank({ clipNorm }), or pass onNonFinite: 'skip'.)`;
    const rank = nonFinite.rank !== undefined && { rank: nonFinite.rank };
    throw new GradringError('ERR_NON_FINITE', words, { ...rank, variable, step: done - 1 });
  }

  /** Compares the weights of all ranks. */
  private *verify(): Work<void> {
    const { communicator } = this;
    const { variables } = this.trained!;
    const all = yield* gatherValues(communicator, Purpose.VerifyStep, areTexts, this.hashesOf(variables));
    compareHashes(all, variables, `after step ${this.step - 1}`, differing => this.adviceFor(differing));
  }

  /**
   * What the links of the present ring cost. Undefined if it is not known. The next ring of an elastic run has other
   * links. A static run that is resumed takes what was measured before, so that it takes the same routes.
   */
  private get linksOfRing(): LinkCost | undefined {
    const { isElastic, generation } = this.communicator;
    return isElastic && this.lastGeneration !== generation ? undefined : this.links;
  }

  /** The density of an exchange that ends this step, by the schedule. */
  private density(step: number): number {
    const { choice, epoch, statistics } = this;
    const density = choice.densityAt({ epoch, step });
    if (density === 1 && statistics.density < 1) {
      const words =
        'A step that sends everything cannot follow one that does not, because the momenta of the ranks differ by then. Does a dense warm-up begin anew?';
      throw invalidArgument(words);
    }
    return density;
  }

  /** What multiplies the residuals before the next step. */
  private residualScale(): number {
    const { method, lastRate, outer } = this;
    if (!method.rescalesResiduals || lastRate === undefined) return 1;
    const scale = lastRate / outer.learningRate;
    return Number.isFinite(scale) && scale > 0 ? scale : 1; // a rate of 0 applies nothing
  }

  /** What spans tell of a step. */
  private spanArguments(step: number) {
    const { variables } = this.trained!;
    return { step, tensors: variables.length, bytes: 4 * elementsOf(variables) };
  }

  /**
   * Warns of the first step that is skipped, of the second, the fourth, and so on.
   *
   * @param count How many were skipped just now.
   * @param steps How many were taken so far.
   */
  private warnOfSkipped(
    what: string,
    count: number,
    steps: number,
    tell = (words: string) => warn(this.communicator, words),
  ): void {
    const { skippedSteps } = this.statistics;
    const doublings = (skipped: number) => Math.floor(Math.log2(skipped));
    if (doublings(skippedSteps) === doublings(skippedSteps - count)) return;
    tell(`${what} So far ${skippedSteps} of ${counted(steps, 'step')} ${skippedSteps === 1 ? 'was' : 'were'} skipped.`);
  }
}

function elementsOf(variables: readonly TrainedTensor[]): number {
  return variables.reduce((sum, { size }) => sum + size, 0);
}

/** tfjs gives the state that an inner optimizer keeps to variables by their order, whatever their names. */
function requireSameOrder(
  optimizer: string,
  restored: readonly VariableState[],
  variables: readonly TrainedTensor[],
): void {
  const longer = Math.max(restored.length, variables.length);
  for (let i = 0; i < longer; i++) {
    const [before, now] = [restored[i]?.name, variables[i]?.name];
    if (before === now) continue;
    const words = `${optimizer} keeps its state by the order of the variables, and variable ${i} was ${before ?? 'missing'} when that was saved, but is ${now ?? 'missing'} now. Train the same variables, in the same order.`;
    throw new GradringError('ERR_MODEL_MISMATCH', words);
  }
}
