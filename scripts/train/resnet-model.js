/**
 * ResNet for CIFAR-10 (He et al., CVPR 2016, section 4.2): depth 6n + 2, three stages of n blocks with 16, 32 and 64
 * channels. If the number of channels doubles, the shortcut is a 1 × 1 convolution: option B of the paper, because
 * TensorFlow.js has no layer for option A.
 *
 * @param {typeof import('@tensorflow/tfjs')} tf
 * @param {object} options
 * @param {number} options.depth
 * @param {number} options.seed Decides the initial weights.
 * @param {[height: number, width: number, channels: number]} options.imageShape
 * @returns {import('@tensorflow/tfjs').LayersModel}
 */
function resnet(tf, { depth, seed, imageShape }) {
  const blocks = (depth - 2) / 6;
  let layers = 0;
  const initializer = () => tf.initializers.heNormal({ seed: seed * 1000 + layers++ });
  /** @returns {import('@tensorflow/tfjs').SymbolicTensor} */
  const apply = (layer, input) => layer.apply(input);
  const relu = input => apply(tf.layers.activation({ activation: 'relu' }), input);
  const convolution = (input, filters, { kernelSize = 3, strides = 1 } = {}) => {
    const kernel = { kernelSize, strides, kernelInitializer: initializer() };
    const output = apply(tf.layers.conv2d({ filters, padding: 'same', useBias: false, ...kernel }), input);
    return apply(tf.layers.batchNormalization({ momentum: 0.9, epsilon: 1e-5 }), output);
  };

  const input = tf.input({ shape: imageShape });
  let output = relu(convolution(input, 16));
  for (const [stage, filters] of [16, 32, 64].entries()) {
    for (let block = 0; block < blocks; block++) {
      const strides = stage > 0 && block === 0 ? 2 : 1;
      const inner = relu(convolution(output, filters, { strides }));
      const shortcut = strides === 2 ? convolution(output, filters, { kernelSize: 1, strides }) : output;
      output = relu(apply(tf.layers.add(), [convolution(inner, filters), shortcut]));
    }
  }
  output = apply(tf.layers.globalAveragePooling2d({ dataFormat: 'channelsLast' }), output);
  output = apply(tf.layers.dense({ units: 10, activation: 'softmax', kernelInitializer: initializer() }), output);
  return tf.model({ inputs: input, outputs: output });
}

module.exports = { resnet };
