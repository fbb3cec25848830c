import { type ModelName, MODELS } from '../../src/bench/models/models';
import { elementCountOf, type TensorShape } from '../../src/bench/models/tensor-shape';

const names = Object.keys(MODELS) as ModelName[];

const shapeOf = (model: ModelName, tensor: string): readonly number[] | undefined =>
  (MODELS[model] as readonly TensorShape[]).find(({ name }) => name === tensor)?.shape;

test.each<[ModelName, parameters: number, tensors: number, ofRankAboveOne: number]>([
  // As torchvision states them.
  ['resnet50', 25_557_032, 161, 54],
  ['alexnet', 61_100_840, 16, 8],
  ['vgg16-bn', 138_365_992, 58, 16],
  // Embedding and softmax of 10,000 · 1500, two layers of 4 · 1500 · (1500 + 1500 + 2), 10,000 biases.
  ['lstm-2x1500', 2 * 15_000_000 + 2 * 18_012_000 + 10_000, 11, 6],
  ['lstm-2x1500-tied', 15_000_000 + 2 * 18_012_000 + 10_000, 10, 5],
  // Convolutions 14,464 + 236,576, with four vectors of 32; two directions of 4 · 800 · (1312 + 800 + 2), four times
  // two of 4 · 800 · (800 + 800 + 2) behind 1600; 1600 + 29 · 800.
  ['deepspeech2', 251_040 + 128 + 13_529_600 + 4 * (10_252_800 + 1600) + 1600 + 23_200, 59, 23],
  // The same with three gates, 1500 units, and 672 inputs.
  ['deepspeech2-gru-1500', 251_040 + 128 + 19_566_000 + 4 * (27_018_000 + 3000) + 3000 + 43_500, 59, 23],
  // Three filters of 3 × 3, and 16 · 64 pixels to 512 to 10 classes, with biases.
  ['digits-16x16', 9 * (64 + 64 * 128 + 128 * 64) + 256 + 1024 * 512 + 512 + 5130, 10, 5],
])('%s has %i parameters in %i tensors, %i of them matrices or filters', (model, parameters, tensors, matrices) => {
  expect(elementCountOf(MODELS[model])).toBe(parameters);
  expect(MODELS[model]).toHaveLength(tensors);
  expect(MODELS[model].filter(({ shape }) => shape.length > 1)).toHaveLength(matrices);
});

test.each(names)('the tensors of %s have names of their own and sizes that can be', model => {
  expect(new Set(MODELS[model].map(({ name }) => name)).size).toBe(MODELS[model].length);
  for (const { shape } of MODELS[model]) expect(shape.every(size => Number.isInteger(size) && size > 0)).toBe(true);
});

test('the sizes that the paper states, in MiB', () => {
  const mebibytes = (model: ModelName): number => (4 * elementCountOf(MODELS[model])) / 2 ** 20;
  expect(mebibytes('resnet50')).toBeCloseTo(97.49, 2);
  expect(mebibytes('lstm-2x1500-tied')).toBeCloseTo(194.68, 2);
  expect(mebibytes('deepspeech2-gru-1500')).toBeCloseTo(488.08, 2);
});

test('single tensors, in the order of TensorFlow and by the names of PyTorch', () => {
  expect(shapeOf('resnet50', 'conv1.weight')).toEqual([7, 7, 3, 64]);
  expect(shapeOf('resnet50', 'layer1.0.downsample.0.weight')).toEqual([1, 1, 64, 256]);
  expect(shapeOf('resnet50', 'layer4.2.conv2.weight')).toEqual([3, 3, 512, 512]);
  expect(shapeOf('alexnet', 'classifier.1.weight')).toEqual([9216, 4096]);
  expect(shapeOf('vgg16-bn', 'features.40.weight')).toEqual([3, 3, 512, 512]);
  expect(shapeOf('vgg16-bn', 'features.41.weight')).toEqual([512]);
  expect(shapeOf('lstm-2x1500', 'rnn.weight_hh_l1')).toEqual([1500, 6000]);
  expect(shapeOf('deepspeech2', 'rnns.0.rnn.weight_ih_l0_reverse')).toEqual([1312, 3200]);
  expect(shapeOf('deepspeech2-gru-1500', 'rnns.0.rnn.weight_ih_l0')).toEqual([672, 4500]);
});
