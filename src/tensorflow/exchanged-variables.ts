import type { Communicator } from '../communicator/communicator';
import { ExchangedTensors, type GradientValues, type LoadedGradients } from '../core/exchanged-tensors';
import { GradringError, invalidArgument } from '../errors';
import type { NamedTensor } from './optimizer-state';
import { inBrackets, isSameShape } from '../core/shapes';
import { tf } from './tfjs';
import type { DecayOf } from './wrap-options';

/**
 * Gradients as tfjs passes them: by name, or as a list, which names all variables that are trained. Null: the loss did
 * not depend on the variable.
 */
export type Gradients = { readonly [name: string]: tf.Tensor | null } | NamedTensor[];

/** The variables that an optimizer trains, and their gradients and state in the memories of an exchange. */
export class ExchangedVariables extends ExchangedTensors<tf.Variable> {
  /** @param weightDecay What is added to the gradients. Null: nothing. */
  constructor(
    communicator: Communicator,
    variables: readonly tf.Variable[],
    options: ConstructorParameters<typeof ExchangedTensors>[2],
    private readonly weightDecay: DecayOf | null,
  ) {
    super(communicator, variables, options);
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
   * @param weightDecay Null: these are no gradients of the loss, and nothing is added.
   * @throws GradringError what {@link gradientsByName} throws.
   */
  load(gradients: Gradients, weightDecay = this.weightDecay): LoadedGradients {
    const given = this.gradientsByName(gradients);
    return this.loadEach(variable => {
      const { name } = variable;
      const tensor = given.get(name);
      if (tensor === undefined) return undefined;
      const decay = weightDecay?.(name) ?? 0;
      if (decay === 0) return gradientValues(tensor);
      const decayed = tf.tidy(() => tf.add(tensor, tf.mul(decay, variable)));
      return { ...gradientValues(decayed), release: () => decayed.dispose() };
    });
  }

  /** A variable's update. If it is no copy, it must be used up before the next step. */
  updateTensor(i: number, isCopy: boolean): tf.Tensor {
    const update = this.exchange.gradient(i);
    return tf.tensor(isCopy ? update.slice() : update, this.variables[i]!.shape);
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
