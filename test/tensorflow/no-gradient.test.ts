import * as tf from '@tensorflow/tfjs';
import { loadBackend } from '../../src/tensorflow/backend';
import { noCompression } from '../../src/compression/dgc-options';
import { connect, type Ring } from '../../src/tensorflow/ring';
import { coded } from '../support/coded';

const { layers } = tf;

/** A layer that runs some operation. */
class Custom extends tf.layers.Layer {
  static className = 'Custom';

  constructor(
    name: string,
    private readonly operation: (x: tf.Tensor) => tf.Tensor,
    private readonly shape: number[],
  ) {
    super({ name });
  }

  override call(inputs: tf.Tensor | tf.Tensor[]): tf.Tensor {
    return this.operation([inputs].flat()[0]!);
  }

  override computeOutputShape(): tf.Shape {
    return [null, ...this.shape];
  }
}

let ring: Ring;

beforeAll(async () => {
  await loadBackend({ backend: 'wasm' });
  ring = await connect({ rank: 0, worldSize: 1 });
});
afterAll(() => ring.close());

/** Trains a model of these layers for an epoch, on rows of that shape. */
async function train(shape: number[], ...all: tf.layers.Layer[]): Promise<tf.History> {
  const inputs = tf.input({ shape });
  const outputs = all.reduce((x, layer) => layer.apply(x) as tf.SymbolicTensor, inputs);
  const model = tf.model({ inputs, outputs });
  model.compile({
    optimizer: ring.wrap(tf.train.sgd(0.1), { compression: noCompression() }),
    loss: 'meanSquaredError',
  });
  const y = tf.zeros([4, ...(outputs.shape.slice(1) as number[])]);
  return model.fit(tf.randomNormal([4, ...shape], 0, 1, 'float32', 1), y, { verbose: 0, callbacks: ring.callbacks() });
}

describe('model.fit says what has no gradient, and in which layer:', () => {
  const largest = () => new Custom('largest', x => tf.topk(x, 2).values, [2]);
  const spectrum = () => new Custom('spectrum', x => tf.real(tf.complex(x, x)), [3]);
  test.each<[string, () => Promise<tf.History>, RegExp, RegExp]>([
    [
      'an operation',
      () => train([4], layers.dense({ units: 3 }), largest(), layers.dense({ units: 2 })),
      /^TensorFlow\.js has no gradient of the operation TopK, on any backend\. It runs in the layer 'largest'\. Use another operation there, or give it a gradient by tf\.customGrad\. docs\/reference\/operations\.md/,
      /^Cannot compute gradient: gradient function not found for TopK/,
    ],
    [
      'an operation that the backend does not have',
      () => train([4], layers.dense({ units: 3 }), spectrum()),
      /^The backend wasm of TensorFlow\.js does not have the operation Complex\. It runs in the layer 'spectrum'\. Use another operation there, or another backend\./,
      /^Kernel 'Complex' not registered for backend 'wasm'/,
    ],
    [
      'a dilated convolution',
      () =>
        train(
          [5, 5, 1],
          layers.conv2d({ filters: 1, kernelSize: 1 }),
          layers.conv2d({ filters: 1, kernelSize: 2, dilationRate: 2, name: 'dilated' }),
        ),
      /^TensorFlow\.js has no gradient of conv2D with dilations, on any backend\. It runs in the layer 'dilated'\./,
      /^Error in gradient of fused conv2D: dilation rates/,
    ],
    [
      'an operation of several layers',
      () =>
        train(
          [2, 2, 2, 1],
          layers.conv3dTranspose({ filters: 1, kernelSize: 1, name: 'first' }),
          layers.conv3dTranspose({ filters: 1, kernelSize: 1, name: 'second' }),
        ),
      /the operation Conv3DBackpropInputV2, on any backend\. It runs in the layers 'first', 'second'\./,
      /not found for Conv3DBackpropInputV2/,
    ],
  ])('%s', async (_, fit, words, cause) => {
    await expect(fit()).rejects.toMatchObject({
      code: 'ERR_NO_GRADIENT',
      message: expect.stringMatching(words),
      cause: expect.objectContaining({ message: expect.stringMatching(cause) }),
    });
  });
});

test('so does minimize, where no layer is known; and everything is as it was before', async () => {
  const optimizer = ring.wrap(tf.train.sgd(0.1), { compression: noCompression() });
  const weights = tf.variable(tf.tensor1d([3, 1, 2]));
  const cumulated = () => tf.sum(tf.cumprod(weights)) as tf.Scalar;
  const words = /^TensorFlow\.js has no gradient of the operation Cumprod, on any backend\. Use another/;
  const failure = expect.objectContaining({ code: 'ERR_NO_GRADIENT', message: expect.stringMatching(words) });
  const { apply } = tf.layers.Layer.prototype;
  expect(() => optimizer.minimize(cumulated)).toThrow(failure);
  await expect(optimizer.minimizeAsync(cumulated)).rejects.toEqual(failure);
  expect(tf.layers.Layer.prototype.apply).toBe(apply);
  expect(Object.keys(tf.engine())).not.toContain('runKernel');
  expect(optimizer.minimize(() => tf.sum(weights), true)!.dataSync()[0]).toBe(6);
});

test('other errors stay as they are', () => {
  const optimizer = ring.wrap(tf.train.sgd(0.1), { compression: noCompression() });
  const weights = tf.variable(tf.tensor1d([3, 1, 2]));
  const failure = new Error('of my own');
  expect(() => optimizer.minimize(() => {
    tf.sum(weights);
    throw failure;
  })).toThrow(failure); // prettier-ignore
});

test('a first step without any gradient is refused, and the next one is the first', () => {
  const optimizer = ring.wrap(tf.train.sgd(1));
  expect(() => optimizer.applyGradients({})).toThrow(coded(/^There is no gradient\. Pass those of all variables/));
  const w = tf.variable(tf.scalar(3));
  optimizer.minimize(() => w.square() as tf.Scalar);
  expect(w.dataSync()[0]).toBe(-3);
});

describe('layers that tfjs 4.22 cannot train:', () => {
  test.each<[string, () => tf.layers.Layer]>([
    ['batch normalization without scale', () => layers.batchNormalization({ scale: false })],
    ['batch normalization without center', () => layers.batchNormalization({ center: false })],
    ['batch normalization of the first axis', () => layers.batchNormalization({ axis: 1 })],
    ['layer normalization without either', () => layers.layerNormalization({ center: false, scale: false })],
    ['a thresholded ReLU', () => layers.thresholdedReLU({ theta: -1 })],
    ['masking', () => layers.masking({ maskValue: 0.5 })],
  ])('%s', async (_, make) => {
    const { history } = await train([4, 3], layers.dense({ units: 3 }), make(), layers.dense({ units: 2 }));
    expect(history['loss']).toEqual([expect.any(Number)]);
  });
});
