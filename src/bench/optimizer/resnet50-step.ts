import { tf } from '../../tensorflow/tfjs';
import { resnet50Layers } from './resnet50-layers';
import { percentile, rounded } from '../statistics';

/** The images of a step. */
export interface ImageBatch {
  readonly batchSize: number;
  /** Height and width. */
  readonly imageSize: number;
}

const TIMED_STEPS = 3;

/**
 * The median time of ResNet-50's forward and backward pass over synthetic images, in ms, after one pass that is not
 * timed.
 */
export function measureResNet50Step({ batchSize, imageSize }: ImageBatch): number {
  const model = resnet50Layers(imageSize);
  const pixels = Float32Array.from({ length: batchSize * imageSize * imageSize * 3 }, (_, i) => Math.sin(i));
  const images = tf.tensor(pixels, [batchSize, imageSize, imageSize, 3]);
  const classes = model.outputShape.at(-1) as number;
  const labels = tf.tidy(() => tf.oneHot(tf.range(0, batchSize, 1, 'int32'), classes));
  const loss = (): tf.Scalar => {
    const output = model.apply(images, { training: true }) as tf.Tensor;
    return tf.losses.softmaxCrossEntropy(labels, output) as tf.Scalar;
  };
  const times: number[] = [];
  for (let step = -1; step < TIMED_STEPS; step++) {
    const begin = performance.now();
    const { value, grads } = tf.variableGrads(loss);
    value.dataSync();
    const took = performance.now() - begin;
    tf.dispose([value, ...Object.values(grads)]);
    if (step >= 0) times.push(took);
  }
  tf.dispose([images, labels]);
  model.dispose();
  return rounded(percentile(times, 50), 6);
}
