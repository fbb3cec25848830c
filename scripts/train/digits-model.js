/**
 * A convolutional network for digits of 8×8 pixels or more, compiled with an optimizer. The seed determines its initial
 * weights.
 *
 * @param {typeof import('@tensorflow/tfjs')} tf
 * @param {object} options
 * @param {[height: number, width: number, channels: number]} options.imageShape
 * @param {number} options.seed
 * @param {import('@tensorflow/tfjs').Optimizer} options.optimizer
 */
function digitsModel(tf, { imageShape, seed, optimizer }) {
  const initializer = layer => tf.initializers.heNormal({ seed: seed * 100 + layer });
  const model = tf.sequential({
    layers: [
      tf.layers.conv2d({ inputShape: imageShape, filters: 16, kernelSize: 3, padding: 'same', activation: 'relu', kernelInitializer: initializer(1) }),
      tf.layers.maxPooling2d({ poolSize: 2 }),
      tf.layers.conv2d({ filters: 32, kernelSize: 3, padding: 'same', activation: 'relu', kernelInitializer: initializer(2) }),
      tf.layers.flatten(),
      tf.layers.dense({ units: 256, activation: 'relu', kernelInitializer: initializer(3) }),
      tf.layers.dense({ units: 10, activation: 'softmax', kernelInitializer: initializer(4) }),
    ],
  }); // prettier-ignore
  model.compile({ optimizer, loss: 'categoricalCrossentropy', metrics: ['accuracy'] });
  return model;
}

module.exports = { digitsModel };
