import * as tf from '@tensorflow/tfjs';
import { between, type Case, f, type Input, negative, of } from './case';

type Pair = [number, number];
type Padding = 'same' | 'valid' | number | tf.backend_util.ExplicitPadding;

interface Window {
  readonly what: string;
  /** Batch, height, width. */
  readonly x: [number, number, number];
  readonly filter: Pair;
  readonly strides: Pair;
  readonly pad: Padding;
  readonly dilations?: Pair;
  readonly round?: 'floor' | 'round' | 'ceil';
}

const windows: Window[] = [
  { what: 'same', x: [2, 4, 5], filter: [3, 3], strides: [1, 1], pad: 'same' },
  { what: 'valid', x: [1, 4, 5], filter: [3, 3], strides: [1, 1], pad: 'valid' },
  { what: 'batch of 3', x: [3, 3, 3], filter: [2, 2], strides: [1, 1], pad: 'valid' },
  { what: 'same, strided, odd size', x: [2, 5, 3], filter: [3, 3], strides: [2, 2], pad: 'same' },
  { what: 'same, strided, even size', x: [1, 4, 6], filter: [3, 3], strides: [2, 2], pad: 'same' },
  { what: 'valid, strided, pixels left over', x: [2, 4, 6], filter: [3, 3], strides: [2, 2], pad: 'valid' },
  { what: 'stride beyond the filter', x: [1, 6, 7], filter: [2, 2], strides: [3, 3], pad: 'valid' },
  { what: 'unequal sides and strides', x: [2, 4, 4], filter: [2, 3], strides: [2, 1], pad: 'same' },
  { what: 'filter as large as the image', x: [2, 3, 3], filter: [3, 3], strides: [1, 1], pad: 'valid' },
  { what: 'filter larger than the image', x: [2, 2, 2], filter: [3, 3], strides: [1, 1], pad: 'same' },
  { what: 'one by one', x: [2, 3, 4], filter: [1, 1], strides: [1, 1], pad: 'same' },
  { what: 'one by one, strided', x: [2, 4, 5], filter: [1, 1], strides: [2, 3], pad: 'valid' },
  { what: 'padding of 1', x: [2, 4, 4], filter: [3, 3], strides: [1, 1], pad: 1 },
  { what: 'padding of 1, strided', x: [1, 5, 5], filter: [3, 3], strides: [2, 2], pad: 1 },
  { what: 'padding of 1, rounded up', x: [1, 4, 4], filter: [3, 3], strides: [2, 2], pad: 1, round: 'ceil' },
  { what: 'padding of 1, rounded down', x: [1, 4, 4], filter: [3, 3], strides: [2, 2], pad: 1, round: 'floor' },
  { what: 'explicit', x: [2, 4, 4], filter: [3, 3], strides: [1, 1], pad: [[0, 0], [1, 2], [0, 3], [0, 0]] },
  { what: 'explicit, one by one', x: [1, 4, 4], filter: [1, 1], strides: [1, 1], pad: [[0, 0], [1, 2], [0, 3], [0, 0]] },
  { what: 'explicit, strided', x: [2, 4, 4], filter: [2, 2], strides: [2, 2], pad: [[0, 0], [1, 1], [0, 0], [0, 0]] },
  { what: 'dilated', x: [2, 5, 5], filter: [2, 2], strides: [1, 1], pad: 'valid', dilations: [2, 2] },
  { what: 'dilated, same', x: [1, 5, 6], filter: [3, 2], strides: [1, 1], pad: 'same', dilations: [2, 3] },
]; // prettier-ignore

const CHANNELS = 2;

function convolutions(
  filterOf: (filter: Pair) => Input,
  convolve: (x: tf.Tensor4D, w: tf.Tensor4D, window: Window) => tf.Tensor,
): Case[] {
  return windows.map(window =>
    of(window.what, [f(...window.x, CHANNELS), filterOf(window.filter)], (x: tf.Tensor4D, w: tf.Tensor4D) => convolve(x, w, window)),
  ); // prettier-ignore
}

/** A padding that holds whole windows is refused by some backends, and has no maximum. */
const pooled = windows.filter(({ pad, filter }) => typeof pad !== 'object' && filter[0] > 1);

function pools(pool: (x: tf.Tensor4D, window: Window) => tf.Tensor, numbers: (...shape: number[]) => Input): Case[] {
  return pooled
    .filter(({ dilations }) => dilations === undefined)
    .map(window =>
      of(window.what, [numbers(...window.x, CHANNELS)], (x: tf.Tensor4D) => pool(x, window)),
    ); // prettier-ignore
}

const volumes: [string, number[], number | [number, number, number], number | [number, number, number], 'same' | 'valid' | number][] = [
  ['same', [2, 3, 3, 3, 2], 2, 1, 'same'],
  ['valid', [1, 3, 3, 4, 1], 2, 1, 'valid'],
  ['strided, valid', [1, 4, 5, 4, 1], 2, 2, 'valid'],
  ['strided, same', [2, 3, 3, 3, 1], 2, 2, 'same'],
  ['unequal', [1, 2, 3, 4, 1], [1, 2, 3], [1, 1, 2], 'same'],
  ['unequal, of a batch', [2, 3, 4, 2, 1], [2, 3, 1], [1, 2, 1], 'valid'],
  ['stride beyond the filter', [1, 4, 4, 3, 2], 1, 2, 'same'],
  ['stride beyond the filter on one axis', [2, 5, 4, 3, 1], [1, 3, 2], [3, 1, 2], 'same'],
]; // prettier-ignore

const size3 = (filter: number | [number, number, number]): [number, number, number] =>
  typeof filter === 'number' ? [filter, filter, filter] : filter;

const ACTIVATIONS = ['linear', 'relu', 'relu6', 'elu', 'sigmoid', 'leakyrelu', 'prelu'] as const;

/** The bias, and, for one activation, its slope for negative numbers. */
const fusedInputs = (channels: number, activation: string): Input[] =>
  activation === 'prelu' ? [f(channels), f(channels)] : [f(channels)];

export const CONVOLUTIONS: Record<string, Case[]> = {
  conv2d: [
    ...convolutions(
      filter => f(...filter, CHANNELS, 3),
      (x, w, { strides, pad, dilations, round }) => tf.conv2d(x, w, strides, pad as 'same', 'NHWC', dilations, round),
    ),
    of('rank 3', [f(4, 5, 2), f(3, 3, 2, 3)], (x: tf.Tensor3D, w: tf.Tensor4D) => tf.conv2d(x, w, 1, 'same')),
    of('NCHW', [f(2, 2, 4, 5), f(3, 3, 2, 3)], (x: tf.Tensor4D, w: tf.Tensor4D) => tf.conv2d(x, w, 1, 'same', 'NCHW')),
    of('one channel to one', [f(1, 4, 4, 1), f(2, 2, 1, 1)], (x: tf.Tensor4D, w: tf.Tensor4D) => tf.conv2d(x, w, 1, 'same')),
    of('one channel to one, strided', [f(2, 6, 5, 1), f(3, 3, 1, 1)], (x: tf.Tensor4D, w: tf.Tensor4D) => tf.conv2d(x, w, 2, 'valid')),
    of('one by one, strided, 8 channels', [f(2, 8, 6, 8), f(1, 1, 8, 2)], (x: tf.Tensor4D, w: tf.Tensor4D) => tf.conv2d(x, w, 2, 'same')),
  ],
  conv1d: [
    of('same', [f(2, 5, 2), f(3, 2, 3)], (x: tf.Tensor3D, w: tf.Tensor3D) => tf.conv1d(x, w, 1, 'same')),
    of('valid, strided', [f(2, 6, 2), f(3, 2, 3)], (x: tf.Tensor3D, w: tf.Tensor3D) => tf.conv1d(x, w, 2, 'valid')),
    of('dilated', [f(1, 6, 2), f(2, 2, 3)], (x: tf.Tensor3D, w: tf.Tensor3D) => tf.conv1d(x, w, 1, 'valid', 'NWC', 2)),
    of('rank 2', [f(5, 2), f(3, 2, 3)], (x: tf.Tensor2D, w: tf.Tensor3D) => tf.conv1d(x, w, 1, 'same')),
  ],
  conv2dTranspose: [
    of('same', [f(2, 3, 3, 2), f(3, 3, 3, 2)], (x: tf.Tensor4D, w: tf.Tensor4D) => tf.conv2dTranspose(x, w, [2, 3, 3, 3], 1, 'same')),
    of('same, strided', [f(2, 2, 3, 2), f(3, 3, 3, 2)], (x: tf.Tensor4D, w: tf.Tensor4D) => tf.conv2dTranspose(x, w, [2, 4, 6, 3], 2, 'same')),
    of('same, strided, odd size', [f(1, 2, 3, 2), f(3, 3, 3, 2)], (x: tf.Tensor4D, w: tf.Tensor4D) => tf.conv2dTranspose(x, w, [1, 3, 5, 3], 2, 'same')),
    of('valid', [f(1, 2, 3, 2), f(2, 3, 3, 2)], (x: tf.Tensor4D, w: tf.Tensor4D) => tf.conv2dTranspose(x, w, [1, 3, 5, 3], 1, 'valid')),
    of('valid, strided', [f(2, 2, 3, 2), f(3, 3, 1, 2)], (x: tf.Tensor4D, w: tf.Tensor4D) => tf.conv2dTranspose(x, w, [2, 5, 7, 1], 2, 'valid')),
    of('one by one, strided', [f(1, 2, 3, 2), f(1, 1, 3, 2)], (x: tf.Tensor4D, w: tf.Tensor4D) => tf.conv2dTranspose(x, w, [1, 4, 6, 3], 2, 'same')),
    of('stride beyond the filter', [f(1, 2, 2, 2), f(2, 2, 3, 2)], (x: tf.Tensor4D, w: tf.Tensor4D) => tf.conv2dTranspose(x, w, [1, 5, 5, 3], 3, 'valid')),
    of('one channel to one', [f(2, 3, 4, 1), f(3, 3, 1, 1)], (x: tf.Tensor4D, w: tf.Tensor4D) => tf.conv2dTranspose(x, w, [2, 6, 8, 1], 2, 'same')),
    of('rank 3', [f(2, 3, 2), f(3, 3, 3, 2)], (x: tf.Tensor3D, w: tf.Tensor4D) => tf.conv2dTranspose(x, w, [4, 6, 3], 2, 'same')),
  ],
  conv3d: [
    ...volumes.map(([what, x, filter, strides, pad]) =>
      of(what, [f(...x), f(...size3(filter), x[4]!, 2)], (x: tf.Tensor5D, w: tf.Tensor5D) => tf.conv3d(x, w, strides, pad as 'same')),
    ),
    of('rank 4', [f(3, 3, 3, 1), f(2, 2, 2, 1, 2)], (x: tf.Tensor4D, w: tf.Tensor5D) => tf.conv3d(x, w, 1, 'same')),
    of('one channel to one', [f(1, 4, 4, 4, 1), f(3, 3, 3, 1, 1)], (x: tf.Tensor5D, w: tf.Tensor5D) => tf.conv3d(x, w, 1, 'same')),
  ],
  conv3dTranspose: [
    of('same', [f(1, 2, 2, 2, 2), f(2, 2, 2, 1, 2)], (x: tf.Tensor5D, w: tf.Tensor5D) => tf.conv3dTranspose(x, w, [1, 2, 2, 2, 1], 1, 'same')),
    of('same, strided', [f(2, 2, 2, 1, 2), f(2, 2, 2, 1, 2)], (x: tf.Tensor5D, w: tf.Tensor5D) => tf.conv3dTranspose(x, w, [2, 4, 4, 2, 1], 2, 'same')),
    of('stride beyond the filter', [f(1, 2, 2, 1, 2), f(1, 2, 1, 3, 2)], (x: tf.Tensor5D, w: tf.Tensor5D) => tf.conv3dTranspose(x, w, [1, 4, 3, 3, 3], [2, 2, 3], 'same')),
    of('one channel to one', [f(1, 2, 3, 2, 1), f(3, 3, 3, 1, 1)], (x: tf.Tensor5D, w: tf.Tensor5D) => tf.conv3dTranspose(x, w, [1, 4, 6, 4, 1], 2, 'same')),
  ],
  depthwiseConv2d: [
    ...[1, 2].flatMap(multiplier =>
      convolutions(
        filter => f(...filter, CHANNELS, multiplier),
        (x, w, { strides, pad, dilations, round }) => tf.depthwiseConv2d(x, w, strides, pad as 'same', 'NHWC', dilations, round),
      ).map(each => ({ ...each, what: `${each.what}, multiplier ${multiplier}` })),
    ),
    of('rank 3', [f(4, 5, 2), f(3, 3, 2, 1)], (x: tf.Tensor3D, w: tf.Tensor4D) => tf.depthwiseConv2d(x, w, 1, 'same')),
  ],
  separableConv2d: [
    of('same', [f(2, 4, 3, 2), f(3, 3, 2, 2), f(1, 1, 4, 3)], (x: tf.Tensor4D, d: tf.Tensor4D, p: tf.Tensor4D) => tf.separableConv2d(x, d, p, 1, 'same')),
    of('valid, strided', [f(1, 5, 5, 2), f(3, 3, 2, 1), f(1, 1, 2, 3)], (x: tf.Tensor4D, d: tf.Tensor4D, p: tf.Tensor4D) => tf.separableConv2d(x, d, p, 2, 'valid')),
    of('dilated', [f(1, 5, 5, 2), f(2, 2, 2, 1), f(1, 1, 2, 3)], (x: tf.Tensor4D, d: tf.Tensor4D, p: tf.Tensor4D) => tf.separableConv2d(x, d, p, 1, 'valid', 2)),
  ],
  dilation2d: [
    of('same', [f(2, 4, 4, 2), f(2, 2, 2)], (x: tf.Tensor4D, w: tf.Tensor3D) => tf.dilation2d(x, w, 1, 'same')),
    of('valid', [f(1, 4, 4, 2), f(2, 2, 2)], (x: tf.Tensor4D, w: tf.Tensor3D) => tf.dilation2d(x, w, 1, 'valid')),
    of('strided', [f(2, 5, 5, 1), f(2, 2, 1)], (x: tf.Tensor4D, w: tf.Tensor3D) => tf.dilation2d(x, w, 2, 'same')),
    of('dilated', [f(1, 5, 5, 1), f(2, 2, 1)], (x: tf.Tensor4D, w: tf.Tensor3D) => tf.dilation2d(x, w, 1, 'valid', 2)),
    of('of negative numbers', [negative(2, 4, 4, 2), f(2, 2, 2)], (x: tf.Tensor4D, w: tf.Tensor3D) => tf.dilation2d(x, w, 1, 'same')),
    of('rank 3', [f(4, 4, 2), f(2, 2, 2)], (x: tf.Tensor3D, w: tf.Tensor3D) => tf.dilation2d(x, w, 1, 'same')),
  ],
  maxPool: [
    ...pools((x, { filter, strides, pad, round }) => tf.maxPool(x, filter, strides, pad as 'same', round), f),
    ...pools((x, { filter, strides, pad, round }) => tf.maxPool(x, filter, strides, pad as 'same', round), negative)
      .map(each => ({ ...each, what: `${each.what}, of negative numbers` })),
    of('one by one', [negative(2, 3, 3, 2)], (x: tf.Tensor4D) => tf.maxPool(x, 1, 1, 'valid')),
    of('rank 3', [negative(4, 4, 2)], (x: tf.Tensor3D) => tf.maxPool(x, 2, 2, 'same')),
  ],
  maxPoolWithArgmax: [
    of('values', [negative(2, 4, 4, 2)], (x: tf.Tensor4D) => tf.maxPoolWithArgmax(x, 2, 2, 'same').result),
    of('indices', [negative(2, 4, 4, 2)], (x: tf.Tensor4D) => tf.maxPoolWithArgmax(x, 2, 2, 'same').indexes),
    of('indices, with the batch', [f(2, 4, 4, 2)], (x: tf.Tensor4D) => tf.maxPoolWithArgmax(x, 2, 2, 'same', true).indexes),
  ],
  avgPool: [
    ...pools((x, { filter, strides, pad, round }) => tf.avgPool(x, filter, strides, pad as 'same', round), f),
    of('one by one', [f(2, 3, 3, 2)], (x: tf.Tensor4D) => tf.avgPool(x, 1, 1, 'valid')),
    of('the whole image', [f(2, 3, 4, 2)], (x: tf.Tensor4D) => tf.avgPool(x, [3, 4], 1, 'valid')),
    of('rank 3', [f(4, 4, 2)], (x: tf.Tensor3D) => tf.avgPool(x, 2, 2, 'same')),
  ],
  maxPool3d: [
    ...volumes.map(([what, x, filter, strides, pad]) => of(what, [f(...x)], (x: tf.Tensor5D) => tf.maxPool3d(x, filter, strides, pad))),
    ...volumes.map(([what, x, filter, strides, pad]) => of(`${what}, of negative numbers`, [negative(...x)], (x: tf.Tensor5D) => tf.maxPool3d(x, filter, strides, pad))),
    of('rank 4', [negative(3, 3, 3, 1)], (x: tf.Tensor4D) => tf.maxPool3d(x, 2, 1, 'same')),
  ],
  avgPool3d: [
    ...volumes.map(([what, x, filter, strides, pad]) => of(what, [f(...x)], (x: tf.Tensor5D) => tf.avgPool3d(x, filter, strides, pad))),
    of('rank 4', [f(3, 3, 3, 1)], (x: tf.Tensor4D) => tf.avgPool3d(x, 2, 1, 'same')),
  ],
  pool: [
    ...(['avg', 'max'] as const).flatMap(kind => [
      of(kind, [negative(2, 4, 4, 2)], (x: tf.Tensor4D) => tf.pool(x, 2, kind, 'same')),
      of(`${kind}, strided`, [negative(2, 4, 4, 2)], (x: tf.Tensor4D) => tf.pool(x, 2, kind, 'valid', 1, 2)),
      of(`${kind}, dilated`, [negative(1, 5, 5, 2)], (x: tf.Tensor4D) => tf.pool(x, 2, kind, 'valid', 2)),
    ]),
  ],
  'fused.conv2d': [
    ...ACTIVATIONS.map(activation =>
      of(activation, [f(2, 4, 3, 2), f(3, 3, 2, 3), ...fusedInputs(3, activation)], (x: tf.Tensor4D, filter: tf.Tensor4D, bias: tf.Tensor1D, alpha?: tf.Tensor1D) =>
        tf.fused.conv2d({ x, filter, strides: 1, pad: 'same', bias, activation, leakyreluAlpha: 0.3, ...(alpha && { preluActivationWeights: tf.reshape(alpha, [1, 1, 3]) }) }),
      ),
    ),
    of('strided, valid, without bias', [f(1, 5, 5, 2), f(2, 2, 2, 3)], (x: tf.Tensor4D, filter: tf.Tensor4D) => tf.fused.conv2d({ x, filter, strides: 2, pad: 'valid', activation: 'relu' })),
    of('one by one', [f(2, 3, 3, 2), f(1, 1, 2, 3), f(3)], (x: tf.Tensor4D, filter: tf.Tensor4D, bias: tf.Tensor1D) => tf.fused.conv2d({ x, filter, strides: 1, pad: 'same', bias, activation: 'relu' })),
  ],
  'fused.depthwiseConv2d': [
    ...ACTIVATIONS.map(activation =>
      of(activation, [f(2, 4, 3, 2), f(3, 3, 2, 1), ...fusedInputs(2, activation)], (x: tf.Tensor4D, filter: tf.Tensor4D, bias: tf.Tensor1D, alpha?: tf.Tensor1D) =>
        tf.fused.depthwiseConv2d({ x, filter, strides: 1, pad: 'same', bias, activation, leakyreluAlpha: 0.3, ...(alpha && { preluActivationWeights: tf.reshape(alpha, [1, 1, 2]) }) }),
      ),
    ),
    of('strided, without bias', [f(1, 5, 5, 2), f(2, 2, 2, 2)], (x: tf.Tensor4D, filter: tf.Tensor4D) => tf.fused.depthwiseConv2d({ x, filter, strides: 2, pad: 'valid', activation: 'relu' })),
  ],
  'fused.matMul': [
    ...ACTIVATIONS.map(activation =>
      of(activation, [f(4, 3), f(3, 2), ...fusedInputs(2, activation)], (a: tf.Tensor2D, b: tf.Tensor2D, bias: tf.Tensor1D, alpha?: tf.Tensor1D) =>
        tf.fused.matMul({ a, b, bias, activation, leakyreluAlpha: 0.3, ...(alpha && { preluActivationWeights: alpha }) }),
      ),
    ),
    ...[[false, true], [true, false], [true, true]].map(([transposeA, transposeB]) =>
      of(`transposed: ${transposeA}, ${transposeB}`, [transposeA ? f(3, 4) : f(4, 3), transposeB ? f(2, 3) : f(3, 2), f(2)], (a: tf.Tensor2D, b: tf.Tensor2D, bias: tf.Tensor1D) =>
        tf.fused.matMul({ a, b, bias, transposeA: transposeA!, transposeB: transposeB!, activation: 'relu' }),
      ),
    ),
    of('batches', [f(2, 4, 3), f(2, 3, 2), f(2)], (a: tf.Tensor3D, b: tf.Tensor3D, bias: tf.Tensor1D) => tf.fused.matMul({ a, b, bias, activation: 'relu' })),
    of('without bias', [f(4, 3), f(3, 2)], (a: tf.Tensor2D, b: tf.Tensor2D) => tf.fused.matMul({ a, b, activation: 'relu' })),
  ],
  basicLSTMCell: [
    of('two units', [between(-1, 1)(5, 8), f(8), f(2, 3), f(2, 2), f(2, 2)], (kernel: tf.Tensor2D, bias: tf.Tensor1D, data: tf.Tensor2D, c: tf.Tensor2D, h: tf.Tensor2D) =>
      tf.basicLSTMCell(tf.scalar(1), kernel, bias, data, c, h)),
  ],
  multiRNNCell: [
    of('one cell', [f(5, 8), f(8), f(2, 3), f(2, 2), f(2, 2)], (kernel: tf.Tensor2D, bias: tf.Tensor1D, data: tf.Tensor2D, c: tf.Tensor2D, h: tf.Tensor2D) =>
      tf.multiRNNCell([(data, c, h) => tf.basicLSTMCell(tf.scalar(1), kernel, bias, data, c, h)], data, [c], [h]).flat()),
  ],
}; // prettier-ignore
