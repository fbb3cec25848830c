import * as tf from '@tensorflow/tfjs';

/** An input of a case, float32: each element is another number from `low` to `high`, the same on every backend. */
export interface Input {
  readonly shape: readonly number[];
  readonly low: number;
  readonly high: number;
}

/** One call of an operation, which is compared between backends: its results, and the gradients of all its inputs. */
export interface Case {
  /** What is particular: attributes, shapes. */
  readonly what: string;
  readonly inputs: readonly Input[];
  compute(...inputs: never[]): tf.Tensor | tf.Tensor[];
}

export function of(
  what: string,
  inputs: readonly Input[],
  compute: (...inputs: never[]) => tf.Tensor | tf.Tensor[],
): Case {
  return { what, inputs, compute };
}

/** An input of numbers from −1 to 1. */
export const f = (...shape: number[]): Input => ({ shape, low: -1, high: 1 });

/** An input of numbers between two. */
export const between =
  (low: number, high: number) =>
  (...shape: number[]): Input => ({ shape, low, high });

export const negative = between(-2, -1);
export const positive = between(0.5, 2);

export const int = (...values: number[]): tf.Tensor1D => tf.tensor1d(values, 'int32');
export const int2 = (values: number[][]): tf.Tensor2D => tf.tensor2d(values, undefined, 'int32');
export const bool = (...values: number[]): tf.Tensor1D => tf.tensor1d(values, 'bool');
