import type { Communicator } from '../communicator/communicator';
import { GradringError, invalidArgument } from '../errors';
import type { ExchangeHandle, ExchangeInput } from '../exchange/exchange-handle';
import type { ExchangeStep } from '../exchange/messages';
import type { NamedTensor, VariableState } from './optimizer-state';
import { inBrackets, isSameShape } from './shapes';
import { tf } from './tfjs';
import type { DecayOf } from './wrap-options';

/**
 * Gradients as tfjs passes them: by name, or as a list, which names all variables that are trained. Null: the loss did
 * not depend on the variable.
 */
export type Gradients = { readonly [name: string]: tf.Tensor | null } | NamedTensor[];

/** What is known of gradients that were copied to an exchange. */
export type LoadedGradients = Pick<ExchangeStep, 'sumOfSquares' | 'nonFiniteTensor'>;

/** The variables that an optimizer trains, and their gradients and state in the memories of an exchange. */
export class ExchangedVariables {
  readonly exchange: ExchangeHandle;

  constructor(
    communicator: Communicator,
    public variables: readonly tf.Variable[],
    options: Pick<ExchangeInput, 'compression' | 'nesterov'>,
  ) {
    const shapes = variables.map(({ name, shape }) => ({ name, shape }));
    this.exchange = communicator.openExchange({ variables: shapes, ...options });
  }

  /**
   * Checks the gradients of a step. A variable on which the loss did not depend has none.
   *
   * @throws GradringError `ERR_MODEL_MISMATCH` if they are not those of these variables; `ERR_INVALID_ARGUMENT` if one
   *   has another shape than its variable.
   */
  gradientsByName(gradients: Gradients): Map<string, tf.Tensor> {
    this.variables = this.variables.map(lastOfItsName);
    const { variables } = this;
    const given = new Map(namedTensors(gradients).map(({ name, tensor }) => [name, tensor]));
    const unexpected = [...given.keys()].find(name => !variables.some(variable => variable.name === name));
    if (unexpected !== undefined) {
      const words = `There is a gradient of '${unexpected}', which the first step did not train. Wrap one optimizer for each set of variables.`;
      throw new GradringError('ERR_MODEL_MISMATCH', words, { variable: unexpected });
    }
    const found = new Map<string, tf.Tensor>();
    for (const { name, shape } of variables) {
      if (Array.isArray(gradients) && !given.has(name)) {
        const words = `'${name}', which the first step trained, is trained no more. Wrap a new optimizer when a layer is frozen.`;
        throw new GradringError('ERR_MODEL_MISMATCH', words, { variable: name });
      }
      const tensor = given.get(name);
      if (tensor == null) continue;
      if (!isSameShape(tensor.shape, shape)) {
        throw invalidArgument(
          `The gradient of '${name}' has the shape ${inBrackets(tensor.shape)}, but the variable has ${inBrackets(shape)}.`,
        );
      }
      found.set(name, tensor);
    }
    return found;
  }

  /**
   * Copies the gradients to the exchange, and sums their squares while they are in the cache.
   *
   * @param weightDecay That of the gradient.
   * @throws GradringError what {@link gradientsByName} throws.
   */
  load(gradients: Gradients, weightDecay: DecayOf): LoadedGradients {
    const given = this.gradientsByName(gradients);
    const { exchange, variables } = this;
    const found: { sumOfSquares: number; nonFiniteTensor?: number } = { sumOfSquares: 0 };
    variables.forEach((variable, i) => {
      const { name } = variable;
      const segment = exchange.gradient(i);
      const tensor = given.get(name);
      if (tensor === undefined) {
        segment.fill(0);
        return;
      }
      const decay = weightDecay(name);
      const decayed = decay === 0 ? tensor : tf.tidy(() => tf.add(tensor, tf.mul(decay, variable)));
      const { values, isCopy } = gradientValues(decayed);
      exchange.writeGradient(i, values, isCopy);
      if (decayed !== tensor) decayed.dispose();
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

  /** A variable's update. If it is no copy, it must be used up before the next step. */
  updateTensor(i: number, isCopy: boolean): tf.Tensor {
    const update = this.exchange.gradient(i);
    return tf.tensor(isCopy ? update.slice() : update, this.variables[i]!.shape);
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
        const words = `The optimizer's state of '${name}' was saved with another compression. Wrap the optimizer with the same compression as before.`;
        throw new GradringError('ERR_CHECKPOINT', words, { variable: name });
      }
      momentum.set(restored.momentum);
      residual.set(restored.residual);
      shared.set(restored.shared);
    }
  }
}

/** Gradients as a list. A layer that is in several models may be listed twice. */
export function namedTensors(gradients: Gradients): { name: string; tensor: tf.Tensor | null }[] {
  if (Array.isArray(gradients)) return gradients;
  return Object.entries(gradients).map(([name, tensor]) => ({ name, tensor }));
}

/**
 * The same variable, or, if it was disposed of, the one that was made again under its name. TensorFlow.js, too, knows
 * the variables that are trained by their names.
 *
 * @throws GradringError `ERR_MODEL_MISMATCH` if there is none, or it has another shape or type.
 */
function lastOfItsName(variable: tf.Variable): tf.Variable {
  if (!variable.isDisposed) return variable;
  const { name, shape } = variable;
  const again = tf.engine().registeredVariables[name];
  if (again?.dtype === 'float32' && isSameShape(again.shape, shape)) return again;
  const fate = again === undefined ? '' : `, and made again as ${again.dtype}${inBrackets(again.shape)}`;
  const words = `The variable '${name}', which the first step trained as float32${inBrackets(shape)}, was disposed of${fate}. Wrap a new optimizer when the variables change.`;
  throw new GradringError('ERR_MODEL_MISMATCH', words, { variable: name });
}

/** @throws GradringError `ERR_INVALID_ARGUMENT` if there is none, or it is not float32. */
export function variableNamed(name: string): tf.Variable {
  const variable = tf.engine().registeredVariables[name];
  if (variable === undefined) throw invalidArgument(`There is a gradient of '${name}', but no variable of that name.`);
  if (variable.dtype !== 'float32') {
    throw invalidArgument(`Variable '${name}' is ${variable.dtype}; only float32 variables can be trained.`);
  }
  return variable;
}

/** The values of a tensor. */
export interface GradientValues {
  readonly values: Float32Array;
  /** Whether the array was made for the caller, who may free its memory. */
  readonly isCopy: boolean;
}

/** Reads a tensor of any type. Values that are not float32 are converted. */
export function gradientValues(tensor: tf.Tensor): GradientValues {
  const isCopy = isReadAsCopy(tensor);
  const values = tensor.dataSync();
  return values instanceof Float32Array ? { values, isCopy } : { values: Float32Array.from(values), isCopy: true };
}

/** Private parts of TensorFlow.js. If they are different, nothing counts as a copy. */
interface Internals {
  /** The backend of each tensor. */
  readonly state?: { readonly tensorInfo?: WeakMap<object, { readonly backend?: unknown }> };
}
interface NativeBackend {
  /** `values` is the array that the tensor was made of, until an operation has used it. */
  readonly tensorMap?: { get(id: object): { readonly values?: unknown } | undefined };
}

function isReadAsCopy({ dataId }: tf.Tensor): boolean {
  const backend = tf.backend();
  if ((tf.engine() as Internals).state?.tensorInfo?.get(dataId)?.backend !== backend) return false;
  switch (tf.getBackend()) {
    case 'wasm':
      return true;
    case 'tensorflow':
      return (backend as NativeBackend).tensorMap?.get(dataId)?.values === null;
    default:
      return false;
  }
}
