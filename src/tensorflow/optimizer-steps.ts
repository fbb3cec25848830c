import { type CompressionMethod, methodOf } from '../compression/compression-method';
import type { Communicator } from '../communicator/communicator';
import type { Unit } from '../communicator/units';
import type { Compression, DgcCompression } from '../compression/dgc-options';
import { LARGEST_DENSITY } from '../compression/sparsity-schedule';
import { GradringError, invalidArgument } from '../errors';
import { isLinkCost, type LinkCost } from '../exchange/link-cost';
import { type Ticket, waitFor, type Work } from '../work';
import { type Check, isBoolean, isCount, isNumber, isOptional, isWith } from '../shape';
import type { ExchangeResult, ExchangeStep } from '../exchange/messages';
import { ExchangedVariables, type Gradients, namedTensors, variableNamed } from './exchanged-variables';
import { checkGreetings, type Greeting, greetingOf } from './first-step';
import type { InnerOptimizer } from './inner-optimizer';
import { sharesMomentum, type VariableState } from './optimizer-state';
import { checkHashes, hashesOf, type Variables } from './replicas';
import { RingResize } from './ring-resize';
import { SentFraction } from './sent-fraction';
import { shareStep } from './share-step';
import { Verification, type VerifiedStep } from './verification';
import { warn, warnOnce } from './warn';
import type { WrapOptions } from './wrap-options';

/** What a wrapped optimizer has done in this process, on this rank. What was done before a resume does not count. */
export interface StepStatistics {
  /** How many steps this process has taken, skipped ones included. */
  readonly steps: number;
  /** How many of these were skipped by `onNonFinite: 'skip'`. */
  readonly skippedSteps: number;
  /** Bytes sent, forwarded frames and headers included. */
  readonly bytesSent: number;
  /** Bytes that a dense ring all-reduce of the same gradients would have sent. */
  readonly denseBytes: number;
  /** The fraction of each large tensor that the last step sent, also if a step before a resume was the last. */
  readonly density: number;
}

/** The result of a step, the same on all ranks as far as it matters. */
export interface StepResult extends ExchangeResult, VerifiedStep {
  /** Size of the ring that took the step. */
  readonly worldSize: number;
}

const isStepResult = isWith<Omit<StepResult, 'route' | 'timesMs'>>({
  nonFinite: isOptional(isWith({ rank: isOptional(isCount), tensor: isCount })),
  bytesSent: isCount,
  denseBytes: isNumber,
  density: isNumber,
  links: isOptional(isLinkCost),
  generation: isCount,
  verifies: isBoolean,
  worldSize: isCount,
}) as Check<StepResult>;

/**
 * The parts of a wrapped optimizer's step. Before the first one the ranks compare what they train. Then each step loads
 * the gradients, exchanges them as a unit, and applies the mean; after some the weights are compared.
 */
export class OptimizerSteps {
  /** Which fraction of the gradients is sent. Undefined without compression. */
  readonly sentFraction: SentFraction | undefined;
  readonly resize: RingResize;
  readonly compression: Compression;
  readonly method: CompressionMethod;
  /** The number of the next step of the training, skipped ones included. A checkpoint keeps it. */
  step = 0;
  statistics: StepStatistics = { steps: 0, skippedSteps: 0, bytesSent: 0, denseBytes: 0, density: 1 };
  epoch: number | undefined;
  /** What the links of the ring cost. Undefined if no step has measured that. */
  links: LinkCost | undefined;
  /** The learning rate of the last step. */
  lastRate: number | undefined;
  /** Undefined before the first step. */
  trained: ExchangedVariables | undefined;
  /** Restored state of the variables, until the first step tells which there are. */
  restored: readonly VariableState[] = [];
  private readonly verification: Verification;
  /** What the last step applied, for ranks on which it failed. Kept in elastic runs only. */
  private lastUpdates: readonly Float32Array[] = [];

  constructor(
    private readonly communicator: Communicator,
    private readonly inner: InnerOptimizer,
    private readonly options: Required<WrapOptions>,
  ) {
    const { compression, verifyEvery, learningRateRule } = options;
    this.compression = compression;
    this.method = methodOf(compression);
    this.verification = new Verification(communicator, verifyEvery);
    this.resize = new RingResize(communicator, learningRateRule);
    if (compression.kind !== 'dgc') return;
    this.sentFraction = new SentFraction(
      communicator,
      compression,
      inner.className,
      inner.takenOver !== undefined && compression.momentumCorrection,
    );
    if (inner.takenOver === undefined) this.warnOfForeignMomentum(compression);
  }

  /** The variables that the first step trains, and what the ranks must agree on before it. */
  begin(gradients: Gradients): { readonly variables: Variables; readonly greeting: Greeting } {
    const { step } = this;
    const { compression, onNonFinite, verifyEvery, learningRateRule, weightDecay, weightDecayAt } = this.options;
    const names = new Set(namedTensors(gradients).map(({ name }) => name));
    const variables = [...names].map(variableNamed);
    if (this.sentFraction !== undefined) {
      const [first, ...others] = names;
      this.sentFraction.trains ||= `'${first}'${others.length > 0 ? ` and ${others.length} more` : ''}`;
      this.sentFraction.beginSteps(step);
    }
    const { className: optimizer, learningRate, takenOver } = this.inner;
    // The exchange compares it too, but cannot say what differs.
    const compressorFile = this.method.fileHash;
    const shared = {
      ...{ compression, compressorFile, onNonFinite, verifyEvery, learningRateRule },
      ...{ weightDecay, weightDecayAt, step },
    };
    const greeting = greetingOf(this.communicator, variables, { optimizer, learningRate, ...takenOver, ...shared });
    return { variables, greeting };
  }

  /** Ends what {@link begin} has begun. `all` has the greeting of every rank. */
  agree(variables: Variables, all: readonly Greeting[]): void {
    checkGreetings(this.communicator, variables, all);
    this.open(variables);
  }

  /** Opens the exchange of these variables, and restores their state if there is one. */
  open(variables: Variables): void {
    const nesterov = this.inner.takenOver?.nesterov ?? false;
    this.trained = new ExchangedVariables(this.communicator, variables, { compression: this.compression, nesterov });
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
    this.trained?.exchange.close();
    this.trained = undefined;
  }

  /** A step, up to its result on all ranks. {@link complete} applies it. */
  unit(gradients: Gradients): Unit<StepResult> {
    this.communicator.units.checkOutside('An optimizer step');
    const isOfVariable = (result: StepResult) => (result.nonFinite?.tensor ?? 0) < this.trained!.variables.length;
    return {
      name: `step ${this.step}`,
      run: () => this.exchanged(gradients),
      isResult: (result): result is StepResult => isStepResult(result) && isOfVariable(result),
      share: (root, isBehind, { nonFinite, density }) => {
        const { communicator, method, lastUpdates } = this;
        const { exchange, variables } = this.trained!;
        const shared = variables.map(({ shape }) => sharesMomentum(method, shape, density));
        const isApplied = nonFinite === undefined;
        shareStep({ communicator, exchange, sharesMomentum: shared, lastUpdates, root, isBehind, isApplied });
      },
    };
  }

  /** Loads the gradients, and posts their exchange. */
  start(gradients: Gradients): Ticket<ExchangeResult> {
    return this.trained!.exchange.start(this.load(gradients));
  }

  private *exchanged(gradients: Gradients): Work<StepResult> {
    const { worldSize } = this.communicator;
    const result = yield* waitFor(this.start(gradients));
    return { ...result, worldSize, ...this.verification.of(this.step) };
  }

  /** Copies the gradients to the exchange. */
  private load(gradients: Gradients): ExchangeStep {
    return this.communicator.observer.record('copy', this.spanArguments(), () => ({
      step: this.step,
      epoch: this.epoch,
      learningRate: this.inner.learningRate,
      density: this.density(),
      // In an elastic run a step may be run again in another ring, which might choose otherwise.
      maySendAll: this.statistics.density === 1 && !this.communicator.isElastic,
      links: this.links,
      residualScale: this.residualScale(),
      momentumFactor: this.inner.takenOver?.momentum ?? 0,
      momentumScale: this.resize.momentumScale,
      ...this.trained!.load(gradients, this.weightDecayOf('gradient')),
    }));
  }

  /**
   * Counts a step that was exchanged, and applies its update. Returns whether there was one.
   *
   * @throws GradringError `ERR_NON_FINITE` if there was none, unless such steps are skipped.
   */
  complete(result: StepResult): boolean {
    const { nonFinite, bytesSent, denseBytes, density, worldSize, links } = result;
    const { communicator, statistics, trained } = this;
    const isApplied = nonFinite === undefined;
    const span = this.spanArguments();
    const { step } = this;
    this.verification.finishStep(result);
    if (isApplied) this.resize.lastWorldSize = worldSize;
    this.lastUpdates = [];
    this.links = links;
    this.lastRate = this.inner.learningRate;
    this.step = step + 1;
    this.statistics = {
      steps: statistics.steps + 1,
      skippedSteps: statistics.skippedSteps + (isApplied ? 0 : 1),
      bytesSent: statistics.bytesSent + bytesSent,
      denseBytes: statistics.denseBytes + denseBytes,
      density,
    };
    if (isApplied) {
      communicator.observer.record('apply', span, () => {
        const { variables, exchange } = trained!;
        if (communicator.isElastic) this.lastUpdates = variables.map((_, i) => exchange.gradient(i).slice());
        this.inner.apply(trained!, this.resize.rateFactor, this.weightDecayOf('update'));
      });
    } else {
      const variable = trained!.variables[nonFinite.tensor]!.name;
      const where =
        nonFinite.rank === undefined
          ? 'overflows in the sum over all ranks'
          : `holds NaN or infinity on rank ${nonFinite.rank}`;
      const what = `The gradient of '${variable}' ${where}, in step ${step}. Nothing was applied on any rank.`;
      if (this.options.onNonFinite === 'skip') {
        this.warnOfSkipped(what);
        return false;
      }
      const words = `${what} (Lower the learning rate, clip with dgc({ clipNorm }), or pass onNonFinite: 'skip'.)`;
      const details = { ...(nonFinite.rank !== undefined && { rank: nonFinite.rank }), variable, step };
      throw new GradringError('ERR_NON_FINITE', words, details);
    }
    return isApplied;
  }

  /** The hashes of the weights after a step that {@link StepResult.verifies}. */
  hashes(): string[] {
    return hashesOf(this.trained!.variables);
  }

  /** @throws GradringError `ERR_REPLICAS_DIVERGED` if the {@link hashes} of the ranks differ. */
  verify(all: readonly string[][]): void {
    checkHashes(all, this.trained!.variables, `after step ${this.step - 1}`);
  }

  /** The density of the next step, by the schedule. */
  private density(): number {
    const { sentFraction, epoch, step, statistics } = this;
    const density = sentFraction?.densityAt({ epoch, step }) ?? 1;
    if (density === 1 && statistics.density < 1) {
      const words =
        'A step that sends everything cannot follow one that does not, because the momenta of the ranks differ by then. Does a dense warm-up begin anew?';
      throw invalidArgument(words);
    }
    return density;
  }

  /** What multiplies the residuals before the next step. */
  private residualScale(): number {
    const { method, lastRate, inner } = this;
    if (!method.rescalesResiduals || lastRate === undefined) return 1;
    const scale = lastRate / inner.learningRate;
    return Number.isFinite(scale) && scale > 0 ? scale : 1; // a rate of 0 applies nothing
  }

  private weightDecayOf(at: WrapOptions['weightDecayAt']): number {
    const { weightDecay, weightDecayAt } = this.options;
    return weightDecayAt === at ? weightDecay : 0;
  }

  /** What spans tell of a step. */
  private spanArguments() {
    const { variables } = this.trained!;
    const elements = variables.reduce((sum, { size }) => sum + size, 0);
    return { step: this.step, tensors: variables.length, bytes: 4 * elements };
  }

  /** Warns of the first step that is skipped, of the second, the fourth, and so on. */
  private warnOfSkipped(what: string): void {
    const { steps, skippedSteps } = this.statistics;
    if (!Number.isInteger(Math.log2(skippedSteps))) return;
    const count = `${skippedSteps} of ${steps} ${steps === 1 ? 'step' : 'steps'}`;
    warn(this.communicator, `${what} So far ${count} ${skippedSteps === 1 ? 'was' : 'were'} skipped.`);
  }

  /** Momentum correction is for momentum and SGD: see docs/algorithms.md. */
  private warnOfForeignMomentum({ sparsity, momentumCorrection }: DgcCompression): void {
    const name = this.inner.className;
    const isGiven = sparsity !== 'auto';
    if (isGiven && sparsity <= 1 - LARGEST_DENSITY) return;
    const words = isGiven
      ? `${name} cannot correct for what ${momentumCorrection ? 'dgc()' : 'gradientDropping()'} holds back: with a high sparsity its loss falls more slowly. dgc() without a sparsity holds back only 75 % of each gradient.`
      : `${name} cannot correct for what dgc() holds back, so that only 75 % of each gradient is held back.`;
    const advice =
      'tf.train.momentum with dgc() sends far less; noCompression() is exact. See docs/how-to/compression.md#adam-and-other-optimizers.';
    warnOnce(this.communicator, `${words} ${advice}`);
  }
}

/** tfjs gives the state that an inner optimizer keeps to variables by their order, whatever their names. */
function requireSameOrder(optimizer: string, restored: readonly VariableState[], variables: Variables): void {
  const longer = Math.max(restored.length, variables.length);
  for (let i = 0; i < longer; i++) {
    const [before, now] = [restored[i]?.name, variables[i]?.name];
    if (before === now) continue;
    const words = `${optimizer} keeps its state by the order of the variables, and variable ${i} was ${before ?? 'missing'} when that was saved, but is ${now ?? 'missing'} now. Train the same variables, in the same order.`;
    throw new GradringError('ERR_MODEL_MISMATCH', words);
  }
}
