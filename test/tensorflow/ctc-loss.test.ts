import * as tf from '@tensorflow/tfjs';
import { loadBackend } from '../../src/tensorflow/backend';
import { ctcGreedyDecode, ctcLoss, type CtcOptions } from '../../src/tensorflow/ctc-loss';
import { random } from '../support/random';

beforeAll(() => loadBackend({ backend: 'wasm' }));

type Rows = readonly (readonly number[])[];

/** The loss by its definition: the sum over every path there is. The logits of one example, by frame and class. */
function enumeratedLoss(logits: Rows, labels: readonly number[], blank: number): number {
  const classes = logits[0]!.length;
  const probabilities = logits.map(frame => {
    const sum = frame.reduce((total, logit) => total + Math.exp(logit), 0);
    return frame.map(logit => Math.exp(logit) / sum);
  });
  let likelihood = 0;
  for (let number = 0; number < classes ** logits.length; number++) {
    const path = logits.map((_, t) => Math.floor(number / classes ** t) % classes);
    const merged = path.filter((label, t) => label !== path[t - 1] && label !== blank);
    if (merged.join() === labels.join())
      likelihood += path.reduce((product, label, t) => product * probabilities[t]![label]!, 1);
  }
  return -Math.log(likelihood);
}

/** The gradient of {@link enumeratedLoss}, by central differences in float64. */
function differences(logits: Rows, labels: readonly number[], blank: number): number[][] {
  const STEP = 1e-5;
  return logits.map((frame, t) =>
    frame.map((_, k) => {
      const moved = (by: number) =>
        logits.map((other, i) => other.map((logit, j) => (i === t && j === k ? logit + by : logit)));
      const [up, down] = [STEP, -STEP].map(by => enumeratedLoss(moved(by), labels, blank));
      return (up! - down!) / (2 * STEP);
    }),
  );
}

/** Losses and gradients. `scales` weighs the losses of the examples in the sum that is differentiated. */
function lossesAndGradients(
  logits: readonly Rows[],
  labels: Rows,
  options: CtcOptions = {},
  scales: readonly number[] = logits.map(() => 1),
): { losses: number[]; gradients: number[][][] } {
  return tf.tidy(() => {
    const x = tf.tensor3d(logits as number[][][]);
    const losses = ctcLoss(x, labels, options).arraySync();
    const sum = (y: tf.Tensor) => ctcLoss(y as tf.Tensor3D, labels, options).mul(tf.tensor1d([...scales])).sum(); // prettier-ignore
    return { losses, gradients: tf.grad(sum)(x).arraySync() as number[][][] };
  });
}

/** Logits that float32 holds exactly. */
function randomLogits(seed: number, time: number, classes: number): number[][] {
  const next = random(seed);
  const logit = () => Math.fround((next() - 0.5) * 6);
  return Array.from({ length: time }, () => Array.from({ length: classes }, logit));
}

function expectClose(actual: readonly number[], expected: readonly number[]): void {
  expect(actual).toHaveLength(expected.length);
  const wrong = expected.findIndex(
    (value, i) => !(Math.abs(actual[i]! - value) <= 1e-5 * Math.max(1, Math.abs(value))),
  );
  expect([wrong, actual[wrong], expected[wrong]]).toEqual([-1, undefined, undefined]);
}

describe('the loss and its gradient are those of all paths', () => {
  // [time, classes, labels, blank]
  test.each<[number, number, number[], number]>([
    [1, 3, [], 0],
    [1, 3, [2], 0],
    [4, 3, [], 0],
    [5, 3, [1, 2], 0],
    [5, 3, [1, 1], 0], // a blank must be between
    [3, 3, [2, 2], 0], // the only path
    [6, 2, [1, 1, 1], 0],
    [6, 3, [1, 1, 2, 2], 0], // the only path
    [6, 3, [1, 2, 1], 0],
    [5, 4, [0, 3, 0], 2],
    [5, 4, [2, 2, 0], 3], // the last class as blank, as in Keras
    [7, 3, [2, 1, 1], 0],
  ])('%d frames, %d classes, labels %j, blank %d', (time, classes, labels, blank) => {
    for (const seed of [1, 2, 3]) {
      const logits = randomLogits(seed, time, classes);
      const { losses, gradients } = lossesAndGradients([logits], [labels], { blank });
      expectClose(losses, [enumeratedLoss(logits, labels, blank)]);
      expectClose(gradients[0]!.flat(), differences(logits, labels, blank).flat());
    }
  });

  test('in a batch of examples with other lengths, each with its weight; padding has no influence', () => {
    const labels = [[1, 1], [], [2, 1, 2]];
    const timeLengths = [5, 2, 4];
    const scales = [1, -2, 0.5];
    for (const padding of [0, 1e30, NaN]) {
      const logits = timeLengths.map((length, i) =>
        randomLogits(10 + i, 5, 3).map((frame, t) => (t < length ? frame : frame.map(() => padding))),
      );
      const { losses, gradients } = lossesAndGradients(logits, labels, { timeLengths }, scales);
      labels.forEach((row, i) => {
        const frames = logits[i]!.slice(0, timeLengths[i]);
        const gradient = differences(frames, row, 0).map(frame => frame.map(value => value * scales[i]!));
        const zeros = logits[i]!.slice(timeLengths[i]).map(() => [0, 0, 0]);
        expectClose([losses[i]!], [enumeratedLoss(frames, row, 0)]);
        expectClose(gradients[i]!.flat(), [...gradient, ...zeros].flat());
      });
    }
  });
});

test('labels and lengths may be tensors, with any padding', () => {
  tf.tidy(() => {
    const logits = tf.tensor3d([randomLogits(1, 5, 3), randomLogits(2, 5, 3)]);
    const labels = tf.tensor2d([[1, 2, 1], [2, -1, 99]], [2, 3], 'int32'); // prettier-ignore
    const lengths = { labelLengths: tf.tensor1d([3, 1], 'int32'), timeLengths: tf.tensor1d([5, 4], 'int32') };
    const expected = ctcLoss(logits, [[1, 2, 1], [2]], { timeLengths: [5, 4] }).arraySync();
    expect(ctcLoss(logits, labels, lengths).arraySync()).toEqual(expected);
    expect(ctcLoss(logits, labels, { ...lengths, labelLengths: Int32Array.of(3, 1) }).arraySync()).toEqual(expected);
  });
});

test('two thousand frames do not underflow: uniform classes give the number of paths, and the gradient is exact', () => {
  // Of 2000 frames: T + 1 choose 2 runs of the label, divided by all paths.
  const T = 2000;
  const frames = Array.from({ length: T }, () => [0, 0]);
  const { losses, gradients } = lossesAndGradients([frames], [[1]]);
  expectClose(losses, [T * Math.log(2) - Math.log((T * (T + 1)) / 2)]);
  // Of the runs, those that hold frame t: as many as it has beginnings before and ends after it.
  expectClose(
    gradients[0]!.map(([, label]) => label!),
    frames.map((_, t) => 0.5 - ((t + 1) * (T - t)) / ((T * (T + 1)) / 2)),
  );

  const labels = Array.from({ length: 400 }, (_, i) => 1 + (Math.floor(i / 2) % 9));
  const long = lossesAndGradients([randomLogits(4, T, 10)], [labels]);
  expect(long.losses[0]).toBeGreaterThan(1000); // e⁻¹⁰⁰⁰ is 0 in float64
  expectClose(
    long.gradients[0]!.map(frame => frame.reduce((sum, value) => sum + value, 0)),
    frames.map(() => 0),
  );
  expect(Math.max(...long.gradients[0]!.flat().map(Math.abs))).toBeGreaterThan(0.5);
});

test('sharp logits give a loss of 0, and a gradient of 0', () => {
  const path = [1, 0, 1, 2, 2].map(label => [0, 1, 2].map(k => (k === label ? 1e4 : -1e4)));
  const { losses, gradients } = lossesAndGradients([path], [[1, 1, 2]]);
  expect(losses[0]).toBeCloseTo(0, 6);
  expectClose(gradients[0]!.flat(), path.flat().map(() => 0)); // prettier-ignore
});

test('a class with logit −infinity is excluded; if no path is left, the loss is infinity', () => {
  const without = [[0, -Infinity, 0], [0, 0, 0]]; // prettier-ignore
  const { losses, gradients } = lossesAndGradients([without], [[1]]);
  expectClose(losses, [-Math.log(1 / 6)]); // blank, then the label
  expectClose(gradients[0]!.flat(), [-1 / 2, 0, 1 / 2, 1 / 3, -2 / 3, 1 / 3]);
  expect(lossesAndGradients([without.slice(0, 1)], [[1]]).losses).toEqual([Infinity]);
});

test('NaN is not hidden', () => {
  const { losses, gradients } = lossesAndGradients([[[0, 0, 0], [0, 0, NaN]]], [[1]]); // prettier-ignore
  expect(losses).toEqual([NaN]);
  expect(gradients[0]!.flat()).toContainEqual(NaN);
});

test('a training finds the labels', () => {
  tf.tidy(() => {
    const logits = tf.variable(tf.zeros([2, 8, 4]) as tf.Tensor3D);
    const labels = [[1, 1, 3], [2]]; // prettier-ignore
    const optimizer = tf.train.sgd(1);
    for (let step = 0; step < 60; step++) optimizer.minimize(() => ctcLoss(logits, labels).sum());
    expect(ctcGreedyDecode(logits)).toEqual(labels);
    logits.dispose();
  });
});

test('leaves no tensors behind', () => {
  const logits = tf.tensor3d([randomLogits(1, 4, 3)]);
  const before = tf.memory().numTensors;
  ctcLoss(logits, [[1]]).dispose();
  tf.grad((x: tf.Tensor) => ctcLoss(x as tf.Tensor3D, [[1]]).sum())(logits).dispose();
  ctcGreedyDecode(logits);
  expect(tf.memory().numTensors).toBe(before);
  logits.dispose();
});

test('greedy decoding merges repeated classes, removes blanks, and ends where the example ends', () => {
  const frames = (path: number[]) => path.map(best => [0, 1, 2].map(k => (k === best ? 1 : 0)));
  const logits = tf.tensor3d([frames([0, 1, 1, 0, 1, 2]), frames([2, 2, 2, 2, 0, 1]), frames([0, 0, 0, 0, 0, 0])]);
  expect(ctcGreedyDecode(logits)).toEqual([[1, 1, 2], [2, 1], []]);
  expect(ctcGreedyDecode(logits, { timeLengths: [1, 5, 6] })).toEqual([[], [2], []]);
  expect(ctcGreedyDecode(logits, { blank: 1 })).toEqual([[0, 0, 2], [2, 0], [0]]);
});

describe('wrong arguments are refused', () => {
  let logits: tf.Tensor3D;
  beforeAll(() => void (logits = tf.zeros([2, 3, 4])));
  afterAll(() => logits.dispose());
  const int32 = (rows: number[][]) => tf.tensor2d(rows, [rows.length, rows[0]!.length], 'int32');
  test.each<[string, () => unknown, RegExp]>([
    [
      'logits of another rank',
      () => ctcLoss(tf.zeros([3, 4] as never), [[1]]),
      /float32 \[batch, time, classes\], not Tensor float32\[3, 4\]/,
    ],
    ['no frames', () => ctcLoss(tf.zeros([1, 0, 4]), [[]]), /not Tensor float32\[1, 0, 4\]/],
    ['an array as logits', () => ctcLoss([[[1]]] as never, [[1]]), /not \[\[\[1\]\]\]/],
    [
      'labels of one example for two',
      () => ctcLoss(logits, [[1]]),
      /labels is \[\[1\]\]; it must have an array of labels for each of 2/,
    ],
    ['labels that are one array', () => ctcLoss(logits, [1, 2] as never), /labels is \[1, 2\]/],
    ['labels of float32', () => ctcLoss(logits, tf.zeros([2, 1]) as tf.Tensor2D), /int32 \[2, maxLabels\]/],
    [
      'a label that is no class',
      () => ctcLoss(logits, [[1], [2, 4]]),
      /Label 1 of example 1 is 4; labels are whole numbers from 0 to 3/,
    ],
    ['a label that is no whole number', () => ctcLoss(logits, [[1.5], []]), /Label 0 of example 0 is 1.5/],
    ['a label that is the blank', () => ctcLoss(logits, int32([[1, 1], [3, 1]]), { blank: 3 }), /Label 0 of example 1 is 3; .* without the blank, 3/], // prettier-ignore
    [
      'more labels than frames',
      () => ctcLoss(logits, [[1], [1, 2, 3, 1]]),
      /Example 1 has 3 frames, and its 4 labels need at least 4/,
    ],
    [
      'no room for the blank between equal labels',
      () => ctcLoss(logits, [[1], [2, 2]], { timeLengths: [3, 2] }),
      /Example 1 has 2 frames, and its 2 labels need at least 3/,
    ],
    [
      'a blank that is no class',
      () => ctcLoss(logits, [[], []], { blank: 4 }),
      /blank is 4; it must be a class, from 0 to 3/,
    ],
    ['a blank from the end', () => ctcGreedyDecode(logits, { blank: -1 }), /blank is -1/],
    [
      'a time of more than there is',
      () => ctcLoss(logits, [[], []], { timeLengths: [3, 4] }),
      /timeLengths is \[3, 4\]; it must have a whole number from 1 to 3 for each of 2/,
    ],
    ['a time of nothing', () => ctcGreedyDecode(logits, { timeLengths: [0, 3] }), /timeLengths is \[0, 3\]/],
    ['times of one example', () => ctcLoss(logits, [[], []], { timeLengths: [3] }), /timeLengths is \[3\]/],
    [
      'more labels than the tensor has',
      () => ctcLoss(logits, int32([[1], [2]]), { labelLengths: [1, 2] }),
      /labelLengths is \[1, 2\]; it must have a whole number from 0 to 1/,
    ],
    [
      'lengths of labels that have their own',
      () => ctcLoss(logits, [[1], []], { labelLengths: [1, 0] }),
      /labelLengths is for labels that are a tensor/,
    ],
    [
      'a misspelt option',
      () => ctcLoss(logits, [[], []], { timeLength: [3, 3] } as never),
      /no option 'timeLength'. Did you mean timeLengths/,
    ],
  ])('%s', (_, call, words) => {
    expect(() => tf.tidy(() => void call())).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(words) })); // prettier-ignore
  });
});
