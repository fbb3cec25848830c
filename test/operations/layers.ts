import * as tf from '@tensorflow/tfjs';
import { between, type Case, f, type Input, int2, positive } from './case';

type Layer = tf.layers.Layer;

/** A layer in training, as an operation of its inputs and of its weights. */
function layer(what: string, inputs: readonly Input[], make: () => Layer, constant?: () => tf.Tensor): Case {
  let made: Layer | undefined;
  const built = (): Layer => {
    if (made === undefined) {
      made = make();
      const shapes = constant === undefined ? inputs.map(({ shape }) => [...shape]) : [tf.tidy(constant).shape];
      made.build(shapes.length === 1 ? shapes[0]! : shapes);
      made.built = true;
    }
    return made;
  };
  return {
    what,
    get inputs() {
      const weights = built().trainableWeights.map(({ shape }) => positive(...(shape as number[])));
      return [...inputs, ...weights];
    },
    compute(...tensors: tf.Tensor[]) {
      const layer = built();
      layer.trainableWeights.forEach((weight, i) => (weight.read = () => tensors[inputs.length + i]!));
      const given = constant === undefined ? tensors.slice(0, inputs.length) : [constant()];
      return layer.call(given.length === 1 ? given[0]! : given, { training: true });
    },
  } as Case;
}

/** Of one input of that shape. */
const plain = (shape: number[], make: () => Layer): Case[] => [layer(`[${shape}]`, [f(...shape)], make)];

const ACTIVATIONS = ['elu', 'hardSigmoid', 'linear', 'relu', 'relu6', 'selu', 'sigmoid', 'softmax', 'softplus', 'softsign', 'tanh', 'swish', 'mish', 'gelu', 'gelu_new'] as const; // prettier-ignore

/** A loss by its name, as `model.compile` takes it. */
function loss(name: string, labels: Input | (() => tf.Tensor), predictions: Input): Case {
  let made: ((labels: tf.Tensor, predictions: tf.Tensor) => tf.Tensor) | undefined;
  const lossFunction = () => {
    if (made === undefined) {
      const inputs = tf.input({ shape: [3] });
      const model = tf.model({ inputs, outputs: tf.layers.reLU().apply(inputs) as tf.SymbolicTensor });
      model.compile({ optimizer: 'sgd', loss: name });
      [made] = (model as unknown as { lossFunctions: [typeof made] }).lossFunctions;
    }
    return made!;
  };
  if (typeof labels === 'function') {
    return { what: name, inputs: [predictions], compute: (x: tf.Tensor) => lossFunction()(labels(), x) } as Case;
  }
  return {
    what: name,
    inputs: [labels, predictions],
    compute: (y: tf.Tensor, x: tf.Tensor) => lossFunction()(y, x),
  } as Case;
}

const pair = [f(2, 3), f(2, 3)];
const images = f(2, 4, 5, 2);
const sequence = f(2, 3, 2);

export const LAYERS: Record<string, Case[]> = {
  'layers.activation': ACTIVATIONS.map(activation => layer(activation, [f(2, 3)], () => tf.layers.activation({ activation }))),
  'layers.add': [layer('of two', pair, () => tf.layers.add())],
  'layers.average': [layer('of two', pair, () => tf.layers.average())],
  'layers.averagePooling1d': plain([2, 4, 2], () => tf.layers.averagePooling1d({ poolSize: 2 })),
  'layers.averagePooling2d': plain([2, 4, 4, 2], () => tf.layers.averagePooling2d({ poolSize: 2, padding: 'same' })),
  'layers.averagePooling3d': plain([2, 2, 4, 2, 1], () => tf.layers.averagePooling3d({ poolSize: 2 })),
  'layers.batchNormalization': [
    layer('rank 2', [f(3, 2)], () => tf.layers.batchNormalization()),
    layer('rank 3', [f(2, 3, 2)], () => tf.layers.batchNormalization()),
    layer('rank 4', [images], () => tf.layers.batchNormalization()),
    layer('without scale', [images], () => tf.layers.batchNormalization({ scale: false })),
    layer('without center', [images], () => tf.layers.batchNormalization({ center: false })),
    layer('without both', [f(3, 2)], () => tf.layers.batchNormalization({ center: false, scale: false })),
    layer('axis 1', [f(2, 3, 2, 2)], () => tf.layers.batchNormalization({ axis: 1 })),
    layer('axis 1, without scale', [f(2, 3, 2, 2)], () => tf.layers.batchNormalization({ axis: 1, scale: false })),
  ],
  'layers.bidirectional': [
    layer('of a GRU', [sequence], () => tf.layers.bidirectional({ layer: tf.layers.gru({ units: 2 }) as tf.RNN, mergeMode: 'concat' })),
  ],
  'layers.centerCrop': plain([2, 4, 5, 2], () => (tf.layers as unknown as { centerCrop(o: object): Layer }).centerCrop({ height: 2, width: 3 })),
  'layers.concatenate': [layer('of two', pair, () => tf.layers.concatenate())],
  'layers.conv1d': plain([2, 5, 2], () => tf.layers.conv1d({ filters: 3, kernelSize: 2, activation: 'relu' })),
  'layers.conv2d': [
    layer('same', [images], () => tf.layers.conv2d({ filters: 2, kernelSize: 3, padding: 'same', activation: 'tanh' })),
    layer('strided', [images], () => tf.layers.conv2d({ filters: 2, kernelSize: 2, strides: 2 })),
    layer('dilated', [images], () => tf.layers.conv2d({ filters: 2, kernelSize: 2, dilationRate: 2 })),
    layer('channels first', [f(2, 2, 4, 4)], () => tf.layers.conv2d({ filters: 2, kernelSize: 2, dataFormat: 'channelsFirst' })),
  ],
  'layers.conv2dTranspose': [
    layer('same', [f(2, 2, 3, 2)], () => tf.layers.conv2dTranspose({ filters: 2, kernelSize: 3, strides: 2, padding: 'same' })),
    layer('valid', [f(2, 2, 3, 2)], () => tf.layers.conv2dTranspose({ filters: 2, kernelSize: 2 })),
  ],
  'layers.conv3d': plain([1, 3, 3, 3, 1], () => tf.layers.conv3d({ filters: 2, kernelSize: 2 })),
  'layers.conv3dTranspose': plain([1, 2, 2, 2, 1], () => (tf.layers as unknown as { conv3dTranspose(o: object): Layer }).conv3dTranspose({ filters: 2, kernelSize: 2, strides: 2 })),
  'layers.convLstm2d': plain([1, 2, 3, 3, 1], () => tf.layers.convLstm2d({ filters: 1, kernelSize: 2 })),
  'layers.cropping2D': plain([2, 4, 5, 2], () => tf.layers.cropping2D({ cropping: [[1, 0], [1, 2]] })),
  'layers.dense': [
    layer('rank 2', [f(2, 3)], () => tf.layers.dense({ units: 2, activation: 'sigmoid' })),
    layer('rank 3', [sequence], () => tf.layers.dense({ units: 3 })),
  ],
  'layers.depthwiseConv2d': plain([2, 4, 5, 2], () => tf.layers.depthwiseConv2d({ kernelSize: 3, padding: 'same', depthMultiplier: 2 })),
  'layers.dot': [layer('axis 1', pair, () => tf.layers.dot({ axes: 1 })), layer('axis 2 of rank 3', [f(2, 2, 3), f(2, 4, 3)], () => tf.layers.dot({ axes: 2 }))],
  'layers.dropout': [layer('rate 0.5', [f(4, 5)], () => tf.layers.dropout({ rate: 0.5, seed: 3 }))],
  'layers.elu': plain([2, 3], () => tf.layers.elu()),
  'layers.embedding': [layer('of indices', [], () => tf.layers.embedding({ inputDim: 4, outputDim: 2 }), () => int2([[0, 3, 3], [1, 0, 3]]))],
  'layers.flatten': plain([2, 3, 2], () => tf.layers.flatten()),
  'layers.globalAveragePooling1d': plain([2, 3, 2], () => tf.layers.globalAveragePooling1d()),
  'layers.globalAveragePooling2d': plain([2, 3, 3, 2], () => tf.layers.globalAveragePooling2d({})),
  'layers.globalMaxPooling1d': plain([2, 3, 2], () => tf.layers.globalMaxPooling1d()),
  'layers.globalMaxPooling2d': plain([2, 3, 3, 2], () => tf.layers.globalMaxPooling2d({})),
  'layers.gru': [
    layer('the last output', [sequence], () => tf.layers.gru({ units: 2 })),
    layer('all outputs, backwards', [sequence], () => tf.layers.gru({ units: 2, returnSequences: true, goBackwards: true })),
  ],
  'layers.layerNormalization': [
    layer('rank 2', [f(2, 3)], () => tf.layers.layerNormalization()),
    layer('rank 3', [sequence], () => tf.layers.layerNormalization()),
    layer('two axes', [sequence], () => tf.layers.layerNormalization({ axis: [1, 2] })),
    layer('without center and scale', [f(2, 3)], () => tf.layers.layerNormalization({ center: false, scale: false })),
  ],
  'layers.leakyReLU': plain([2, 3], () => tf.layers.leakyReLU()),
  'layers.lstm': [
    layer('the last output', [sequence], () => tf.layers.lstm({ units: 2 })),
    layer('all outputs, backwards', [sequence], () => tf.layers.lstm({ units: 2, returnSequences: true, goBackwards: true })),
  ],
  'layers.masking': plain([2, 3, 2], () => tf.layers.masking({ maskValue: 0 })),
  'layers.maxPooling1d': plain([2, 4, 2], () => tf.layers.maxPooling1d({ poolSize: 2 })),
  'layers.maxPooling2d': plain([2, 4, 4, 2], () => tf.layers.maxPooling2d({ poolSize: 2, padding: 'same' })),
  'layers.maxPooling3d': plain([2, 2, 4, 2, 1], () => tf.layers.maxPooling3d({ poolSize: 2 })),
  'layers.maximum': [layer('of two', pair, () => tf.layers.maximum())],
  'layers.minimum': [layer('of two', pair, () => tf.layers.minimum())],
  'layers.multiply': [layer('of two', pair, () => tf.layers.multiply())],
  'layers.permute': plain([2, 3, 2], () => tf.layers.permute({ dims: [2, 1] })),
  'layers.prelu': plain([2, 3], () => tf.layers.prelu()),
  'layers.reLU': [...plain([2, 3], () => tf.layers.reLU()), layer('at most 0.5', [f(2, 3)], () => tf.layers.reLU({ maxValue: 0.5 }))],
  'layers.repeatVector': plain([2, 3], () => tf.layers.repeatVector({ n: 2 })),
  'layers.rescaling': plain([2, 3], () => (tf.layers as unknown as { rescaling(o: object): Layer }).rescaling({ scale: 0.5, offset: 1 })),
  'layers.reshape': plain([2, 6], () => tf.layers.reshape({ targetShape: [2, 3] })),
  'layers.resizing': [
    layer('bilinear', [f(2, 2, 3, 2)], () => (tf.layers as unknown as { resizing(o: object): Layer }).resizing({ height: 4, width: 5 })),
    layer('nearest', [f(2, 2, 3, 2)], () => (tf.layers as unknown as { resizing(o: object): Layer }).resizing({ height: 4, width: 5, interpolation: 'nearest' })),
  ],
  'layers.rnn': [layer('of two cells', [sequence], () => tf.layers.rnn({ cell: [tf.layers.gruCell({ units: 2 }), tf.layers.simpleRNNCell({ units: 2 })] }))],
  'layers.separableConv2d': plain([2, 4, 5, 2], () => tf.layers.separableConv2d({ filters: 2, kernelSize: 3 })),
  'layers.simpleRNN': plain([2, 3, 2], () => tf.layers.simpleRNN({ units: 2 })),
  'layers.softmax': [...plain([2, 3], () => tf.layers.softmax())],
  'layers.spatialDropout1d': [layer('rate 0.5', [f(2, 3, 4)], () => tf.layers.spatialDropout1d({ rate: 0.5, seed: 3 }))],
  'layers.thresholdedReLU': plain([2, 3], () => tf.layers.thresholdedReLU({ theta: 0.3 })),
  'layers.timeDistributed': plain([2, 3, 2], () => tf.layers.timeDistributed({ layer: tf.layers.dense({ units: 2 }) })),
  'layers.upSampling2d': [
    layer('nearest', [f(2, 2, 3, 2)], () => tf.layers.upSampling2d({ size: [2, 3] })),
    layer('bilinear', [f(2, 2, 3, 2)], () => tf.layers.upSampling2d({ size: [2, 3], interpolation: 'bilinear' })),
  ],
  'layers.zeroPadding2d': plain([2, 2, 3, 2], () => tf.layers.zeroPadding2d({ padding: [[1, 0], [1, 2]] })),

  'the losses of model.compile': [
    loss('meanSquaredError', f(2, 3), f(2, 3)),
    loss('meanAbsoluteError', f(2, 3), f(2, 3)),
    loss('meanAbsolutePercentageError', positive(2, 3), f(2, 3)),
    loss('meanSquaredLogarithmicError', positive(2, 3), positive(2, 3)),
    loss('squaredHinge', f(2, 3), f(2, 3)),
    loss('hinge', f(2, 3), f(2, 3)),
    loss('categoricalHinge', f(2, 3), f(2, 3)),
    loss('logcosh', f(2, 3), f(2, 3)),
    loss('categoricalCrossentropy', between(0, 1)(2, 3), between(0.1, 0.9)(2, 3)),
    loss('sparseCategoricalCrossentropy', () => tf.tensor2d([[0], [2]]), between(0.1, 0.9)(2, 3)),
    loss('binaryCrossentropy', between(0, 1)(2, 3), between(0.1, 0.9)(2, 3)),
    loss('kullbackLeiblerDivergence', between(0.1, 0.9)(2, 3), between(0.1, 0.9)(2, 3)),
    loss('poisson', positive(2, 3), positive(2, 3)),
    loss('cosineProximity', f(2, 3), f(2, 3)),
  ],
}; // prettier-ignore
