/** A program: runs all cases on the backend that its argument names, and sends what came of them to its parent. */
import * as tf from '@tensorflow/tfjs';
import { type BackendName, loadBackend } from '../../src/tensorflow/backend';
import type { ComposedKernel, KernelBackend } from '../../src/tensorflow/kernels/kernel';
import { KERNELS } from '../../src/tensorflow/kernels/register-kernels';
import type { Case, Input } from './case';
import { OPERATIONS } from './operations';

export interface Values {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly numbers: readonly number[];
}

/** What a backend made of a case. */
export interface Outcome {
  /** The results; in words, if there was an error. */
  readonly values: readonly Values[] | string;
  /** The gradients of all inputs. */
  readonly gradients: readonly Values[] | string;
  /** The kernels and gradients of gradring that took part. */
  readonly own: readonly string[];
}

export interface Run {
  /** By operation, by what is particular of the case. */
  readonly outcomes: Readonly<Record<string, Readonly<Record<string, Outcome>>>>;
  /** The kernels that have a gradient and run on this backend, but whose gradient no case has computed. */
  readonly untried: readonly string[];
  readonly versions: Readonly<Record<string, string>>;
}

/** With 64 bits (doubles.ts) there are the true values, and differences of them give the true gradients. */
const isReference = new Float32Array([0.1])[0] === 0.1;
const STEP = 1e-5;

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

const kernelNames = Object.values(tf as unknown as Record<string, unknown>).filter(
  (value): value is string => typeof value === 'string',
);

/** What has run since it was cleared. */
const own = new Set<string>();
const withGradient = new Set<string>();

async function main(name: BackendName): Promise<void> {
  const stock = new Map(kernelNames.map(kernel => [kernel, tf.getGradient(kernel)?.gradFunc]));
  await loadBackend({ backend: name });
  watch(tf.getBackend() as KernelBackend, kernel => tf.getGradient(kernel).gradFunc !== stock.get(kernel));
  const outcomes: Record<string, Record<string, Outcome>> = {};
  for (const [operation, cases] of Object.entries(OPERATIONS)) {
    const byCase: Record<string, Outcome> = (outcomes[operation] = {});
    for (const each of cases) {
      if (each.what in byCase) throw new Error(`${operation} has two cases '${each.what}'.`);
      own.clear();
      byCase[each.what] = { ...runCase(each), own: [...own].sort() };
    }
  }
  const run: Run = { outcomes, untried: untried(), versions: versions() };
  process.send!(run);
}

/**
 * Notes which of gradring's kernels and gradients do something (a kernel may also leave it all to the one that it
 * replaces), and which gradients run at all.
 */
function watch(backend: KernelBackend, isOwnGradient: (kernel: string) => boolean): void {
  const { missing, replaced } = KERNELS[backend];
  for (const kernel of [...missing, ...replaced] as Mutable<ComposedKernel<tf.NamedAttrMap>>[]) {
    const { name, prepare, compute } = kernel;
    kernel.prepare = (inputs, attributes) => {
      const before = { ...inputs, ...attributes };
      prepare?.(inputs, attributes);
      const after = Object.entries({ ...inputs, ...attributes });
      if (after.some(([key, value]) => before[key] !== value)) own.add(name);
    };
    kernel.compute = (inputs, attributes, stock) => {
      let isStock = false;
      const result = compute(inputs, attributes, changes => {
        isStock = changes === undefined;
        return stock(changes);
      });
      if (!isStock) own.add(name);
      return result;
    };
  }
  for (const name of kernelNames) {
    const config = tf.getGradient(name);
    if (config === undefined) continue;
    const { gradFunc } = config;
    const isOwn = isOwnGradient(name);
    config.gradFunc = (...args) => {
      withGradient.add(name);
      if (isOwn) own.add(`the gradient of ${name}`);
      return gradFunc(...args);
    };
  }
}

function untried(): string[] {
  const isThere = (name: string) => tf.getGradient(name) && tf.getKernel(name, tf.getBackend());
  return kernelNames.filter(name => isThere(name) && !withGradient.has(name));
}

function versions(): Record<string, string> {
  const { binding } = tf.backend() as { binding?: { TF_Version: string } };
  return { 'TensorFlow.js': tf.version.tfjs, ...(binding && { TensorFlow: binding.TF_Version }) };
}

function runCase(each: Case): Omit<Outcome, 'own'> {
  const inputs = attempt(() => each.inputs);
  if (typeof inputs === 'string') return { values: inputs, gradients: inputs };
  const numbers = inputs.map(numbersOf);
  const tensors = () => inputs.map(({ shape }, i) => tf.tensor(numbers[i]!, [...shape], 'float32'));
  const compute = (given: tf.Tensor[]) => [each.compute(...(given as never[]))].flat();
  const values = attempt(() => inScope(() => compute(tensors()).map(valuesOf)));
  if (!isReference) {
    const differentiate = tf.grads((...given: tf.Tensor[]) => weigh(compute(given)));
    return { values, gradients: attempt(() => inScope(() => differentiate(tensors()).map(valuesOf))) };
  }
  const result = () => inScope(() => weigh(compute(tensors())).dataSync()[0]!);
  const slopes = (numbers: number[]) =>
    numbers.map((number, i) => {
      numbers[i] = number + STEP;
      const above = result();
      numbers[i] = number - STEP;
      const below = result();
      numbers[i] = number;
      return (above - below) / (2 * STEP);
    });
  const gradients = () => inputs.map(({ shape }, i) => ({ dtype: 'float32', shape, numbers: slopes(numbers[i]!) }));
  return { values, gradients: attempt(gradients) };
}

/** What a function returns, or, in words, why it fails. */
function attempt<T>(compute: () => T): T | string {
  try {
    return compute();
  } catch (error) {
    return (error as Error).message;
  }
}

/** Frees the tensors that a function makes. */
function inScope<T>(compute: () => T): T {
  tf.engine().startScope();
  try {
    return compute();
  } finally {
    tf.engine().endScope();
  }
}

function valuesOf(tensor: tf.Tensor): Values {
  return { dtype: tensor.dtype, shape: tensor.shape, numbers: Array.from(tensor.dataSync()) };
}

/** A sum over all results, in which each element has a weight of its own. */
function weigh(results: readonly tf.Tensor[]): tf.Scalar {
  const sums = results.map((result, i) => {
    const weights = Array.from({ length: result.size }, (_, j) => Math.fround(Math.cos(i + 1.3 * j + 0.2)));
    const numbers = result.dtype === 'float32' ? result : tf.cast(result, 'float32');
    return tf.sum(tf.mul(numbers, tf.tensor(weights, result.shape, 'float32')));
  });
  return sums.reduce((a, b) => tf.add(a, b)) as tf.Scalar;
}

/** Numbers that all backends get, so they have 32 bits. (Mulberry32, by Tommy Ettinger.) */
function numbersOf({ shape, low, high }: Input, seed: number): number[] {
  let state = (seed + 1) * 0x9e3779b9;
  return Array.from({ length: tf.util.sizeFromShape([...shape]) }, () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return Math.fround(low + (high - low) * (((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32));
  });
}

void main(process.argv[2] as BackendName);
