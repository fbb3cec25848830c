import type { Communicator } from '../communicator/communicator';
import type { DgcCompression } from '../compression/dgc-options';
import { LARGEST_DENSITY } from '../compression/sparsity-schedule';
import { captureState, restoreState } from '../core/capture-state';
import { EveryStep } from '../core/exchange-policy';
import { ExchangeSteps } from '../core/exchange-steps';
import { warnOnce } from '../core/warn';
import { Accumulate } from './accumulate';
import { DataCheck } from './data-check';
import { ExchangedVariables, type Gradients, variableNamed } from './exchanged-variables';
import { endOtherRounds, LocalSteps, type VariablesPolicy } from './local-steps';
import type { OptimizerState } from './optimizer-state';
import { adviceFor, hashesOf, type Variables } from './variables';
import { tf } from './tfjs';
import { TfjsOptimizer } from './tfjs-optimizer';
import { checkedDecay, type CheckedOptions, weightDecayOf } from './wrap-options';

/** The steps of a wrapped optimizer. */
export class OptimizerSteps extends ExchangeSteps<tf.Variable, ExchangedVariables, Gradients> {
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
    const words = `the ${inner.className} optimizer`;
    super(communicator, {
      ...policyOf(inner, wrapOptions),
      inner,
      options: wrapOptions,
      words,
      data: DataCheck.of(communicator),
    });
    if (compression.kind === 'dgc' && this.outer.takenOver === undefined) this.warnOfForeignMomentum(compression);
  }

  override close(): void {
    this.inner.optimizer.dispose();
    if (this.outer !== this.inner) this.outer.optimizer.dispose();
    super.close();
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

  /**
   * What a checkpoint keeps of a wrapped optimizer on this rank. u and v are views, valid until the next step.
   * `disposeInner` frees the tensors that are copies.
   */
  async capture(iterations: number): Promise<OptimizerState> {
    const captured = this.policy.capture();
    const { start = [], sums = [] } = captured ?? {};
    const state = captureState(this, iterations, captured);
    return { ...state, inner: await this.inner.capture(), start, sums };
  }

  /**
   * Takes back what {@link capture} gave, on this or another rank, except the iterations. The arrays become the
   * optimizer's.
   */
  async restore(state: OptimizerState): Promise<void> {
    await restoreState(this, state);
    await this.inner.restore(state.inner);
    const { round } = state.counters;
    // The last one, because the tensors are the policy's then.
    if (round !== undefined) this.policy.restore({ ...round, start: state.start, sums: state.sums });
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
