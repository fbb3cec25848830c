/**
 * A convolutional network for digits of 8×8 pixels or more, compiled with an optimizer. The seed determines its initial
 * weights.
 *
 * @param {typeof import('@tensorflow/tfjs')} tf
 * @param {object} options
 * @param {[height: number, width: number, channels: number]} options.imageShape
 * @param {boolean} [options.large] Another network, of which a step takes half a second on a core.
 * @param {number} options.seed
 * @param {import('@tensorflow/tfjs').Optimizer} options.optimizer
 */
function digitsModel(tf, { imageShape, large = false, seed, optimizer }) {
  let layer = 0;
  const kernelInitializer = () => tf.initializers.heNormal({ seed: seed * 100 + ++layer });
  const convolution = (filters, inputShape) =>
    tf.layers.conv2d({ ...(inputShape && { inputShape }), filters, kernelSize: 3, padding: 'same', activation: 'relu', kernelInitializer: kernelInitializer() }); // prettier-ignore
  const dense = (units, activation) => tf.layers.dense({ units, activation, kernelInitializer: kernelInitializer() });
  const pooling = () => tf.layers.maxPooling2d({ poolSize: 2 });
  const layers = large
    ? [
        ...[convolution(64, imageShape), pooling(), convolution(128), pooling(), convolution(64)],
        ...[tf.layers.flatten(), dense(512, 'relu'), dense(10, 'softmax')],
      ]
    : [
        ...[convolution(16, imageShape), pooling(), convolution(32)],
        ...[tf.layers.flatten(), dense(256, 'relu'), dense(10, 'softmax')],
      ];
  const model = tf.sequential({ layers });
  model.compile({ optimizer, loss: 'categoricalCrossentropy', metrics: ['accuracy'] });
  return model;
}

module.exports = { digitsModel };
