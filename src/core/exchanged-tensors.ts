import type { Communicator } from '../communicator/communicator';
import { GradringError } from '../errors';
import type { VariableShape } from '../exchange/arena-layout';
import type { ExchangeHandle, ExchangeInput } from '../exchange/exchange-handle';
import type { ExchangeStep } from '../exchange/messages';
import type { VariableState } from './step-state';
import { inBrackets, isSameShape } from './shapes';

/** A tensor whose gradient is exchanged. */
export interface TrainedTensor extends VariableShape {
  /** In the words of TensorFlow.js: `float32`. */
  readonly dtype: string;
  /** How many elements it has. */
  readonly size: number;
}

/** What is known of gradients that were copied to an exchange. */
export type LoadedGradients = Pick<ExchangeStep, 'sumOfSquares' | 'nonFiniteTensor'>;

/** The gradient of a tensor. */
export interface GradientValues {
  readonly values: Float32Array;
  /** Whether the array was made for the caller, who may free its memory. */
  readonly isCopy: boolean;
}

/** The tensors that are trained, and their gradients and state in the memories of an exchange. */
export class ExchangedTensors<V extends TrainedTensor = TrainedTensor> {
  readonly exchange: ExchangeHandle;

  constructor(
    communicator: Communicator,
    public variables: readonly V[],
    options: Pick<ExchangeInput, 'compression' | 'nesterov'>,
  ) {
    const shapes = variables.map(({ name, shape }) => ({ name, shape }));
    this.exchange = communicator.openExchange({ variables: shapes, ...options });
  }

  /**
   * Copies gradients to the exchange, and sums their squares while they are in the cache.
   *
   * @param valuesOf Gives the gradient of a tensor. Undefined: it is zero. `release` is called when it was copied.
   */
  protected loadEach(
    valuesOf: (variable: V, i: number) => (GradientValues & { readonly release?: () => void }) | undefined,
  ): LoadedGradients {
    const { exchange, variables } = this;
    const found: { sumOfSquares: number; nonFiniteTensor?: number } = { sumOfSquares: 0 };
    variables.forEach((variable, i) => {
      const gradient = valuesOf(variable, i);
      if (gradient === undefined) {
        exchange.gradient(i).fill(0);
        return;
      }
      exchange.writeGradient(i, gradient.values, gradient.isCopy);
      gradient.release?.();
      const sumOfSquares = exchange.sumOfSquares(i);
      if (!Number.isFinite(sumOfSquares)) found.nonFiniteTensor ??= i;
      found.sumOfSquares += sumOfSquares;
    });
    return found;
  }

  /** Multiplies the gradients that were loaded. */
  scale(factor: number): void {
    if (factor === 1) return;
    this.variables.forEach((_, i) => this.exchange.scaleGradient(i, factor));
  }

  /** {@link scale}; returns what is known of the gradients then. */
  scaled(loaded: LoadedGradients, factor: number): LoadedGradients {
    this.scale(factor);
    return { ...loaded, sumOfSquares: loaded.sumOfSquares * factor ** 2 };
  }

  /** The state of every variable: views. */
  states(): Omit<VariableState, 'isMomentumShared'>[] {
    const { exchange } = this;
    return this.variables.map(({ name, shape }, i) => {
      const [momentum, residual] = [exchange.momentum(i), exchange.residual(i)];
      return { name, shape, momentum, residual, shared: exchange.shared(i) };
    });
  }

  /**
   * @throws GradringError `ERR_MODEL_MISMATCH` if a variable's state is missing, or has another shape;
   *   `ERR_CHECKPOINT` if it is that of another compressor.
   */
  restore(states: readonly VariableState[]): void {
    const byName = new Map(states.map(state => [state.name, state]));
    for (const { name, shape, momentum, residual, shared } of this.states()) {
      const restored = byName.get(name);
      if (restored === undefined || !isSameShape(restored.shape, shape)) {
        const what = restored === undefined ? 'nothing' : `the shape ${inBrackets(restored.shape)}`;
        const words = `The restored optimizer state does not fit the model: it has ${what} for '${name}', a variable of the shape ${inBrackets(shape)}.`;
        throw new GradringError('ERR_MODEL_MISMATCH', words, { variable: name });
      }
      if (restored.shared.length !== shared.length) {
        const words = `The optimizer's state of '${name}' was saved with another compression. Train with the same compression as before.`;
        throw new GradringError('ERR_CHECKPOINT', words, { variable: name });
      }
      momentum.set(restored.momentum);
      residual.set(restored.residual);
      shared.set(restored.shared);
    }
  }
}
