import { tf } from './tfjs';

interface BatchNormalization {
  gamma?: { read(): tf.Tensor | null };
  beta?: { read(): tf.Tensor | null };
  build(shape: tf.Shape): void;
}

let isComplete = false;

/**
 * Lets batch normalization without a scale or a center be trained: in training, the layer of tfjs 4.22 reads the
 * weights that it does not have. Its operation takes null for them. Calling it again does nothing.
 */
export function completeBatchNormalization(): void {
  if (isComplete) return;
  isComplete = true;
  const prototype = tf.layers.batchNormalization().constructor.prototype as BatchNormalization;
  const { build } = prototype;
  prototype.build = function (shape) {
    build.call(this, shape);
    this.gamma ??= { read: () => null };
    this.beta ??= { read: () => null };
  };
}
