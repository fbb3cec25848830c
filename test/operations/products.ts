import * as tf from '@tensorflow/tfjs';
import { between, type Case, f, of, positive } from './case';

const sizes: Record<string, number> = { a: 2, b: 3, c: 2, d: 3, e: 2, i: 2, j: 3, k: 2 };

const batches: [number[], number[]][] = [[[], []], [[1], [1]], [[2], [2]], [[1], [2]], [[2], [1]], [[2, 3], [2, 3]], [[2, 1], [1, 3]], [[2, 1], [2, 3]], [[], [2]], [[2], []]]; // prettier-ignore

export const PRODUCTS: Record<string, Case[]> = {
  matMul: batches.flatMap(([batchA, batchB]) =>
    [[false, false], [true, false], [false, true], [true, true]].map(([tA, tB]) =>
      of(`batches [${batchA}] and [${batchB}]${tA ? ', transposeA' : ''}${tB ? ', transposeB' : ''}`,
        [f(...batchA, ...(tA ? [3, 2] : [2, 3])), f(...batchB, ...(tB ? [4, 3] : [3, 4]))],
        (a: tf.Tensor, b: tf.Tensor) => tf.matMul(a, b, tA, tB),
      ),
    ),
  ),
  dot: [
    of('vectors', [f(3), f(3)], (a: tf.Tensor, b: tf.Tensor) => tf.dot(a, b)),
    of('matrix and vector', [f(2, 3), f(3)], (a: tf.Tensor, b: tf.Tensor) => tf.dot(a, b)),
    of('matrices', [f(2, 3), f(3, 2)], (a: tf.Tensor, b: tf.Tensor) => tf.dot(a, b)),
  ],
  outerProduct: [of('[2] and [3]', [f(2), f(3)], (a: tf.Tensor1D, b: tf.Tensor1D) => tf.outerProduct(a, b))],
  einsum: [
    'ij,jk->ik', 'ab,bc->ca', 'abc,acd->abd', 'abc,cde->abde', 'aecd,abcd->acbe', 'i,i->', 'bi,bi->b', 'i,j->ij', 'ij->ji', 'ij->i', 'ij->', 'ij,kj->k', 'ijk,k->i', 'ij->ij',
  ].map(equation =>
    of(equation, equation.split('->')[0]!.split(',').map(labels => f(...[...labels].map(label => sizes[label]!))),
      (...all: tf.Tensor[]) => tf.einsum(equation, ...all),
    ),
  ),
  'linalg.bandPart': [
    of('lower', [f(3, 4)], (x: tf.Tensor2D) => tf.linalg.bandPart(x, -1, 0)),
    of('diagonals', [f(2, 3, 3)], (x: tf.Tensor3D) => tf.linalg.bandPart(x, 1, 1)),
  ],
  'linalg.gramSchmidt': [of('of a matrix', [f(2, 3)], (x: tf.Tensor2D) => tf.linalg.gramSchmidt(x) as tf.Tensor2D)],
  'linalg.qr': [
    of('square', [f(3, 3)], (x: tf.Tensor) => tf.linalg.qr(x)),
    of('tall', [f(3, 2)], (x: tf.Tensor) => tf.linalg.qr(x)),
  ],
  'spectral.fft': [
    of('absolute values', [f(2, 4), f(2, 4)], (a: tf.Tensor, b: tf.Tensor) => tf.abs(tf.spectral.fft(tf.complex(a, b)))),
    of('real part', [f(2, 4), f(2, 4)], (a: tf.Tensor, b: tf.Tensor) => tf.real(tf.spectral.fft(tf.complex(a, b)))),
  ],
  'spectral.ifft': [of('real part', [f(2, 4), f(2, 4)], (a: tf.Tensor, b: tf.Tensor) => tf.real(tf.spectral.ifft(tf.complex(a, b))))],
  'spectral.rfft': [of('real part', [f(2, 6)], (x: tf.Tensor) => tf.real(tf.spectral.rfft(x)))],
  'spectral.irfft': [of('of four', [f(1, 4), f(1, 4)], (a: tf.Tensor, b: tf.Tensor) => tf.spectral.irfft(tf.complex(a, b)))],
  'signal.frame': [
    of('overlapping', [f(7)], (x: tf.Tensor1D) => tf.signal.frame(x, 3, 2)),
    of('to the end', [f(7)], (x: tf.Tensor1D) => tf.signal.frame(x, 3, 2, true, 0.5)),
  ],
  'signal.stft': [of('absolute values', [f(8)], (x: tf.Tensor1D) => tf.abs(tf.signal.stft(x, 4, 2)))],
  'signal.hammingWindow': [of('times the input', [f(6)], (x: tf.Tensor1D) => tf.mul(x, tf.signal.hammingWindow(6)))],
  'signal.hannWindow': [of('times the input', [f(6)], (x: tf.Tensor1D) => tf.mul(x, tf.signal.hannWindow(6)))],
  'sparse.sparseSegmentMean': [of('of rows', [f(3, 2)], (x: tf.Tensor2D) => tf.sparse.sparseSegmentMean(x, tf.tensor1d([0, 1, 2], 'int32'), tf.tensor1d([0, 1, 1], 'int32')))],
  'sparse.sparseSegmentSum': [of('of rows', [f(3, 2)], (x: tf.Tensor2D) => tf.sparse.sparseSegmentSum(x, tf.tensor1d([0, 1, 2], 'int32'), tf.tensor1d([0, 1, 1], 'int32')))],

  'losses.absoluteDifference': losses(tf.losses.absoluteDifference, f, between(-1.1, 1.2)),
  'losses.computeWeightedLoss': [
    of('plain', [f(2, 3)], (x: tf.Tensor) => tf.losses.computeWeightedLoss(x)),
    of('weighted', [f(2, 3), positive(3)], (x: tf.Tensor, w: tf.Tensor) => tf.losses.computeWeightedLoss(x, w)),
    of('weighted, mean', [f(2, 3), positive(2, 3)], (x: tf.Tensor, w: tf.Tensor) => tf.losses.computeWeightedLoss(x, w, tf.Reduction.MEAN)),
  ],
  'losses.cosineDistance': [of('axis 1', [f(2, 3), f(2, 3)], (a: tf.Tensor, b: tf.Tensor) => tf.losses.cosineDistance(a, b, 1))],
  'losses.hingeLoss': losses(tf.losses.hingeLoss, between(0, 1)),
  'losses.huberLoss': losses(tf.losses.huberLoss, between(-2, 2)),
  'losses.logLoss': losses(tf.losses.logLoss, between(0.1, 0.9)),
  'losses.meanSquaredError': losses(tf.losses.meanSquaredError),
  'losses.sigmoidCrossEntropy': losses(tf.losses.sigmoidCrossEntropy, between(0, 1), f),
  'losses.softmaxCrossEntropy': [
    of('labels of one class', [f(3, 4)], (x: tf.Tensor) => tf.losses.softmaxCrossEntropy(tf.oneHot(tf.tensor1d([0, 3, 1], 'int32'), 4), x)),
    of('labels that are trained', [f(3, 4), f(3, 4)], (l: tf.Tensor, x: tf.Tensor) => tf.losses.softmaxCrossEntropy(tf.softmax(l), x)),
    of('weighted and smoothed', [f(3, 4), positive(3)], (x: tf.Tensor, w: tf.Tensor) => tf.losses.softmaxCrossEntropy(tf.oneHot(tf.tensor1d([0, 3, 1], 'int32'), 4), x, w, 0.2)),
  ],
}; // prettier-ignore

function losses(
  loss: (labels: tf.Tensor, predictions: tf.Tensor) => tf.Tensor,
  labels = f,
  predictions = labels,
): Case[] {
  return [of('[6]', [labels(6), predictions(6)], loss), of('[2,3]', [labels(2, 3), predictions(2, 3)], loss)];
}
