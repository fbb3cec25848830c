import { tf } from '../tfjs';

/** The derivatives with respect to the inputs of a kernel, by their names. */
export type Derivatives = Record<string, () => tf.Tensor>;

/** `dy` is that of the only output; of a kernel with several outputs, it is an array. */
type Derive<Attributes> = (dy: tf.Tensor, saved: tf.Tensor[], attributes: Attributes) => Derivatives;

/** The gradient of a kernel, as TensorFlow.js registers it. */
export interface Gradient<Attributes = object> {
  readonly kernelName: string;
  /** What `saved` holds of the inputs, in this order. */
  readonly inputsToSave?: string[];
  readonly saveAllInputs?: boolean;
  readonly derive: Derive<Attributes>;
}

/** Registers a gradient instead of that of TensorFlow.js, if it has one. */
export function setGradient<Attributes>({ derive, ...config }: Gradient<Attributes>): void {
  // Unregistered first, else tfjs may warn that it is overridden.
  if (tf.getGradient(config.kernelName) !== undefined) tf.unregisterGradient(config.kernelName);
  tf.registerGradient({ ...config, gradFunc: derive as unknown as tf.GradFunc });
}

/** Replaces a gradient by one that may use it, as `stock`, and gets what it saves. */
export function correctGradient<Attributes>(
  kernelName: string,
  correct: (stock: Derive<Attributes>) => Derive<Attributes>,
): void {
  const { gradFunc, ...config } = tf.getGradient(kernelName);
  setGradient({ ...config, derive: correct(gradFunc as unknown as Derive<Attributes>) });
}

/** The sum of a derivative over the axes along which a tensor of that shape was broadcast. */
export function sumTo(derivative: tf.Tensor, shape: number[]): tf.Tensor {
  if (tf.util.arraysEqual(derivative.shape, shape)) return derivative;
  const axes = tf.broadcast_util.getReductionAxes(shape, derivative.shape);
  return tf.reshape(axes.length > 0 ? tf.sum(derivative, axes) : derivative, shape);
}
