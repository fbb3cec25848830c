import * as tf from '@tensorflow/tfjs';
import { loadShippedDigits } from '../../scripts/train/data/optdigits';
import { shuffledBatches } from '../../scripts/train/data/words';
import { lstm } from '../../scripts/train/lstm-model';
import { random } from '../support/random';

describe('the LSTM language model', () => {
  const SIZES = { words: 11, units: 4, layers: 2 };
  const COUNT = 35; // more rows than are tested together
  const LENGTH = 5;

  function text(): [tf.Tensor2D, tf.Tensor2D] {
    const next = random(7);
    const words = () => Int32Array.from({ length: COUNT * LENGTH }, () => Math.floor(next() * SIZES.words));
    const rows = () => tf.tensor2d(words(), [COUNT, LENGTH], 'int32');
    return [rows(), rows()];
  }

  const sigmoid = (value: number) => 1 / (1 + Math.exp(-value));
  const times = (row: number[], matrix: number[][]) =>
    matrix[0]!.map((_, column) => row.reduce((sum, value, i) => sum + value * matrix[i]![column]!, 0));

  /** The loss of a row by the formulas of Zaremba et al. (2014), section 3. */
  function slowLoss(variables: tf.Variable[], x: number[], next: number[]): number {
    const [embedding, outputBias, ...rest] = variables.map(variable => variable.arraySync());
    const { units } = SIZES;
    const states = Array.from({ length: SIZES.layers }, () => ({ h: Array<number>(units).fill(0), c: Array<number>(units).fill(0) })); // prettier-ignore
    let loss = 0;
    for (const [time, word] of x.entries()) {
      let below = (embedding as number[][])[word]!;
      for (const [layer, state] of states.entries()) {
        const [input, recurrent, bias] = rest.slice(3 * layer) as [number[][], number[][], number[]];
        const fromState = times(state.h, recurrent);
        const sums = times(below, input).map((value, i) => value + fromState[i]! + bias[i]!);
        const part = (gate: number, unit: number) => sums[gate * units + unit]!;
        state.c = state.c.map((c, i) => sigmoid(part(0, i)) * c + sigmoid(part(1, i)) * Math.tanh(part(3, i)));
        state.h = state.c.map((c, i) => sigmoid(part(2, i)) * Math.tanh(c));
        below = state.h;
      }
      const logits = (embedding as number[][]).map(
        (row, i) => row.reduce((sum, value, j) => sum + value * below[j]!, 0) + (outputBias as number[])[i]!,
      );
      loss += Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0)) - logits[next[time]!]!;
    }
    return loss / x.length;
  }

  test('has the loss of the formulas, in each row and in the mean, also when it has learned', () => {
    const { variables, loss, test: rowLosses } = lstm(tf, { ...SIZES, seed: 3 });
    const [x, next] = text();
    const optimizer = tf.train.sgd(2);
    for (let step = 0; step < 5; step++) optimizer.minimize(() => loss(x, next));
    const rows = next.arraySync();
    const expected = x.arraySync().map((row, i) => slowLoss(variables, row, rows[i]!));
    const found = rowLosses(x, next);
    expected.forEach((value, i) => expect(found[i]).toBeCloseTo(value, 5));
    expect(loss(x, next).dataSync()[0]).toBeCloseTo(expected.reduce((sum, value) => sum + value, 0) / COUNT, 5);
    expect(Math.max(...expected) - Math.min(...expected)).toBeGreaterThan(0.1);
    tf.dispose(variables);
  });

  /** The loss in ordinary ops, which have their own gradients. */
  function tapedLoss(variables: tf.Variable[], x: tf.Tensor2D, next: tf.Tensor2D): tf.Scalar {
    const [embedding, outputBias, ...rest] = variables;
    const { units, words } = SIZES;
    const states = Array.from({ length: SIZES.layers }, () => ({ h: tf.zeros([COUNT, units]), c: tf.zeros([COUNT, units]) })); // prettier-ignore
    const losses = Array.from({ length: LENGTH }, (_, time) => {
      const column = (rows: tf.Tensor2D) => rows.slice([0, time], [COUNT, 1]).flatten();
      let below: tf.Tensor = tf.gather(embedding!, column(x));
      for (const [layer, state] of states.entries()) {
        const [input, recurrent, bias] = rest.slice(3 * layer);
        const sums = below.matMul(input!).add(state.h.matMul(recurrent!)).add(bias!);
        const [keep, write, show, candidate] = tf.split(sums, 4, 1);
        state.c = keep!.sigmoid().mul(state.c).add(write!.sigmoid().mul(candidate!.tanh()));
        state.h = below = show!.sigmoid().mul(state.c.tanh());
      }
      const logits = below.matMul(embedding!, false, true).add(outputBias!);
      return tf.oneHot(column(next), words).mul(logits.logSoftmax()).sum(1).neg();
    });
    return tf.stack(losses).mean();
  }

  test('has the gradients of the ordinary ops', () => {
    tf.tidy(() => {
      const { variables, loss } = lstm(tf, { ...SIZES, seed: 3 });
      const [x, next] = text();
      for (const variable of variables) variable.assign(variable.mul(10)); // so that gates leave their middle
      const [found, expected] = [loss, tapedLoss.bind(null, variables)].map(of => tf.variableGrads(() => of(x, next)).grads); // prettier-ignore
      for (const { name } of variables) {
        const scale = expected![name]!.abs().max().arraySync() as number;
        expect(scale).toBeGreaterThan(1e-4);
        const difference = expected![name]!.sub(found![name]!).abs().max().arraySync() as number;
        expect(difference / scale).toBeLessThan(1e-5);
      }
      tf.dispose(variables);
    });
  });

  test('starts from weights that the seed decides, and keeps no tensors', () => {
    const before = tf.memory().numTensors;
    const [x, next] = text();
    const lossOf = (seed: number) => {
      const { variables, loss, test: rowLosses } = lstm(tf, { ...SIZES, seed });
      expect(tf.memory().numTensors - before).toBe(2 + variables.length);
      const scalar = loss(x, next);
      const [value] = scalar.dataSync();
      rowLosses(x, next);
      tf.dispose([scalar, variables]);
      return value;
    };
    expect(lossOf(1)).toBe(lossOf(1));
    expect(lossOf(1)).not.toBe(lossOf(2));
    tf.dispose([x, next]);
    expect(tf.memory().numTensors).toBe(before);
  });

  test('its batches have each row once, in an order that the seed decides', () => {
    const before = tf.memory().numTensors;
    const x = tf.tensor2d([0, 1, 2, 3, 4, 5, 6], [7, 1], 'int32');
    const next = x.add<tf.Tensor2D>(100);
    const order = (seed: string) => {
      const rows: number[][] = [];
      for (const batch of shuffledBatches(tf, [x, next], { batchSize: 2, seed })) {
        const [words, following] = batch.map(tensor => [...tensor.dataSync()]);
        expect(following).toEqual(words!.map(word => word + 100));
        rows.push(words!);
      }
      return rows.flat();
    };
    expect(new Set(order('a')).size).toBe(6);
    expect(order('a')).toEqual(order('a'));
    expect(order('a')).not.toEqual(order('b'));
    tf.dispose([x, next]);
    expect(tf.memory().numTensors).toBe(before);
  });
});

test('each of the digits is in the test set of one fold, and in the training sets of the others', () => {
  const folds = [0, 1, 2, 3, 4].map(fold => loadShippedDigits(tf, { fold }));
  expect(folds.map(({ test: { x } }) => x.shape[0])).toEqual([360, 360, 359, 359, 359]);
  for (const { train, test } of folds) expect(train.x.shape[0] + test.x.shape[0]).toBe(1797);
  const imagesOf = (x: tf.Tensor) => (x.reshape([-1, 64]).arraySync() as number[][]).map(image => image.join());
  const tested = folds.flatMap(({ test }) => imagesOf(test.x));
  expect(tested.sort()).toEqual([...imagesOf(folds[0]!.train.x), ...imagesOf(folds[0]!.test.x)].sort());
  expect(loadShippedDigits(tf).test.x.dataSync()).toEqual(folds[4]!.test.x.dataSync());
});
