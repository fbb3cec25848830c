import { isInt32Array } from 'node:util/types';
import { tf } from './tfjs';
import { checkOptions } from '../check-options';
import { invalidArgument } from '../errors';
import { brief } from './brief';

/** What {@link ctcLoss} may take. */
export interface CtcOptions {
  /** How many frames each example has, from 1 to `time`. Default: all of them. */
  readonly timeLengths?: readonly number[] | Int32Array | tf.Tensor1D;
  /** If the labels are a tensor: how many labels each example has, from 0 to `maxLabels`. Default: all of them. */
  readonly labelLengths?: readonly number[] | Int32Array | tf.Tensor1D;
  /** The class that stands for no label. Default 0, as in PyTorch. */
  readonly blank?: number;
}

/** An example that was passed to {@link ctcLoss}: where its frames are, and its labels. */
interface Example {
  readonly offset: number;
  readonly frames: number;
  /** The labels with blanks before, between and after them: the states that a path goes through. */
  readonly states: Int32Array;
}

/** What the forward pass over an example leaves for the backward pass. */
interface Forward {
  /** Logarithm of the softmax of each frame. */
  readonly logSoftmax: Float64Array;
  /** For each frame and state: log of the probability of all paths that are in this state in this frame. */
  readonly alpha: Float64Array;
  /** Log of the probability of the labels. */
  readonly logLikelihood: number;
}

/**
 * Computes the loss of Connectionist Temporal Classification (Graves et al., ICML 2006), for sequences whose labels are
 * known, but not their places: for each example −ln p(labels | logits), in nats, as a tensor [batch]. The probability
 * is the sum over all paths, of one class a frame, that give the labels if repeated classes are merged and blanks
 * removed.
 *
 * The forward-backward algorithm (section 4.1 of the paper) runs in log space and in float64, on the CPU, with any
 * backend. The gradient with respect to the logits is softmax − the expected share of each class (equation 16); it is
 * zero in frames after an example's end. It cannot be differentiated again.
 *
 * An example without a path, because it has fewer frames than labels plus pairs of equal neighbours, is an error: leave
 * such examples out. A logit of −infinity excludes a class. If this leaves no path, the loss is infinity, and the
 * gradient NaN.
 *
 * ```ts
 * const logits = tf.zeros([1, 2, 3]); // one example of two frames; classes: the blank and two labels
 * const [loss] = ctcLoss(logits, [[1]]).dataSync();
 * console.log(Math.exp(-loss).toFixed(4)); // 0.3333
 * ```
 *
 * @param logits [batch, time, classes], not normalized.
 * @param labels The labels of each example, as an array, or int32 [batch, maxLabels] with `labelLengths`.
 * @throws GradringError `ERR_INVALID_ARGUMENT`.
 */
export function ctcLoss(
  logits: tf.Tensor3D,
  labels: tf.Tensor2D | readonly ArrayLike<number>[],
  options: CtcOptions = {},
): tf.Tensor1D {
  checkOptions('ctcLoss', options, { timeLengths: true, labelLengths: true, blank: true });
  const shape = shapeOf('ctcLoss', logits);
  const classes = shape[2];
  const examples = examplesOf(shape, labels, options);
  const loss = tf.customGrad(x => {
    const data = (x as tf.Tensor).dataSync();
    const passes = examples.map(example => forward(data, classes, example));
    const value = tf.tensor1d(passes.map(({ logLikelihood }) => -logLikelihood), 'float32'); // prettier-ignore
    const gradFunc = (dy: tf.Tensor): tf.Tensor => {
      const gradient = new Float32Array(data.length);
      const scales = dy.dataSync();
      examples.forEach((example, i) => backward(gradient, classes, example, passes[i]!, scales[i]!));
      return tf.tensor(gradient, shape, 'float32');
    };
    return { value, gradFunc };
  });
  return loss(logits) as tf.Tensor1D;
}

/**
 * Finds the labels of the most probable class in each frame, with repeated classes merged and blanks removed: best path
 * decoding (Graves et al., section 3.2).
 *
 * ```ts
 * const frames = [1, 1, 0, 1, 2].map(label => [0, 1, 2].map(other => (other === label ? 5 : 0)));
 * console.log(ctcGreedyDecode(tf.tensor3d([frames]))); // [ [ 1, 1, 2 ] ]
 * ```
 *
 * @param logits [batch, time, classes].
 * @throws GradringError `ERR_INVALID_ARGUMENT`.
 */
export function ctcGreedyDecode(logits: tf.Tensor3D, options: Omit<CtcOptions, 'labelLengths'> = {}): number[][] {
  checkOptions('ctcGreedyDecode', options, { timeLengths: true, blank: true });
  const [batch, time, classes] = shapeOf('ctcGreedyDecode', logits);
  const blank = blankOf(options, classes);
  const frames = timeLengthsOf(options, batch, time);
  const best = tf.tidy(() => tf.argMax(logits, 2).dataSync());
  return Array.from({ length: batch }, (_, i) => {
    const path = best.subarray(i * time, i * time + frames[i]!);
    return [...path.filter((label, t) => label !== blank && label !== path[t - 1])];
  });
}

/** Section 4.1 of the paper, equations 6 to 8, in logarithms. */
function forward(logits: ArrayLike<number>, classes: number, { offset, frames, states }: Example): Forward {
  const logSoftmax = new Float64Array(frames * classes);
  for (let at = 0; at < logSoftmax.length; at += classes) {
    let most = -Infinity;
    for (let k = 0; k < classes; k++) most = Math.max(most, logits[offset + at + k]!);
    let sum = 0;
    for (let k = 0; k < classes; k++) sum += Math.exp(logits[offset + at + k]! - most);
    const logSum = most + Math.log(sum);
    for (let k = 0; k < classes; k++) logSoftmax[at + k] = logits[offset + at + k]! - logSum;
  }

  const count = states.length;
  const alpha = new Float64Array(frames * count).fill(-Infinity);
  for (let s = 0; s < Math.min(count, 2); s++) alpha[s] = logSoftmax[states[s]!]!;
  for (let t = 1; t < frames; t++) {
    const before = (t - 1) * count;
    const last = lastState(t, count);
    for (let s = firstState(t, frames, count); s <= last; s++) {
      const stay = alpha[before + s]!;
      const next = s > 0 ? alpha[before + s - 1]! : -Infinity;
      const skip = maySkipTo(states, s) ? alpha[before + s - 2]! : -Infinity;
      alpha[t * count + s] = logSumExp(stay, next, skip) + logSoftmax[t * classes + states[s]!]!;
    }
  }
  const end = alpha.length - 1;
  return {
    logSoftmax,
    alpha,
    logLikelihood: logSumExp(alpha[end]!, count > 1 ? alpha[end - 1]! : -Infinity, -Infinity),
  };
}

/** Writes the gradient of an example, times `scale`: equations 10, 11 and 16 of the paper, in logarithms. */
function backward(gradient: Float32Array, classes: number, example: Example, pass: Forward, scale: number): void {
  const { offset, frames, states } = example;
  const { logSoftmax, alpha, logLikelihood } = pass;
  const count = states.length;
  // For each state: log of the probability of all paths from it in the frame that was done last, with that frame.
  const beta = new Float64Array(count).fill(-Infinity);
  const shares = new Float64Array(classes);
  for (let t = frames - 1; t >= 0; t--) {
    shares.fill(0);
    const last = lastState(t, count);
    for (let s = firstState(t, frames, count); s <= last; s++) {
      let rest = 0; // of all paths from this state, without this frame
      if (t < frames - 1) {
        const next = s + 1 < count ? beta[s + 1]! : -Infinity;
        const skip = s + 2 < count && maySkipTo(states, s + 2) ? beta[s + 2]! : -Infinity;
        rest = logSumExp(beta[s]!, next, skip);
      }
      const label = states[s]!;
      shares[label]! += Math.exp(alpha[t * count + s]! + rest - logLikelihood);
      beta[s] = rest + logSoftmax[t * classes + label]!;
    }
    for (let k = 0; k < classes; k++) {
      const at = t * classes + k;
      gradient[offset + at] = scale * (Math.exp(logSoftmax[at]!) - shares[k]!);
    }
  }
}

// In frame t only some states can be on a path from the first frame to the last: a path goes at most two states a
// frame, begins in one of the first two, and ends in one of the last two.

function firstState(t: number, frames: number, count: number): number {
  return Math.max(0, count - 2 * (frames - t));
}

function lastState(t: number, count: number): number {
  return Math.min(count - 1, 2 * t + 1);
}

/** Whether a path may leave out the blank before a state: only between different labels. */
function maySkipTo(states: Int32Array, s: number): boolean {
  return (s & 1) === 1 && s > 1 && states[s] !== states[s - 2];
}

function logSumExp(a: number, b: number, c: number): number {
  const most = Math.max(a, b, c);
  return most === -Infinity ? most : most + Math.log(Math.exp(a - most) + Math.exp(b - most) + Math.exp(c - most));
}

function examplesOf(
  [batch, time, classes]: [number, number, number],
  labels: tf.Tensor2D | readonly ArrayLike<number>[],
  options: CtcOptions,
): Example[] {
  const blank = blankOf(options, classes);
  const frames = timeLengthsOf(options, batch, time);
  return labelRows(labels, options, batch).map((row, i) => {
    const states = new Int32Array(2 * row.length + 1).fill(blank);
    let needed = row.length;
    for (let u = 0; u < row.length; u++) {
      const label = row[u]!;
      if (!isWithin(label, 0, classes - 1) || label === blank) {
        throw invalidArgument(
          `Label ${u} of example ${i} is ${label}; labels are whole numbers from 0 to ${classes - 1}, without the blank, ${blank}.`,
        );
      }
      if (u > 0 && label === row[u - 1]) needed++;
      states[2 * u + 1] = label;
    }
    if (frames[i]! < needed) {
      throw invalidArgument(
        `Example ${i} has ${frames[i]} frames, and its ${row.length} labels need at least ${needed}: one for each label, and a blank between equal ones. Leave the example out, or shorten its time less.`,
      );
    }
    return { offset: i * time * classes, frames: frames[i]!, states };
  });
}

function labelRows(labels: tf.Tensor2D | readonly ArrayLike<number>[], { labelLengths }: CtcOptions, batch: number) {
  if (!(labels instanceof tf.Tensor)) {
    if (labelLengths !== undefined) throw invalidArgument('labelLengths is for labels that are a tensor.');
    if (Array.isArray(labels) && labels.length === batch && labels.every(hasLength)) return [...labels];
    throw invalidArgument(`labels is ${brief(labels)}; it must have an array of labels for each of ${batch} examples.`);
  }
  const [rows, most] = labels.shape;
  if (labels.rank !== 2 || labels.dtype !== 'int32' || rows !== batch) {
    throw invalidArgument(`labels is ${brief(labels)}; it must be int32 [${batch}, maxLabels].`);
  }
  const data = labels.dataSync();
  const lengths = lengthsOf('labelLengths', labelLengths, batch, 0, most);
  return Array.from(lengths, (length, i) => data.subarray(i * most, i * most + length));
}

function hasLength(row: unknown): row is ArrayLike<number> {
  return Array.isArray(row) || isInt32Array(row);
}

function shapeOf(call: string, logits: tf.Tensor3D): [number, number, number] {
  if (logits instanceof tf.Tensor && logits.rank === 3 && logits.dtype === 'float32' && logits.shape[1] > 0) {
    return logits.shape;
  }
  throw invalidArgument(`${call} takes logits of float32 [batch, time, classes], not ${brief(logits)}.`);
}

function blankOf({ blank = 0 }: CtcOptions, classes: number): number {
  if (isWithin(blank, 0, classes - 1)) return blank;
  throw invalidArgument(`blank is ${brief(blank)}; it must be a class, from 0 to ${classes - 1}.`);
}

function timeLengthsOf({ timeLengths }: CtcOptions, batch: number, time: number): ArrayLike<number> {
  return lengthsOf('timeLengths', timeLengths, batch, 1, time);
}

function lengthsOf(
  name: string,
  given: CtcOptions['timeLengths'],
  batch: number,
  least: number,
  most: number,
): ArrayLike<number> & Iterable<number> {
  if (given === undefined) return new Int32Array(batch).fill(most);
  const lengths = given instanceof tf.Tensor ? given.dataSync() : given;
  if (lengths?.length !== batch || !Array.from(lengths).every(length => isWithin(length, least, most))) {
    throw invalidArgument(
      `${name} is ${brief(given)}; it must have a whole number from ${least} to ${most} for each of ${batch} examples.`,
    );
  }
  return lengths;
}

function isWithin(value: unknown, least: number, most: number): boolean {
  return Number.isInteger(value) && (value as number) >= least && (value as number) <= most;
}
