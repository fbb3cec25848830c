import { tf } from '../../tensorflow/tfjs';
import { CLASSES, EXPANSION, STAGES } from '../models/resnet50';

type Layer = tf.SymbolicTensor;

/**
 * ResNet-50 for ImageNet as a model that computes: with the tensors of `resnet50()`, strides in the 3×3 filters like in
 * torchvision, and moving averages.
 *
 * @param imageSize Height and width of an image. The paper has 224.
 */
export function resnet50Layers(imageSize: number): tf.LayersModel {
  const input = tf.input({ shape: [imageSize, imageSize, 3] });
  const pool = tf.layers.maxPooling2d({ poolSize: 3, strides: 2, padding: 'same' });
  let output = pool.apply(relu(convolution(input, 64, 7, 2))) as Layer;
  STAGES.forEach(([blocks, width], stage) => {
    for (let block = 0; block < blocks; block++) {
      output = bottleneck(output, width, block === 0 && stage > 0 ? 2 : 1, block === 0);
    }
  });
  output = tf.layers.globalAveragePooling2d({ dataFormat: 'channelsLast' }).apply(output) as Layer;
  return tf.model({ inputs: input, outputs: tf.layers.dense({ units: CLASSES }).apply(output) as Layer });
}

/** 1×1 down to `width` channels, 3×3, and 1×1 up again. The first block of a stage has a projection as its shortcut. */
function bottleneck(input: Layer, width: number, strides: number, projects: boolean): Layer {
  const inner = relu(convolution(relu(convolution(input, width, 1, 1)), width, 3, strides));
  const outer = convolution(inner, EXPANSION * width, 1, 1);
  const shortcut = projects ? convolution(input, EXPANSION * width, 1, strides) : input;
  return relu(tf.layers.add().apply([outer, shortcut]) as Layer);
}

/** A convolution and the batch normalization that follows. */
function convolution(input: Layer, filters: number, kernelSize: number, strides: number): Layer {
  const layer = tf.layers.conv2d({
    ...{ filters, kernelSize, strides },
    padding: 'same',
    useBias: false,
    kernelInitializer: 'heUniform', // drawn many times as fast as normal numbers
  });
  return tf.layers.batchNormalization().apply(layer.apply(input)) as Layer;
}

function relu(input: Layer): Layer {
  return tf.layers.reLU().apply(input) as Layer;
}
