import * as tf from '@tensorflow/tfjs';
import { between, type Case, f, int, negative, of, positive } from './case';

type Reduce = (x: tf.Tensor, axis?: number | number[], keepDims?: boolean) => tf.Tensor;

/** A reduction over every kind of axes, of numbers of every sign. */
function reduction(reduce: Reduce, numbers = f): Case[] {
  const axes: [number[], number | number[] | undefined, boolean?][] = [
    [[5], undefined], [[], undefined], [[2, 3], undefined], [[2, 3], undefined, true], [[2, 3], 0], [[2, 3], 1], [[2, 3], -1], [[2, 3], -2, true],
    [[2, 3, 4], 1], [[2, 3, 4], [0, 2]], [[2, 3, 4], [-1, 0], true], [[2, 3, 4], [1, 2]], [[2, 1, 3], 1], [[2, 3], []], [[2, 2, 3, 2], [1, 2]],
    [[2, 2, 3, 2], [0, 3], true], [[1, 2, 2, 2, 2], [1, 3]], [[1, 2, 1, 2, 2, 2], [2, 5]],
  ]; // prettier-ignore
  return axes.map(([shape, axis, keepDims]) =>
    of(`[${shape}], axis ${axis === undefined ? 'none' : JSON.stringify(axis)}${keepDims ? ', keepDims' : ''}`, [numbers(...shape)], (x: tf.Tensor) =>
      reduce(x, axis, keepDims),
    ),
  ); // prettier-ignore
}

const cumulative = (cumulate: typeof tf.cumsum): Case[] =>
  [[5], [2, 3], [2, 3, 4], [1, 2, 3, 2]].flatMap(shape =>
    shape.flatMap((_, axis) =>
      [false, true].flatMap(exclusive =>
        [false, true].map(reverse =>
          of(`[${shape}], axis ${axis}${exclusive ? ', exclusive' : ''}${reverse ? ', reverse' : ''}`, [positive(...shape)], (x: tf.Tensor) =>
            cumulate(x, axis, exclusive, reverse),
          ),
        ),
      ),
    ),
  ); // prettier-ignore

const softmaxes = (softmax: typeof tf.softmax): Case[] => [
  of('[5]', [f(5)], (x: tf.Tensor) => softmax(x)),
  of('[2,3]', [f(2, 3)], (x: tf.Tensor) => softmax(x)),
  of('[2,3], axis 1', [f(2, 3)], (x: tf.Tensor) => softmax(x, 1)),
  of('[2,3,4], axis -1', [f(2, 3, 4)], (x: tf.Tensor) => softmax(x, -1)),
  of('large negative numbers', [between(-90, -80)(2, 4)], (x: tf.Tensor) => softmax(x)),
  of('large positive numbers', [between(80, 90)(2, 4)], (x: tf.Tensor) => softmax(x)),
  of('rank 4', [f(1, 2, 2, 3)], (x: tf.Tensor) => softmax(x)),
];

export const REDUCTIONS: Record<string, Case[]> = {
  all: [of('of what is computed of the input', [f(2, 3)], (x: tf.Tensor) => tf.all(tf.greaterEqual(x, 0), 1))],
  any: [of('of what is computed of the input', [f(2, 3)], (x: tf.Tensor) => tf.any(tf.greaterEqual(x, 0), 1))],
  max: [
    ...reduction(tf.max),
    of('of negative numbers', [negative(3, 4)], (x: tf.Tensor) => tf.max(x, 1)),
    of('of negative numbers, all axes', [negative(3, 4)], (x: tf.Tensor) => tf.max(x)),
  ],
  mean: reduction(tf.mean),
  min: [...reduction(tf.min), of('of positive numbers', [positive(3, 4)], (x: tf.Tensor) => tf.min(x, 0))],
  moments: [
    of('all axes', [f(2, 3)], (x: tf.Tensor) => Object.values(tf.moments(x))),
    of('axis 0', [f(2, 3)], (x: tf.Tensor) => Object.values(tf.moments(x, 0))),
    of('axes, keepDims', [f(2, 3, 2, 2)], (x: tf.Tensor) => Object.values(tf.moments(x, [1, -1], true))),
  ],
  prod: [
    ...reduction(tf.prod, positive),
    of('of numbers of both signs', [f(2, 3)], (x: tf.Tensor) => tf.prod(x, 1)),
    of('with one zero', [f(3)], (x: tf.Tensor) => tf.prod(tf.mul(x, [0, 1, 1]))),
  ],
  sum: reduction(tf.sum),
  logSumExp: reduction(tf.logSumExp),
  euclideanNorm: reduction(tf.euclideanNorm).filter(({ what }) => !what.endsWith('axis []')), // which tfjs refuses
  norm: [
    ...reduction((x, axis, keepDims) => tf.norm(x, 'euclidean', axis, keepDims)).filter(({ what }) => !/\[(?:[-\d]+,){2}[-\d]+\], axis none|axis \[\]|,.*,.*, axis \[/.test(what)),
    of('ord 1', [f(2, 3)], (x: tf.Tensor) => tf.norm(x, 1, 1)),
    of('ord infinity', [f(2, 3)], (x: tf.Tensor) => tf.norm(x, Infinity, 0)),
    of('ord fro', [f(2, 3)], (x: tf.Tensor) => tf.norm(x, 'fro', [0, 1])),
  ],
  cumsum: cumulative(tf.cumsum),
  cumprod: cumulative(tf.cumprod).slice(0, 8),
  softmax: softmaxes(tf.softmax),
  logSoftmax: softmaxes(tf.logSoftmax),
  unsortedSegmentSum: [
    of('[5], empty segments', [f(5)], (x: tf.Tensor) => tf.unsortedSegmentSum(x, int(4, 0, 4, 2, 0), 6)),
    of('[5,3], repeated', [f(5, 3)], (x: tf.Tensor) => tf.unsortedSegmentSum(x, int(1, 1, 1, 0, 1), 2)),
    of('[5,2,3]', [f(5, 2, 3)], (x: tf.Tensor) => tf.unsortedSegmentSum(x, int(4, 0, 4, 2, 0), 5)),
    of('an id out of range', [f(4, 3)], (x: tf.Tensor) => tf.unsortedSegmentSum(x, int(0, 1, -1, 1), 2)),
  ],
  bincount: [of('weighted by the input', [f(4)], (x: tf.Tensor1D) => tf.bincount(int(0, 2, 2, 1), x, 4))],
  denseBincount: [of('weighted by the input', [f(4)], (x: tf.Tensor1D) => tf.denseBincount(int(0, 2, 2, 1), x, 4))],
  batchNorm: [
    of('of channels, rank 4', [f(2, 2, 3, 4), f(4), positive(4), f(4), f(4)], (x: tf.Tensor4D, m: tf.Tensor1D, v: tf.Tensor1D, o: tf.Tensor1D, s: tf.Tensor1D) => tf.batchNorm(x, m, v, o, s)),
    of('rank 2', [f(3, 4), f(4), positive(4), f(4), f(4)], (x: tf.Tensor2D, m: tf.Tensor1D, v: tf.Tensor1D, o: tf.Tensor1D, s: tf.Tensor1D) => tf.batchNorm(x, m, v, o, s)),
    of('rank 3', [f(2, 3, 4), f(4), positive(4), f(4), f(4)], (x: tf.Tensor3D, m: tf.Tensor1D, v: tf.Tensor1D, o: tf.Tensor1D, s: tf.Tensor1D) => tf.batchNorm(x, m, v, o, s)),
    of('rank 1', [f(4), f(4), positive(4), f(4), f(4)], (x: tf.Tensor1D, m: tf.Tensor1D, v: tf.Tensor1D, o: tf.Tensor1D, s: tf.Tensor1D) => tf.batchNorm(x, m, v, o, s)),
    of('epsilon', [f(3, 4), f(4), positive(4), f(4), f(4)], (x: tf.Tensor2D, m: tf.Tensor1D, v: tf.Tensor1D, o: tf.Tensor1D, s: tf.Tensor1D) => tf.batchNorm(x, m, v, o, s, 0.1)),
    of('without scale', [f(2, 2, 3, 4), f(4), positive(4), f(4)], (x: tf.Tensor4D, m: tf.Tensor1D, v: tf.Tensor1D, o: tf.Tensor1D) => tf.batchNorm(x, m, v, o)),
    of('without offset', [f(2, 2, 3, 4), f(4), positive(4), f(4)], (x: tf.Tensor4D, m: tf.Tensor1D, v: tf.Tensor1D, s: tf.Tensor1D) => tf.batchNorm(x, m, v, undefined, s)),
    of('without both', [f(2, 2, 3, 4), f(4), positive(4)], (x: tf.Tensor4D, m: tf.Tensor1D, v: tf.Tensor1D) => tf.batchNorm(x, m, v)),
    of('full shapes', [f(2, 2, 3, 2), f(2, 2, 3, 2), positive(2, 2, 3, 2), f(2, 2, 3, 2), f(2, 2, 3, 2)], (x: tf.Tensor4D, m: tf.Tensor4D, v: tf.Tensor4D, o: tf.Tensor4D, s: tf.Tensor4D) => tf.batchNorm(x, m, v, o, s)),
    of('statistics of the batch', [f(2, 2, 3, 4), f(4), f(4)], (x: tf.Tensor4D, o: tf.Tensor1D, s: tf.Tensor1D) => {
      const { mean, variance } = tf.moments(x, [0, 1, 2]);
      return tf.batchNorm(x, mean as tf.Tensor1D, variance as tf.Tensor1D, o, s);
    }),
    of('broadcast statistics, rank 4', [f(2, 3, 2, 2), f(1, 3, 1, 1), positive(1, 3, 1, 1), f(1, 3, 1, 1), f(1, 3, 1, 1)], (x: tf.Tensor4D, m: tf.Tensor4D, v: tf.Tensor4D, o: tf.Tensor4D, s: tf.Tensor4D) => tf.batchNorm(x, m, v, o, s)),
    of('broadcast statistics, rank 2', [f(3, 4), f(3, 1), positive(3, 1), f(3, 1), f(3, 1)], (x: tf.Tensor2D, m: tf.Tensor2D, v: tf.Tensor2D, o: tf.Tensor2D, s: tf.Tensor2D) => tf.batchNorm(x, m, v, o, s)),
  ],
  batchNorm2d: [of('of channels', [f(3, 4), f(4), positive(4), f(4), f(4)], (x: tf.Tensor2D, m: tf.Tensor1D, v: tf.Tensor1D, o: tf.Tensor1D, s: tf.Tensor1D) => tf.batchNorm2d(x, m, v, o, s))],
  batchNorm3d: [of('of channels', [f(2, 3, 4), f(4), positive(4), f(4), f(4)], (x: tf.Tensor3D, m: tf.Tensor1D, v: tf.Tensor1D, o: tf.Tensor1D, s: tf.Tensor1D) => tf.batchNorm3d(x, m, v, o, s))],
  batchNorm4d: [of('of channels', [f(2, 2, 3, 4), f(4), positive(4), f(4), f(4)], (x: tf.Tensor4D, m: tf.Tensor1D, v: tf.Tensor1D, o: tf.Tensor1D, s: tf.Tensor1D) => tf.batchNorm4d(x, m, v, o, s))],
  localResponseNormalization: [
    ...[1, 2, 3].map(batch => of(`batch ${batch}`, [f(batch, 2, 3, 5)], (x: tf.Tensor4D) => tf.localResponseNormalization(x))),
    of('radius 1', [f(2, 2, 3, 5)], (x: tf.Tensor4D) => tf.localResponseNormalization(x, 1)),
    of('radius 2, bias, alpha and beta', [f(2, 2, 3, 5)], (x: tf.Tensor4D) => tf.localResponseNormalization(x, 2, 1.5, 0.4, 0.7)),
    of('rank 3', [f(2, 3, 5)], (x: tf.Tensor3D) => tf.localResponseNormalization(x, 1)),
  ],
}; // prettier-ignore
