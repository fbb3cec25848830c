import { tf } from '../tfjs';
import { correctBatchNormGradient, correctBroadcastGradient } from './broadcast';
import { castGradient, constantGradients } from './constant';
import { einsumGradient } from './einsum';
import { gatherGradient } from './gather';
import { setGradient } from './gradient';
import {
  correctPartGradients,
  correctProdGradient,
  correctTileGradient,
  cumsumGradient,
  mirrorPadGradient,
} from './shapes';
import { correctSoftmaxCrossEntropy } from './softmax-cross-entropy';

let isRegistered = false;

/** Corrects gradients of TensorFlow.js 4.22, for every backend, and adds some. Calling it again does nothing. */
export function registerGradients(): void {
  if (isRegistered) return;
  isRegistered = true;
  [tf.BatchMatMul, tf.Maximum, tf.Minimum, tf.SquaredDifference].forEach(correctBroadcastGradient);
  constantGradients.forEach(setGradient);
  setGradient(castGradient);
  setGradient(cumsumGradient);
  setGradient(einsumGradient);
  setGradient(gatherGradient);
  setGradient(mirrorPadGradient);
  correctBatchNormGradient();
  correctPartGradients();
  correctProdGradient();
  correctSoftmaxCrossEntropy();
  correctTileGradient();
}
