import type * as tf from '@tensorflow/tfjs';

interface Digits {
  readonly x: tf.Tensor4D;
  readonly y: tf.Tensor2D;
}
export function loadIdx(module: typeof tf, directory: string): { train: Digits; test: Digits; source: string };
