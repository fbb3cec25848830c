import * as tf from '@tensorflow/tfjs';
import { measureResNet50Step } from '../../src/bench/optimizer/resnet50-step';
import { loadBackend } from '../../src/tensorflow/backend';

test('ResNet-50 goes forward and backward, and leaves nothing behind', async () => {
  await loadBackend({ backend: 'wasm' });
  expect(measureResNet50Step({ batchSize: 1, imageSize: 32 })).toBeGreaterThan(0);
  expect(tf.memory().numTensors).toBe(0);
}, 120_000);
