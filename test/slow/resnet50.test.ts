import * as tf from '@tensorflow/tfjs';
import { MODELS } from '../../src/bench/models/models';
import { resnet50Layers } from '../../src/bench/optimizer/resnet50-layers';
import { measureResNet50Step } from '../../src/bench/optimizer/resnet50-step';
import { loadBackend } from '../../src/tensorflow/backend';

beforeAll(() => loadBackend({ backend: 'wasm' }));

test('ResNet-50 goes forward and backward, and leaves nothing behind', async () => {
  expect(measureResNet50Step({ batchSize: 1, imageSize: 32 })).toBeGreaterThan(0);
  expect(tf.memory().numTensors).toBe(0);
}, 120_000);

test('ResNet-50 as a model trains the tensors of its list, and halves the image five times', () => {
  const model = resnet50Layers(224);
  const sorted = (shapes: readonly (readonly unknown[])[]) => shapes.map(shape => shape.join(' ')).sort();
  expect(sorted(model.trainableWeights.map(({ shape }) => shape))).toEqual(
    sorted(MODELS.resnet50.map(({ shape }) => shape)),
  );
  const shapes = model.layers.map(({ outputShape }) => outputShape as number[]);
  expect([...new Set(shapes.filter(shape => shape.length === 4).map(([, height]) => height))]).toEqual(
    [224, 112, 56, 28, 14, 7],
  ); // prettier-ignore
  expect(shapes.at(-1)).toEqual([null, 1000]);
});
