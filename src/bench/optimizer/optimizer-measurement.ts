import { dgc } from '../../compression/dgc-options';
import { tf } from '../../tensorflow/tfjs';
import { GradientSource } from '../gradient-source';
import { elementCountOf, type TensorShape } from '../models/tensor-shape';
import { percentile, rounded } from '../statistics';
import { type StepParts, TimedRing } from './timed-ring';

/** What is measured. */
export interface OptimizerCase {
  readonly tensors: readonly TensorShape[];
  /** The fraction of each tensor that a step sends. */
  readonly density: number;
  /** How many steps of each optimizer are timed. */
  readonly steps: number;
}

/** Medians over the steps, in ms. */
export interface OptimizerTimes {
  /** `tf.train.momentum` by itself. */
  readonly plainMs: number;
  /** The same optimizer wrapped, in a ring of one. */
  readonly wrappedMs: number;
  /** wrapped ÷ plain. */
  readonly ratio: number;
  /** Medians of the parts of the wrapped step. Their sum is less than the whole, which also has bookkeeping. */
  readonly split: StepParts;
}

const LEARNING_RATE = 1e-3;
const MOMENTUM = 0.9;
const WARM_UP_STEPS = 3;

/**
 * Times both optimizers by turns on the same variables, with gradients that the backend has just computed, as in a
 * training.
 */
export async function measureOptimizer({ tensors, density, steps }: OptimizerCase): Promise<OptimizerTimes> {
  const largest = Math.max(...tensors.map(elementCountOf));
  const source = new GradientSource('normal', largest, 1);
  const patterns = tensors.map(tensor => patternOf(tensor, source));
  const variables = tensors.map(({ name, shape }) => tf.variable(tf.zeros([...shape]), true, name));
  const ring = await TimedRing.connect({ rank: 0, worldSize: 1 });
  const plain = tf.train.momentum(LEARNING_RATE, MOMENTUM);
  const compression = dgc({ sparsity: 1 - density, warmUpEpochs: 0 });
  const wrapped = ring.wrap(tf.train.momentum(LEARNING_RATE, MOMENTUM), { compression });

  const time = (optimizer: tf.Optimizer, step: number): number => {
    const gradients = gradientsOf(variables, patterns, step);
    awaitDevice(gradients.at(-1)!.tensor);
    const begin = performance.now();
    optimizer.applyGradients(gradients);
    awaitDevice(variables.at(-1)!);
    const took = performance.now() - begin;
    tf.dispose(gradients.map(({ tensor }) => tensor));
    return took;
  };
  const plainTimes: number[] = [];
  const wrappedTimes: number[] = [];
  const parts: StepParts[] = [];
  for (let step = -WARM_UP_STEPS; step < steps; step++) {
    const plainTook = time(plain, step);
    const wrappedTook = time(wrapped, step);
    if (step < 0) continue;
    plainTimes.push(plainTook);
    wrappedTimes.push(wrappedTook);
    parts.push(ring.stepParts);
  }
  plain.dispose();
  wrapped.dispose();
  tf.dispose([...variables, ...patterns]);
  await ring.close();

  const median = (times: readonly number[]): number => percentile(times, 50);
  const part = (name: keyof StepParts): number => rounded(median(parts.map(times => times[name])), 6);
  return {
    plainMs: rounded(median(plainTimes), 6),
    wrappedMs: rounded(median(wrappedTimes), 6),
    ratio: rounded(median(wrappedTimes) / median(plainTimes), 3),
    split: {
      copyOut: part('copyOut'),
      compress: part('compress'),
      exchange: part('exchange'),
      copyIn: part('copyIn'),
    },
  };
}

function patternOf(tensor: TensorShape, source: GradientSource): tf.Tensor {
  const values = new Float32Array(elementCountOf(tensor));
  source.write(values, source.next());
  return tf.tensor(values, [...tensor.shape]);
}

/** Gradients with another scale and sign in each step and tensor. */
function gradientsOf(variables: readonly tf.Variable[], patterns: readonly tf.Tensor[], step: number) {
  return variables.map(({ name }, i) => ({
    name,
    tensor: tf.tidy(() => tf.mul(patterns[i]!, Math.sin(step * variables.length + i + 1))),
  }));
}

/** A GPU works while the thread goes on. Reading one element waits until the GPU has finished all earlier work. */
function awaitDevice(tensor: tf.Tensor): void {
  tf.tidy(() => tf.slice(tf.reshape(tensor, [tensor.size]), 0, 1).dataSync());
}
