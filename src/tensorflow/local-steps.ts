import { clipFactor } from '../compression/clipping';
import { invalidArgument } from '../errors';
import type { ExchangePolicy, Load, TakenStep } from '../core/exchange-policy';
import type { ExchangedVariables, Gradients } from './exchanged-variables';
import type { TfjsOptimizer } from './tfjs-optimizer';
import type { WaitingState } from './optimizer-state';
import { tf } from './tfjs';
import type { CheckedOptions } from './wrap-options';

/** A policy whose waiting steps keep tensors of TensorFlow.js. */
export interface VariablesPolicy extends ExchangePolicy<ExchangedVariables, Gradients> {
  capture(): WaitingState | undefined;
  /** Takes back what {@link capture} gave. The tensors become the policy's. */
  restore(state: WaitingState): void;
}

/** The variables of this process that are within a round, by name, and whose round it is. */
const withinRound = new Map<string, LocalSteps>();

/** @throws GradringError `ERR_INVALID_ARGUMENT` if the weights of the ranks differ because they are within a round. */
export function requireRoundOver(variables: readonly tf.Variable[], call: string): void {
  const within = variables.find(({ name }) => withinRound.has(name));
  if (within === undefined) return;
  throw invalidArgument(
    `${call}: '${within.name}' is within a round of local steps, and the ranks have different values until it ends. Call await optimizer.synchronize() first.`,
  );
}

/** The policy trains these variables from now on. A round that another one has left is over. */
export function endOtherRounds(variables: readonly tf.Variable[], policy: VariablesPolicy): void {
  for (const { name } of variables) if (withinRound.get(name) !== policy) withinRound.delete(name);
}

/**
 * Each rank takes a round of steps by itself. Then the ranks exchange what these have changed, the pseudo-gradient
 * (weights before the round − weights after it), go back to the weights before the round, and apply the mean by an
 * outer optimizer (DiLoCo: Douillard et al. 2023, algorithm 1).
 */
export class LocalSteps implements VariablesPolicy {
  readonly changesWeights = true;
  waitingSteps = 0;
  /** The weights before the round, by name. Empty between rounds. */
  private start: ReadonlyMap<string, tf.Tensor> = new Map();
  /** A variable whose gradient was not finite in this round on this rank, by name. The exchange tells all ranks. */
  private nonFinite: string | undefined;

  /** @param inner Applies the steps of a rank. */
  constructor(
    readonly stepsPerExchange: number,
    private readonly inner: TfjsOptimizer,
    private readonly options: Pick<CheckedOptions, 'onNonFinite' | 'localClipNorm'>,
  ) {}

  take(trained: ExchangedVariables, gradients: Gradients): TakenStep {
    const { options } = this;
    const { sumOfSquares, nonFiniteTensor } = trained.load(gradients);
    // A clone shares the memory of its variable until that is assigned to.
    if (this.start.size === 0) this.begin(trained.variables.map(each => [each.name, tf.keep(each.clone())]));
    if (nonFiniteTensor === undefined) {
      trained.scale(clipFactor({ sumOfSquares, clipNorm: options.localClipNorm, worldSize: 1 }));
      this.inner.apply(trained, 1);
    } else if (options.onNonFinite === 'error') this.nonFinite ??= trained.variables[nonFiniteTensor]!.name;
    this.waitingSteps++;
    const isDue = this.waitingSteps >= this.stepsPerExchange;
    return {
      isApplied: nonFiniteTensor === undefined,
      nonFiniteTensor,
      ...(isDue && { load: this.loadWaiting(trained) }),
    };
  }

  loadWaiting(trained: ExchangedVariables): Load {
    const { start, nonFinite } = this;
    const nonFiniteTensor = trained.variables.findIndex(({ name }) => name === nonFinite);
    return () =>
      tf.tidy(() => {
        const changes = trained.variables.map(variable => {
          return { name: variable.name, tensor: tf.sub(start.get(variable.name)!, variable) };
        });
        return { ...trained.load(changes, null), ...(nonFiniteTensor !== -1 && { nonFiniteTensor }) };
      });
  }

  beforeUpdate({ variables }: ExchangedVariables): void {
    for (const variable of variables) variable.assign(this.start.get(variable.name)!);
    this.dispose();
  }

  capture(): WaitingState | undefined {
    if (this.waitingSteps === 0) return undefined;
    const start = [...this.start].map(([name, tensor]) => ({ name, tensor }));
    return { steps: this.waitingSteps, nonFinite: this.nonFinite, start, sums: [] };
  }

  restore({ steps, nonFinite, start }: WaitingState): void {
    this.dispose();
    this.waitingSteps = steps;
    this.nonFinite = nonFinite;
    this.begin(start.map(({ name, tensor }) => [name, tensor]));
  }

  dispose(): void {
    tf.dispose([...this.start.values()]);
    for (const name of this.start.keys()) if (withinRound.get(name) === this) withinRound.delete(name);
    this.start = new Map();
    this.waitingSteps = 0;
    this.nonFinite = undefined;
  }

  private begin(start: readonly (readonly [string, tf.Tensor])[]): void {
    this.start = new Map(start);
    for (const [name] of start) withinRound.set(name, this);
  }
}
