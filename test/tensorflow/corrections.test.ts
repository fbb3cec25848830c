import * as tf from '@tensorflow/tfjs';
import { loadBackend } from '../../src/tensorflow/backend';
import { quietCpuBackend } from '../../src/tensorflow/cpu-backend';

// What backends of tfjs 4.22 compute wrongly, against numbers that were worked out by hand, or against a longhand. The
// comparison in test/operations has the cases; here the results do not come from a backend's own kernel.

beforeAll(async () => {
  await loadBackend({ backend: 'wasm' });
  quietCpuBackend();
});

const numbers = (tensor: tf.Tensor) => Array.from(tensor.dataSync(), value => Math.round(value * 1e4) / 1e4);
const count = (shape: number[], from = 0) =>
  tf.reshape(tf.range(from, from + tf.util.sizeFromShape(shape)), shape); // prettier-ignore
const wave = (shape: number[]) => tf.sin(tf.mul(count(shape), 0.7));

function expectClose(actual: tf.Tensor, expected: tf.Tensor): void {
  expect(actual.shape).toEqual(expected.shape);
  expect(tf.max(tf.abs(tf.sub(actual, expected))).dataSync()[0]).toBeLessThan(1e-5);
}

describe.each(['wasm', 'cpu'])('%s', backend => {
  beforeAll(() => tf.setBackend(backend));
  beforeEach(() => tf.engine().startScope());
  afterEach(() => tf.engine().endScope());

  describe('gather with batchDims', () => {
    const indices = () => tf.tensor2d([[0, 1], [1, 0], [2, 2]], undefined, 'int32'); // prettier-ignore
    const gather = (x: tf.Tensor) => tf.gather(x, indices(), 1, 1);

    test('takes the elements of each batch, and its gradient gives back to them', () => {
      const x = count([3, 4]);
      expect(numbers(gather(x))).toEqual([0, 1, 5, 4, 10, 10]);
      const gradient = tf.grad(t => tf.sum(tf.square(gather(t))))(x);
      expect(numbers(gradient)).toEqual([0, 2, 0, 0, 8, 10, 0, 0, 0, 0, 40, 0]);
    });

    test('along a later axis, and of two batch dimensions', () => {
      const x = count([2, 2, 3]);
      expect(numbers(tf.gather(x, tf.tensor2d([[2], [0]], undefined, 'int32'), 2, 1))).toEqual([2, 5, 6, 9]);
      const each = tf.tensor3d([[[2], [0]], [[1], [1]]], undefined, 'int32'); // prettier-ignore
      const gradient = tf.grad(t => tf.sum(tf.gather(t, each, 2, 2)))(x);
      expect(numbers(gradient)).toEqual([0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0]);
    });

    test('refuses an index beyond its own batch', () => {
      const beyond = tf.tensor2d([[0], [4], [0]], undefined, 'int32');
      expect(() => tf.gather(count([3, 4]), beyond, 1, 1)).toThrow(/index value 4 is not in \[0, 3\]/);
    });
  });

  describe('the gradient of resizeNearestNeighbor', () => {
    test.each([[1, 6, 6, 1], [1, 6, 6, 4], [2, 6, 6, 1], [2, 3, 3, 1], [1, 3, 3, 2], [3, 2, 5, 4]])(
      'of [%d, %d, %d, %d] to the double: the sum of four',
      (batch, height, width, channels) => {
        const weights = wave([batch, 2 * height, 2 * width, channels]);
        const size: [number, number] = [2 * height, 2 * width];
        const resize = (x: tf.Tensor) => tf.image.resizeNearestNeighbor(x as tf.Tensor4D, size);
        const gradient = tf.grad(x => tf.sum(tf.mul(resize(x), weights)))(wave([batch, height, width, channels]));
        expectClose(gradient, tf.sum(tf.reshape(weights, [batch, height, 2, width, 2, channels]), [2, 4]));
      },
    ); // prettier-ignore

    // Each result is one of the pixels, so the gradient has to add to the pixels that it was taken from.
    test.each([[false, false], [true, false], [false, true]])('from and to many sizes: %p, %p', (align, half) => {
      for (let from = 1; from <= 7; from++) {
        for (let to = 1; to <= 9; to++) {
          const resize = (x: tf.Tensor) => tf.image.resizeNearestNeighbor(x as tf.Tensor4D, [to, from], align, half);
          const dy = count([1, to, from, 1], 1);
          const gradient = numbers(tf.grad(x => tf.sum(tf.mul(resize(x), dy)))(wave([1, from, from, 1])));
          const expected = new Array<number>(from * from).fill(0);
          numbers(resize(count([1, from, from, 1]))).forEach((pixel, i) => (expected[pixel]! += i + 1));
          expect({ from, to, gradient }).toEqual({ from, to, gradient: expected });
        }
      }
    }); // prettier-ignore
  });

  test('the gradient of resizeBilinear to another number of rows than of columns', () => {
    const resize = (x: tf.Tensor) => tf.image.resizeBilinear(x as tf.Tensor4D, [2, 6]);
    const gradient = tf.grad(x => tf.sum(resize(x)))(wave([1, 2, 3, 1]));
    expect(numbers(gradient)).toEqual([1.5, 2, 2.5, 1.5, 2, 2.5]);
  });

  test('the gradient of a padded average pooling: a window at the border has fewer pixels', () => {
    const pool = (x: tf.Tensor) => tf.avgPool(x as tf.Tensor4D, 2, 2, 'same');
    const gradient = tf.grad(x => tf.sum(pool(x)))(wave([1, 3, 3, 1]));
    expect(numbers(gradient)).toEqual([0.25, 0.25, 0.5, 0.25, 0.25, 0.5, 0.5, 0.5, 1]);
  });

  test('the gradient of maxPool3d with unequal windows goes to the largest pixel', () => {
    const pool = (x: tf.Tensor) => tf.maxPool3d(x as tf.Tensor5D, [1, 2, 3], [1, 2, 3], 'valid');
    const x = tf.reshape(tf.tensor1d([-9, -8, -7, -6, -1, -5]), [1, 1, 2, 3, 1]);
    expect(numbers(tf.grad(x => tf.sum(pool(x)))(x))).toEqual([0, 0, 0, 0, 1, 0]);
  });

  test('matMul with batches that are broadcast on both sides', () => {
    const [a, b] = [wave([2, 1, 2, 3]), wave([3, 3, 2])];
    const longhand = (a: tf.Tensor, b: tf.Tensor) =>
      tf.sum(tf.mul(tf.expandDims(a, -1), tf.expandDims(b, -3)), -2);
    expectClose(tf.matMul(a, b), longhand(a, b));
    const weights = tf.cos(count([2, 3, 2, 2]));
    const gradients = (product: typeof longhand) =>
      tf.grads((a, b) => tf.sum(tf.mul(product(a!, b!), weights)))([a, b]);
    gradients(longhand).forEach((gradient, i) => expectClose(gradients((a, b) => tf.matMul(a, b))[i]!, gradient));
  }); // prettier-ignore

  test('batch normalization of another axis than the last', () => {
    const x = wave([2, 3, 2, 2]) as tf.Tensor4D;
    const statistics = [-0.2, 0.5, 0.3, 1.5].map(shift => tf.add(tf.mul(wave([1, 3, 1, 1]), 0.1), shift)) as tf.Tensor4D[]; // prettier-ignore
    const [mean, offset, variance, scale] = statistics as [tf.Tensor4D, tf.Tensor4D, tf.Tensor4D, tf.Tensor4D];
    const expected = tf.add(tf.mul(tf.div(tf.sub(x, mean), tf.sqrt(tf.add(variance, 0.001))), scale), offset);
    expectClose(tf.batchNorm(x, mean, variance, offset, scale), expected);
    const unscaled = tf.div(tf.sub(x, mean), tf.sqrt(tf.add(variance, 0.001)));
    expectClose(tf.batchNorm(x, mean, variance), unscaled);
  });

  test('batch normalization without scale and offset leaves no tensor behind', () => {
    const [x, mean, variance] = [wave([2, 3]), wave([3]), tf.ones([3])] as [tf.Tensor2D, tf.Tensor1D, tf.Tensor1D];
    const before = tf.memory();
    tf.batchNorm(x, mean, variance).dispose();
    expect(tf.memory()).toEqual(before);
  });

  test('prelu with one slope a row', () => {
    const x = tf.tensor2d([[-1, 2], [-3, -4]]); // prettier-ignore
    expect(numbers(tf.prelu(x, tf.tensor2d([[0.5], [0.25]])))).toEqual([-0.5, 2, -0.75, -1]);
  });

  test('a cast to bool', () => {
    expect(numbers(tf.cast(tf.tensor1d([-1, 0, 0.5, 256]), 'bool'))).toEqual([1, 0, 1, 1]);
  });

  test('a fused product of a transposed matrix, or of a batch, adds the bias to its own column', () => {
    const [a, b, bias] = [tf.ones([2, 3]), tf.ones([3, 2]), tf.tensor1d([10, 20])] as [tf.Tensor2D, tf.Tensor2D, tf.Tensor1D]; // prettier-ignore
    const expected = [13, 23, 13, 23];
    expect(numbers(tf.fused.matMul({ a, b: tf.transpose(b), transposeB: true, bias }))).toEqual(expected);
    expect(numbers(tf.fused.matMul({ a: tf.stack([a, a]) as never, b: tf.stack([b, b]) as never, bias }))).toEqual([...expected, ...expected]); // prettier-ignore
    const relu = { transposeA: true, bias: tf.neg(bias), activation: 'relu' } as const;
    expect(numbers(tf.fused.matMul({ a: tf.transpose(a), b, ...relu }))).toEqual([0, 0, 0, 0]);
  });

  test('einsum that sums over a label of one tensor alone', () => {
    const [a, b] = [count([2, 3]), count([2, 3], 1)];
    expect(numbers(tf.einsum('ij,kj->k', a, b))).toEqual([34, 79]);
    expect(tf.einsum('ij->ij', a).dataId).not.toBe(a.dataId);
  });

  test('transform of a batch, and reflected before the first pixel', () => {
    const moveLeft = tf.tensor2d([[1, 0, 1, 0, 1, 0, 0, 0]]);
    expect(numbers(tf.image.transform(count([2, 1, 3, 1]) as tf.Tensor4D, moveLeft))).toEqual([1, 2, 0, 4, 5, 0]);
    const moveRight = tf.tensor2d([[1, 0, -2, 0, 1, 0, 0, 0]]);
    const reflected = tf.image.transform(count([1, 1, 4, 1]) as tf.Tensor4D, moveRight, 'nearest', 'reflect');
    expect(numbers(reflected)).toEqual([1, 0, 0, 1]);
  });

  test('the positions of the maxima of negative numbers', () => {
    const x = tf.reshape(tf.tensor1d([-4, -3, -2, -1]), [1, 1, 4, 1]) as tf.Tensor4D;
    const { result, indexes } = tf.maxPoolWithArgmax(x, [1, 2], [1, 2], 'valid');
    expect([numbers(result), numbers(indexes)]).toEqual([[-3, -1], [1, 3]]); // prettier-ignore
  });

  test('a last window beyond the padding, by dimRoundingMode', () => {
    const [x, filter] = [wave([1, 4, 4, 2]) as tf.Tensor4D, wave([3, 3, 2, 1]) as tf.Tensor4D];
    const explicit: tf.backend_util.ExplicitPadding = [[0, 0], [1, 2], [1, 2], [0, 0]]; // prettier-ignore
    const rounded = (x: tf.Tensor) => tf.conv2d(x as tf.Tensor4D, filter, 2, 1, 'NHWC', 1, 'ceil');
    const padded = (x: tf.Tensor) => tf.conv2d(x as tf.Tensor4D, filter, 2, explicit);
    expectClose(rounded(x), padded(x));
    expectClose(tf.grad(x => tf.sum(rounded(x)))(x), tf.grad(x => tf.sum(padded(x)))(x));
    expect(numbers(tf.maxPool(count([1, 1, 4, 1]) as tf.Tensor4D, 3, 2, 1, 'ceil'))).toEqual([1, 3, 3]);
  });

  test('the gradient of mirrored padding adds the mirrored', () => {
    const dy = count([6], 1);
    const gradient = (mode: 'reflect' | 'symmetric') =>
      numbers(tf.grad(x => tf.sum(tf.mul(tf.mirrorPad(x, [[2, 1]], mode), dy)))(wave([3])));
    expect(gradient('reflect')).toEqual([3, 2 + 4 + 6, 1 + 5]);
    expect(gradient('symmetric')).toEqual([2 + 3, 1 + 4, 5 + 6]);
  });
});
