import { tf } from './tfjs';
import { type GradringError, invalidArgument } from '../errors';

// Not `instanceof`: tfjs compares the names of methods, so it is true for objects of another copy, too.

/** Whether it is a model of this copy of TensorFlow.js. */
export function isOwnModel(value: unknown): value is tf.LayersModel {
  return isMadeBy(tf.LayersModel, value);
}

/** Whether it is an optimizer of this copy of TensorFlow.js. */
export function isOwnOptimizer(value: unknown): value is tf.Optimizer {
  return isMadeBy(tf.Optimizer, value);
}

/** Whether it is a tensor of this copy of TensorFlow.js. */
export function isOwnTensor(value: unknown): value is tf.Tensor {
  return isMadeBy(tf.Tensor, value);
}

/** Whether it is a variable of this copy of TensorFlow.js. */
export function isOwnVariable(value: unknown): value is tf.Variable {
  return isMadeBy(tf.Variable, value);
}

/**
 * The error for a wrong argument. If another copy of TensorFlow.js made it, the error says so: two copies share
 * backends and tensors, but not classes, and would fail later in obscure ways.
 *
 * @param method A method that such an object has.
 * @param words The message if it is no such object.
 */
export function notOurs(
  kind: 'model' | 'optimizer' | 'variable',
  method: string,
  value: unknown,
  words: string,
): GradringError {
  const isOfAnotherCopy = typeof (value as Record<string, unknown> | null | undefined)?.[method] === 'function';
  return invalidArgument(isOfAnotherCopy ? otherCopy(kind) : words);
}

/** The message for an object that another copy of TensorFlow.js has made. */
export function otherCopy(kind: string): string {
  const { tfjs } = tf.version;
  return `The ${kind} comes from another copy of @tensorflow/tfjs than the one that gradring uses (${tfjs}): two copies are installed. npm ls @tensorflow/tfjs-core shows who needs which. Use only the tf of loadBackend(), or install that version: npm install @tensorflow/tfjs@${tfjs}. npx gradring doctor says what to install.`;
}

function isMadeBy(constructor: { readonly prototype: object }, value: unknown): boolean {
  return (
    typeof value === 'object' && value !== null && Object.prototype.isPrototypeOf.call(constructor.prototype, value)
  );
}
