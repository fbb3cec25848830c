import type { Communicator } from '../communicator/communicator';
import type { DgcCompression } from '../compression/dgc-options';
import { LARGEST_DENSITY } from '../compression/sparsity-schedule';
import { captureState, requireFits, restoreState } from '../core/capture-state';
import { EveryStep } from '../core/exchange-policy';
import { ExchangeSteps } from '../core/exchange-steps';
import type { StepState } from '../core/step-state';
import type { CheckpointedSteps } from '../core/training-checkpoint';
import { warnOnce } from '../core/warn';
import { awake } from '../work';
import { Accumulate } from './accumulate';
import { DataCheck } from './data-check';
import { ExchangedVariables, type Gradients, namedTensors, variableNamed } from './exchanged-variables';
import { endOtherRounds, LocalSteps, type VariablesPolicy } from './local-steps';
import type { OptimizerState } from './optimizer-state';
import { adviceFor, hashesOf, type Variables } from './variables';
import { tf } from './tfjs';
import { disposeInner, TfjsOptimizer } from './tfjs-optimizer';
import { checkedDecay, type CheckedOptions, weightDecayOf } from './wrap-options';

/** Where a wrapped optimizer has its steps. Only this copy of gradring has the symbol. */
export const STEPS = Symbol('the steps of ring.wrap');

/**
 * The steps of an optimizer that `ring.wrap` has made. Undefined for another one. Use this instead of `instanceof`: for
 * tfjs, every object with the right methods is an optimizer of every class.
 */
export function stepsOf(optimizer: unknown): OptimizerSteps | undefined {
  return (optimizer as { readonly [STEPS]?: OptimizerSteps } | undefined | null)?.[STEPS];
}

/** The steps of a wrapped optimizer, as callbacks, checkpoints and newcomers use them, too. */
export class OptimizerSteps
  extends ExchangeSteps<tf.Variable, ExchangedVariables, Gradients>
  implements CheckpointedSteps<OptimizerState>
{
  declare readonly policy: VariablesPolicy;
  declare readonly inner: TfjsOptimizer;
  declare readonly outer: TfjsOptimizer;
  protected readonly differently = 'Ranks wrap their optimizers differently';

  constructor(
    communicator: Communicator,
    inner: TfjsOptimizer,
    private readonly wrapOptions: CheckedOptions,
  ) {
    const { compression } = wrapOptions;
    super(communicator, {
      ...policyOf(inner, wrapOptions),
      inner,
      options: wrapOptions,
      words: `the ${inner.className} optimizer`,
      busyWords:
        'The optimizer is within a step, or is being saved: await applyGradientsAsync, minimizeAsync, and checkpoint.save.',
      data: DataCheck.of(communicator),
    });
    if (compression?.kind === 'dgc' && this.outer.takenOver === undefined) this.warnOfForeignMomentum(compression);
  }

  override close(): void {
    this.inner.optimizer.dispose();
    if (this.outer !== this.inner) this.outer.optimizer.dispose();
    super.close();
  }

  /**
   * Sets the epoch, but never goes back: a second `model.fit`, which counts from 0 again, does not repeat a warm-up.
   */
  beginEpoch(epoch: number): void {
    this.setEpoch(Math.max(epoch, (this.epoch ?? -1) + 1));
  }

  protected override namesIn(gradients: Gradients): string[] {
    return [...new Set(namedTensors(gradients).map(({ name }) => name))];
  }

  protected override variablesNamed(names: readonly string[]): Variables {
    return names.map(variableNamed);
  }

  protected override openExchange(
    variables: Variables,
    options: ConstructorParameters<typeof ExchangedVariables>[2],
  ): ExchangedVariables {
    endOtherRounds(variables, this.policy);
    const weightDecay = weightDecayOf(this.wrapOptions, 'gradient');
    return new ExchangedVariables(this.communicator, variables, options, weightDecay);
  }

  async withState<T>(use: (state: OptimizerState) => Promise<T>): Promise<T> {
    return this.whileBusy(async () => {
      await awake(this.completeUnderWay());
      const captured = this.policy.capture();
      const { start = [], sums = [] } = captured ?? {};
      const inner = await this.inner.capture();
      try {
        return await use({ ...captureState(this, captured), inner, start, sums });
      } finally {
        disposeInner(inner);
      }
    });
  }

  requireFits(state: StepState): void {
    requireFits(this, state);
  }

  /** Tensors of the state are disposed of. */
  async restoreState(state: OptimizerState): Promise<void> {
    this.checkIdle();
    try {
      await restoreState(this, state);
      await this.inner.restore(state.inner);
      const { round } = state.counters;
      // The last one, because the tensors are the policy's then.
      if (round !== undefined) this.policy.restore({ ...round, start: state.start, sums: state.sums });
    } catch (error) {
      tf.dispose([...state.start, ...state.sums].map(({ tensor }) => tensor)); // the policy has not taken them
      throw error;
    } finally {
      tf.dispose([...state.inner.weights, ...state.inner.fields].map(({ tensor }) => tensor));
    }
  }

  /**
   * Takes the state of the others, on a rank that joins them: as {@link restoreState}, and opens the exchange of the
   * variables that they train, in their order. No collective is called.
   *
   * @param hasBegun Whether they have taken a step since they were started. If not, they compare what they train in the
   *   next, with this rank.
   */
  async adoptState(state: OptimizerState, hasBegun: boolean): Promise<void> {
    await this.restoreState(state);
    if (hasBegun) this.open(state.variables.map(({ name }) => variableNamed(name)));
  }

  protected override hashesOf(variables: Variables): string[] {
    return hashesOf(variables);
  }

  protected override adviceFor(differing: Variables): string {
    return adviceFor(differing);
  }

  protected override sharedOptions(variables: Variables): Record<string, unknown> {
    const { weightDecayAt, localSteps, localClipNorm, outer, accumulate } = this.wrapOptions;
    const weightDecay = decaysOf(this.wrapOptions, variables);
    return {
      ...{ weightDecay, weightDecayAt, localSteps, accumulate },
      ...(localSteps > 0 && { outer, ...(localClipNorm < Infinity && { localClipNorm }) }),
    };
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

/** When the ranks exchange, and what applies the update then. */
function policyOf(
  inner: TfjsOptimizer,
  options: CheckedOptions,
): { readonly policy: VariablesPolicy; readonly outer: TfjsOptimizer } {
  const { localSteps, accumulate } = options;
  if (localSteps > 0) {
    const { learningRate, momentum, nesterov } = options.outer;
    const outer = new TfjsOptimizer(tf.train.momentum(learningRate, momentum, nesterov));
    return { policy: new LocalSteps(localSteps, inner, options), outer };
  }
  const policy = accumulate > 1 ? new Accumulate(accumulate) : new EveryStep<ExchangedVariables, Gradients>();
  return { policy, outer: inner };
}

/** What the ranks compare of the weight decay. */
function decaysOf({ weightDecay }: CheckedOptions, variables: Variables): number | readonly number[] {
  return typeof weightDecay === 'number' ? weightDecay : variables.map(({ name }) => checkedDecay(weightDecay, name));
}
