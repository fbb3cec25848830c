import type * as tf from '@tensorflow/tfjs';

export interface Corpus {
  readonly vocabulary: string[];
  readonly train: Int32Array;
  readonly test: Int32Array;
  readonly source: string;
}
export function loadCompilerSource(vocabularySize: number): Corpus;
export function loadPennTreebank(directory: string, vocabularySize: number): Corpus;
export function rowsOf(
  module: typeof tf,
  text: Int32Array,
  options: { length: number; rows: number },
): [tf.Tensor2D, tf.Tensor3D];
