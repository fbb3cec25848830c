import * as tf from '@tensorflow/tfjs';
import { loadBackend } from '../../src/tensorflow/backend';
import { quietCpuBackend } from '../../src/tensorflow/cpu-backend';
import { registerKernels } from '../../src/tensorflow/kernels/register-kernels';

let seed = 0;

type Compute = () => tf.Tensor | tf.Tensor[];
type Padding = 'same' | 'valid' | tf.backend_util.ExplicitPadding;

interface Result {
  readonly shape: number[];
  readonly values: number[];
}

beforeAll(async () => {
  await loadBackend({ backend: 'wasm' });
  quietCpuBackend();
});

async function computeOn(backend: 'wasm' | 'cpu', compute: Compute): Promise<Result[]> {
  await tf.setBackend(backend);
  seed = 0;
  return tf.tidy(() => [compute()].flat().map(t => ({ shape: t.shape, values: Array.from(t.dataSync()) })));
}

/** Fails unless both have the same shapes and, up to rounding, the same numbers. */
function expectClose(actual: Result[], expected: Result[], tolerance = 1e-4): void {
  expect(actual.map(({ shape }) => shape)).toEqual(expected.map(({ shape }) => shape));
  expected.forEach(({ values }, i) => {
    const scale = values.reduce((most, value) => Math.max(most, Math.abs(value)), 1);
    const errors = values.map((value, j) => Math.abs(actual[i]!.values[j]! - value) / scale);
    // Negated, so that NaN fails as well.
    expect(errors.findIndex(error => !(error <= tolerance))).toBe(-1);
  });
}

async function expectSameAsCpu(compute: Compute): Promise<void> {
  expectClose(await computeOn('wasm', compute), await computeOn('cpu', compute));
}

/** Random numbers from −1 to 1, given by their place in the computation: the same on each backend. */
function random(...shape: number[]): tf.Tensor {
  return tf.randomUniform(shape, -1, 1, 'float32', ++seed);
}

/** The result of `f` and the gradients of a sum over it, in which each element has its own weight. */
function withGradients(f: (...inputs: tf.Tensor[]) => tf.Tensor, makeInputs: () => tf.Tensor[]): Compute {
  return () => {
    const inputs = makeInputs();
    const weigh = (y: tf.Tensor) => tf.sum(tf.mul(y, tf.reshape(tf.cos(tf.range(0, y.size)), y.shape)));
    return [f(...inputs), ...tf.grads((...xs: tf.Tensor[]) => weigh(f(...xs)))(inputs)];
  };
}

interface Convolution {
  readonly name: string;
  readonly x: [number, number, number, number];
  readonly filter: [number, number];
  readonly strides: [number, number];
  readonly pad: Padding;
}

const convolutions: Convolution[] = [
  { name: 'same', x: [2, 7, 9, 3], filter: [3, 3], strides: [1, 1], pad: 'same' },
  { name: 'valid', x: [2, 7, 9, 3], filter: [3, 3], strides: [1, 1], pad: 'valid' },
  { name: 'same, strided, odd size', x: [2, 7, 9, 3], filter: [3, 3], strides: [2, 2], pad: 'same' },
  { name: 'same, strided, even size', x: [2, 8, 6, 3], filter: [3, 3], strides: [2, 2], pad: 'same' },
  { name: 'valid, strided, with pixels left over', x: [2, 8, 10, 3], filter: [3, 3], strides: [2, 2], pad: 'valid' },
  { name: 'stride beyond the filter', x: [2, 9, 9, 3], filter: [2, 2], strides: [3, 3], pad: 'valid' },
  { name: 'unequal sides, batch 1, one channel', x: [1, 8, 8, 1], filter: [2, 3], strides: [2, 1], pad: 'same' },
  { name: 'filter as large as the image', x: [2, 5, 5, 3], filter: [5, 5], strides: [1, 1], pad: 'valid' },
  { name: 'one by one', x: [2, 5, 6, 3], filter: [1, 1], strides: [1, 1], pad: 'same' },
  { name: 'one by one, strided', x: [2, 9, 8, 3], filter: [1, 1], strides: [2, 3], pad: 'valid' },
  { name: 'explicit', x: [2, 8, 8, 3], filter: [3, 3], strides: [1, 1], pad: [[0, 0], [1, 2], [0, 3], [0, 0]] },
  { name: 'explicit, one by one', x: [2, 8, 8, 3], filter: [1, 1], strides: [1, 1], pad: [[0, 0], [1, 2], [0, 3], [0, 0]] },
  { name: 'explicit beyond the filter', x: [2, 8, 8, 3], filter: [2, 2], strides: [2, 2], pad: [[0, 0], [3, 1], [4, 0], [0, 0]] },
]; // prettier-ignore

describe.each(convolutions)('a convolution: $name', ({ x, filter, strides, pad }) => {
  test('conv2d', () =>
    expectSameAsCpu(
      withGradients(
        (x, w) => tf.conv2d(x as tf.Tensor4D, w as tf.Tensor4D, strides, pad),
        () => [random(...x), random(...filter, x[3], 4)],
      ),
    ));

  test.each([1, 2])('depthwiseConv2d with a multiplier of %d', multiplier =>
    expectSameAsCpu(
      withGradients(
        (x, w) => tf.depthwiseConv2d(x as tf.Tensor4D, w as tf.Tensor4D, strides, pad),
        () => [random(...x), random(...filter, x[3], multiplier)],
      ),
    ),
  );

  // tf.maxPool takes no pixel from padding alone, and neither backend has a defined maximum there.
  const pooling = typeof pad === 'string' ? test : undefined;
  pooling?.('maxPool, of negative numbers too', () =>
    expectSameAsCpu(
      withGradients(
        x => tf.maxPool(x as tf.Tensor4D, filter, strides, pad as 'same' | 'valid'),
        () => [tf.sub(random(...x), 0.7)],
      ),
    ),
  );
});

describe('convolutions of other kinds', () => {
  test('a fixed padding with rounding', () =>
    expectSameAsCpu(() => [
      tf
        .engine()
        .runKernel(
          'Conv2DBackpropFilter',
          { x: random(2, 10, 10, 3), dy: random(2, 3, 3, 4) },
          { strides: [4, 4], pad: 1, dataFormat: 'NHWC', dimRoundingMode: 'floor', filterShape: [3, 3, 3, 4] },
        ) as tf.Tensor,
    ]));

  test.each(['same', 'valid'] as const)('conv2dTranspose, strided, %s', pad => {
    const size = (n: number) => (pad === 'same' ? n * 2 : (n - 1) * 2 + 3);
    return expectSameAsCpu(
      withGradients(
        (x, w) => tf.conv2dTranspose(x as tf.Tensor4D, w as tf.Tensor4D, [2, size(5), size(6), 4], 2, pad),
        () => [random(2, 5, 6, 3), random(3, 3, 4, 3)],
      ),
    );
  });

  test('conv1d', () =>
    expectSameAsCpu(
      withGradients(
        (x, w) => tf.conv1d(x as tf.Tensor3D, w as tf.Tensor3D, 2, 'same'),
        () => [random(2, 9, 3), random(3, 3, 4)],
      ),
    ));

  test('separableConv2d', () =>
    expectSameAsCpu(
      withGradients(
        (x, d, p) => tf.separableConv2d(x as tf.Tensor4D, d as tf.Tensor4D, p as tf.Tensor4D, 1, 'same'),
        () => [random(2, 6, 5, 3), random(3, 3, 3, 2), random(1, 1, 6, 4)],
      ),
    ));

  test('conv3d, strided', () =>
    expectSameAsCpu(
      withGradients(
        (x, w) => tf.conv3d(x as tf.Tensor5D, w as tf.Tensor5D, 2, 'valid'),
        () => [random(2, 5, 4, 6, 3), random(2, 2, 2, 3, 4)],
      ),
    ));

  test('maxPool3d of negative numbers', () =>
    expectSameAsCpu(
      withGradients(
        x => tf.maxPool3d(x as tf.Tensor5D, 2, 2, 'same'),
        () => [tf.sub(random(2, 5, 4, 6, 3), 1)],
      ),
    ));

  test('dilation2d of negative numbers', () =>
    expectSameAsCpu(
      withGradients(
        (x, w) => tf.dilation2d(x as tf.Tensor4D, w as tf.Tensor3D, 1, 'same'),
        () => [tf.sub(random(2, 5, 5, 3), 2), random(2, 2, 3)],
      ),
    ));

  test('channels first is refused by name', async () => {
    await tf.setBackend('wasm');
    const inputs = { x: tf.zeros([1, 1, 4, 4]), dy: tf.zeros([1, 1, 4, 4]) };
    const attributes = { strides: [1, 1], pad: 'same', dataFormat: 'NCHW', filterShape: [3, 3, 1, 1] };
    expect(() => tf.engine().runKernel('Conv2DBackpropFilter', inputs, attributes as tf.NamedAttrMap)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringContaining('NHWC') }),
    );
  });

  // tfjs refuses gradients of dilated convolutions, and its CPU kernels ignore the dilation: so the definition of a
  // gradient is the reference, ⟨gradient, v⟩ = ⟨dy, the convolution along v⟩.
  test('a dilated depthwise convolution', async () => {
    await tf.setBackend('wasm');
    tf.tidy(() => {
      const [x, filter] = [random(2, 9, 8, 3) as tf.Tensor4D, random(3, 2, 3, 2) as tf.Tensor4D];
      const convolve = (x: tf.Tensor4D, w: tf.Tensor4D) => tf.depthwiseConv2d(x, w, 1, 'same', 'NHWC', [2, 3]);
      const dy = random(...convolve(x, filter).shape);
      const attributes = { strides: [1, 1], pad: 'same', dilations: [2, 3] };
      const kernel = (name: string, inputs: tf.NamedTensorMap, shape: object) =>
        tf.engine().runKernel(name, inputs, { ...attributes, ...shape }) as tf.Tensor;
      const dw = kernel('DepthwiseConv2dNativeBackpropFilter', { x, dy }, { filterShape: filter.shape });
      const dx = kernel('DepthwiseConv2dNativeBackpropInput', { dy, filter }, { inputShape: x.shape });
      const inner = (a: tf.Tensor, b: tf.Tensor) => tf.sum(tf.mul(a, b)).dataSync()[0]!;
      for (let i = 0; i < 5; i++) {
        const [v, u] = [random(...filter.shape) as tf.Tensor4D, random(...x.shape) as tf.Tensor4D];
        expect(inner(dw, v)).toBeCloseTo(inner(dy, convolve(x, v)), 3);
        expect(inner(dx, u)).toBeCloseTo(inner(dy, convolve(u, filter)), 3);
      }
    });
  });
});

describe('matMul', () => {
  const batches: [number[], number[]][] = [[[], []], [[1], [1]], [[1, 1], [1, 1]], [[3], [3]], [[2, 3], [2, 3]]]; // prettier-ignore
  describe.each(batches)('of batches %j and %j', (batchA, batchB) => {
    test.each([[false, false], [true, false], [false, true], [true, true]])('transposed: %p, %p', (tA, tB) =>
      expectSameAsCpu(
        withGradients(
          (a, b) => tf.matMul(a, b, tA, tB),
          () => [random(...batchA, ...(tA ? [5, 4] : [4, 5])), random(...batchB, ...(tB ? [6, 5] : [5, 6]))],
        ),
      )); // prettier-ignore
  });

  test('with the larger factor transposed, whichever it is', async () => {
    await expectSameAsCpu(() => tf.matMul(random(2, 50), random(60, 50), false, true));
    await expectSameAsCpu(() => tf.matMul(random(60, 50), random(2, 50), false, true));
  });
});

describe('unsortedSegmentSum', () => {
  const ids = (...values: number[]) => tf.tensor1d(values, 'int32');

  test.each([[[5]], [[5, 3]], [[5, 2, 3]]])('of %j, with empty segments', shape =>
    expectSameAsCpu(
      withGradients(
        x => tf.unsortedSegmentSum(x, ids(4, 0, 4, 2, 0), 6),
        () => [random(...shape)],
      ),
    ),
  );

  test.each([[[4, -1, 1, 9, 1]], [[0, -1, 1, 3, 1]], [[0, 2, 4, 3, 1]]])(
    'leaves out those of %j out of range',
    values => expectSameAsCpu(() => tf.unsortedSegmentSum(random(5, 3), ids(...values), 4)),
  );

  test('of integers gives floats', async () => {
    await expectSameAsCpu(() => tf.unsortedSegmentSum(tf.tensor1d([1, 2, 3], 'int32'), ids(1, 1, 0), 2));
    await tf.setBackend('wasm');
    expect(tf.unsortedSegmentSum(tf.tensor1d([1, 2, 3], 'int32'), ids(1, 1, 0), 2).dtype).toBe('float32');
  });

  test.each([0, 1, 2])('as the gradient of gather along axis %d', axis =>
    expectSameAsCpu(
      withGradients(
        x => tf.gather(x, tf.tensor2d([0, 3, 3, 1], [2, 2], 'int32'), axis),
        () => [random(4, 5, 6)],
      ),
    ),
  );
});

describe('einsum', () => {
  const sizes: Record<string, number> = { a: 2, b: 3, c: 4, d: 5, e: 3, i: 3, j: 4, k: 5 };
  const inputsOf = (equation: string) =>
    equation.split('->')[0]!.split(',').map(labels => random(...[...labels].map(label => sizes[label]!))); // prettier-ignore

  test.each([
    'ij,jk->ik', 'abc,acd->abd', 'abc,cde->abde', 'aecd,abcd->acbe', 'acbe,aecd->abcd',
    'i,i->', 'bi,bi->b', 'i,j->ij', 'ij->ji', 'ij->i', 'ij->', 'bij->bji', 'i,j->ji',
  ])('%s', equation => expectSameAsCpu(withGradients((...xs) => tf.einsum(equation, ...xs), () => inputsOf(equation)))); // prettier-ignore

  // The CPU backend fails at sums over a label of one tensor alone, and hands out the input itself as its copy.
  const longhands: [string, (...inputs: tf.Tensor[]) => tf.Tensor][] = [
    ['ij,kj->k', (a, b) => tf.sum(tf.mul(tf.sum(a!, 0), b!), 1)],
    ['ijk,k->i', (a, b) => tf.sum(tf.mul(tf.sum(a!, 1), b!), 1)],
    ['ij->ij', a => tf.clone(a!)],
  ];
  test.each(longhands)('%s', async (equation, longhand) => {
    const makeInputs = () => inputsOf(equation);
    const actual = await computeOn('wasm', withGradients((...inputs) => tf.einsum(equation, ...inputs), makeInputs)); // prettier-ignore
    expectClose(actual, await computeOn('cpu', withGradients(longhand, makeInputs)));
  });

  test('of integers', async () => {
    await tf.setBackend('wasm');
    const product = tf.einsum('ij,j->i', tf.tensor2d([1, 2, 3, 4], [2, 2], 'int32'), tf.tensor1d([5, 6], 'int32'));
    expect(product.dtype).toBe('int32');
    expect(Array.from(product.dataSync())).toEqual([17, 39]);
  });

  test('of sizes that do not fit is an error', async () => {
    await tf.setBackend('wasm');
    expect(() => tf.einsum('ij,jk->ik', tf.zeros([2, 3]), tf.zeros([4, 2]))).toThrow(/Expected dimension/);
  });
});

describe('the other gradients of ordinary layers', () => {
  const elementwise = {
    elu: tf.elu, selu: tf.selu, relu: tf.relu, relu6: tf.relu6, tanh: tf.tanh, sigmoid: tf.sigmoid, softplus: tf.softplus,
    softmax: tf.softmax, logSoftmax: tf.logSoftmax, leakyRelu: tf.leakyRelu, exp: tf.exp, square: tf.square, abs: tf.abs,
    gelu: (x: tf.Tensor) => tf.mul(tf.mul(x, 0.5), tf.add(tf.erf(tf.div(x, Math.SQRT2)), 1)),
    swish: (x: tf.Tensor) => tf.mul(x, tf.sigmoid(x)),
    'layer norm': (x: tf.Tensor) => {
      const { mean, variance } = tf.moments(x, -1, true);
      return tf.mul(tf.sub(x, mean), tf.rsqrt(tf.add(variance, 1e-5)));
    },
    dropout: (x: tf.Tensor) => tf.dropout(x, 0.5, undefined, 3),
    concat: (x: tf.Tensor) => tf.concat([x, tf.square(x)], 1),
    'slice, split, stack': (x: tf.Tensor) => tf.stack(tf.split(tf.slice(x, [0, 1], [3, 2]), 2, 1)),
    pad: (x: tf.Tensor) => tf.pad(x, [[1, 2], [0, 3]]),
    tile: (x: tf.Tensor) => tf.tile(x, [2, 3]),
    'max, min, mean': (x: tf.Tensor) => tf.add(tf.add(tf.max(x, 1), tf.min(x, 1)), tf.mean(x, 1)),
  }; // prettier-ignore

  test.each<[string, (x: tf.Tensor) => tf.Tensor]>(Object.entries(elementwise))('%s', (_, f) =>
    expectSameAsCpu(withGradients(f, () => [random(3, 4)])),
  );

  test('batchNorm', () =>
    expectSameAsCpu(
      withGradients(
        (x, offset, scale) => {
          const { mean, variance } = tf.moments(x!, [0, 1, 2]);
          return tf.batchNorm(x!, mean as tf.Tensor1D, variance as tf.Tensor1D, offset as tf.Tensor1D, scale as tf.Tensor1D);
        },
        () => [random(2, 4, 5, 3), random(3), random(3)],
      ),
    )); // prettier-ignore

  test('avgPool', () =>
    expectSameAsCpu(withGradients(x => tf.avgPool(x as tf.Tensor4D, 3, 2, 'same'), () => [random(2, 7, 8, 3)]))); // prettier-ignore

  test('softmax cross entropy', () =>
    expectSameAsCpu(
      withGradients(
        logits => tf.losses.softmaxCrossEntropy(tf.oneHot(tf.tensor1d([0, 3, 1], 'int32'), 4), logits),
        () => [random(3, 4)],
      ),
    ));
});

test('a kernel leaves nothing behind but its result', async () => {
  await tf.setBackend('wasm');
  const same = { strides: [2, 2], pad: 'same', dataFormat: 'NHWC', dilations: [1, 1] };
  const [x, w, dy] = [random(2, 7, 7, 3), random(3, 3, 3, 4), random(2, 4, 4, 4)];
  const [depthwise, dyDepthwise] = [random(3, 3, 3, 2), random(2, 4, 4, 6)];
  const [a, b] = [random(4, 5), random(6, 5)];
  const [row, column, bias] = [random(5), random(4, 1), random(6)];
  const ids = tf.tensor2d([[0], [4], [2], [2]], undefined, 'int32');
  const mirrored = tf.tensor2d([[1, 0, -2, 0, 1, 0, 0, 0]]);
  const kernel = (name: string, inputs: tf.NamedTensorMap, attributes: object) => () =>
    tf.engine().runKernel(name, inputs, { ...same, ...attributes }) as tf.Tensor;
  const kernels = [
    kernel('Conv2DBackpropFilter', { x, dy }, { filterShape: w.shape }),
    kernel('Conv2DBackpropInput', { dy, filter: w }, { inputShape: x.shape }),
    kernel('DepthwiseConv2dNativeBackpropFilter', { x, dy: dyDepthwise }, { filterShape: depthwise.shape }),
    kernel('DepthwiseConv2dNativeBackpropInput', { dy: dyDepthwise, filter: depthwise }, { inputShape: x.shape }),
    kernel('MaxPoolGrad', { dy: x, input: x, output: x }, { filterSize: 1, strides: 1 }),
    kernel('MaxPool3D', { x: random(1, 4, 4, 4, 2) }, { filterSize: 2, strides: 2, dilations: 1, dataFormat: 'NDHWC' }),
    () => tf.matMul(a, b, false, true),
    () => tf.einsum('ij,kj->ik', a, b),
    () => tf.einsum('ij->ij', a),
    kernel('AvgPoolGrad', { dy, input: random(2, 7, 7, 4) }, { filterSize: 3 }),
    kernel('ResizeNearestNeighborGrad', { images: x, dy: x }, { alignCorners: false, halfPixelCenters: true }),
    () => tf.gather(a, ids, 1, 1),
    () => tf.prelu(a, column),
    () => tf.cast(a, 'bool'),
    () => tf.fused.matMul({ a: a as tf.Tensor2D, b: b as tf.Tensor2D, transposeB: true, bias }),
    () => tf.image.transform(x as tf.Tensor4D, mirrored, 'nearest', 'reflect'),
    () => tf.batchNorm(a as tf.Tensor2D, row as tf.Tensor1D, row as tf.Tensor1D),
    () => {
      const { result, indexes } = tf.maxPoolWithArgmax(x as tf.Tensor4D, 2, 2, 'same');
      indexes.dispose();
      return result;
    },
    kernel('UnsortedSegmentSum', { x: a, segmentIds: tf.tensor1d([0, -1, 1, 7], 'int32') }, { numSegments: 2 }),
  ];
  const backend = tf.backend() as tf.KernelBackend & { numDataIds(): number };
  const count = () => [tf.memory().numTensors, tf.memory().numDataBuffers, backend.numDataIds(), quietCpuBackend().numDataIds()]; // prettier-ignore
  for (const run of kernels) {
    const before = count();
    run().dispose();
    expect(count()).toEqual(before);
  }
});

test('gradients keep no memory', async () => {
  await tf.setBackend('wasm');
  const backend = tf.backend() as unknown as { numDataIds(): number; wasm: { HEAPU8: Uint8Array } };
  const conv = (strides: number) => (x: tf.Tensor, w: tf.Tensor) =>
    tf.conv2d(x as tf.Tensor4D, w as tf.Tensor4D, strides, 'same');
  const steps: Compute[] = [
    withGradients(conv(1), () => [random(2, 8, 8, 3), random(3, 3, 3, 4)]),
    withGradients(conv(2), () => [random(2, 8, 8, 3), random(3, 3, 3, 4)]),
    withGradients(conv(2), () => [random(2, 8, 8, 3), random(1, 1, 3, 4)]),
    withGradients((x, w) => tf.conv2d(x as tf.Tensor4D, w as tf.Tensor4D, 1, 'valid'), () => [random(2, 5, 5, 3), random(5, 5, 3, 4)]),
    withGradients((x, w) => tf.depthwiseConv2d(x as tf.Tensor4D, w as tf.Tensor4D, 1, 'same'), () => [random(2, 8, 8, 3), random(3, 3, 3, 2)]),
    withGradients(x => tf.maxPool(x as tf.Tensor4D, 2, 2, 'same'), () => [random(2, 7, 7, 3)]),
    withGradients(x => tf.maxPool3d(x as tf.Tensor5D, 2, 2, 'same'), () => [random(1, 4, 4, 4, 2)]),
    withGradients((a, b) => tf.matMul(a!, b!), () => [random(4, 5), random(5, 6)]),
    withGradients((a, b) => tf.matMul(a!, b!), () => [random(2, 4, 5), random(2, 5, 6)]),
    withGradients((a, b) => tf.einsum('aecd,abcd->acbe', a!, b!), () => [random(2, 3, 4, 5), random(2, 6, 4, 5)]),
    withGradients(a => tf.einsum('ij->ij', a!), () => [random(3, 4)]),
    withGradients(x => tf.gather(x!, tf.tensor1d([0, 3, 3], 'int32')), () => [random(4, 5)]),
    () => tf.unsortedSegmentSum(random(3, 2), tf.tensor1d([0, -1, 7], 'int32'), 2),
    withGradients(x => tf.avgPool(x as tf.Tensor4D, 3, 2, 'same'), () => [random(2, 7, 7, 3)]),
    withGradients(x => tf.gather(x!, tf.tensor2d([[0], [3]], undefined, 'int32'), 1, 1), () => [random(2, 4)]),
    withGradients((x, m, v) => tf.batchNorm(x as tf.Tensor2D, m as tf.Tensor1D, tf.square(v!) as tf.Tensor1D), () => [random(3, 4), random(4), random(4)]),
    withGradients(x => tf.image.resizeBilinear(x as tf.Tensor4D, [5, 6], false, true), () => [random(2, 3, 4, 2)]),
    withGradients(x => tf.mirrorPad(x!, [[1, 2]], 'symmetric'), () => [random(4)]),
    withGradients((a, b) => tf.maximum(a!, b!), () => [random(2, 3), random(3)]),
  ]; // prettier-ignore
  const stepAll = () => steps.forEach(step => tf.tidy(() => void step()));
  const count = () => ({ ...tf.memory(), dataIds: backend.numDataIds(), cpu: quietCpuBackend().numDataIds() });

  stepAll();
  const before = count();
  for (let i = 0; i < 10; i++) stepAll();
  const heapBytes = backend.wasm.HEAPU8.length;
  for (let i = 0; i < 30; i++) stepAll();
  expect(count()).toEqual(before);
  // XNNPACK's packed filters live in the heap too, where tfjs does not count them.
  expect(backend.wasm.HEAPU8.length).toBe(heapBytes);
});

test('registering again changes nothing', () => {
  const before = tf.getKernelsForBackend('wasm');
  registerKernels('wasm');
  expect(tf.getKernelsForBackend('wasm')).toEqual(before);
});

describe('training ends as on the CPU backend:', () => {
  interface Task {
    readonly model: tf.LayersModel;
    readonly x: tf.Tensor;
    readonly y: tf.Tensor;
    readonly loss: string;
  }

  /** Losses of some steps, and the weights after them; from weights that depend on nothing but their shapes. */
  async function train(backend: 'wasm' | 'cpu', makeTask: () => Task): Promise<Result[]> {
    await tf.setBackend(backend);
    seed = 0;
    const { model, x, y, loss } = makeTask();
    model.setWeights(model.getWeights().map(weight => tf.mul(random(...weight.shape), 0.5)));
    model.compile({ optimizer: tf.train.momentum(0.05, 0.9), loss });
    const losses: number[] = [];
    for (let step = 0; step < 3; step++) losses.push((await model.trainOnBatch(x, y)) as number);
    const weights = model.getWeights().map(t => ({ shape: t.shape, values: Array.from(t.dataSync()) }));
    return [{ shape: [losses.length], values: losses }, ...weights];
  }

  async function expectSameTraining(makeTask: () => Task): Promise<void> {
    const actual = await train('wasm', makeTask);
    const losses = actual[0]!.values;
    expect(losses.at(-1)!).toBeLessThan(losses[0]!);
    expectClose(actual, await train('cpu', makeTask), 2e-3);
  }

  const classes = (count: number, of: number) =>
    tf.oneHot(tf.tensor1d(Array.from({ length: count }, (_, i) => (i * 7) % of), 'int32'), of); // prettier-ignore

  test('a convolutional net', () =>
    expectSameTraining(() => ({
      model: tf.sequential({
        layers: [
          tf.layers.conv2d({ inputShape: [12, 12, 2], filters: 6, kernelSize: 3, padding: 'same', activation: 'tanh' }),
          tf.layers.maxPooling2d({ poolSize: 2 }),
          tf.layers.separableConv2d({ filters: 8, kernelSize: 3, strides: 1, activation: 'elu' }),
          tf.layers.conv2d({ filters: 6, kernelSize: 3, strides: 2, padding: 'same' }),
          tf.layers.flatten(),
          tf.layers.dense({ units: 3, activation: 'softmax' }),
        ],
      }),
      x: random(8, 12, 12, 2),
      y: classes(8, 3),
      loss: 'categoricalCrossentropy',
    })));

  test('an LSTM with an embedding', () =>
    expectSameTraining(() => ({
      model: tf.sequential({
        layers: [
          tf.layers.embedding({ inputDim: 20, outputDim: 5, inputLength: 6 }),
          tf.layers.lstm({ units: 7 }),
          tf.layers.dense({ units: 1, activation: 'sigmoid' }),
        ],
      }),
      x: tf.tensor2d(Array.from({ length: 48 }, (_, i) => (i * i) % 20), [8, 6], 'int32'), // prettier-ignore
      y: tf.reshape(tf.slice(classes(8, 3), [0, 0], [8, 1]), [8, 1]),
      loss: 'binaryCrossentropy',
    })));

  test('a net with batch normalization', () =>
    expectSameTraining(() => ({
      model: tf.sequential({
        layers: [
          tf.layers.conv2d({ inputShape: [8, 8, 3], filters: 6, kernelSize: 3, useBias: false }),
          tf.layers.batchNormalization({ axis: 3 }),
          tf.layers.leakyReLU(),
          tf.layers.depthwiseConv2d({ kernelSize: 3, padding: 'same' }),
          tf.layers.globalAveragePooling2d({}),
          tf.layers.dense({ units: 4 }),
          tf.layers.layerNormalization(),
          tf.layers.dense({ units: 2 }),
        ],
      }),
      x: random(8, 8, 8, 3),
      y: random(8, 2),
      loss: 'meanSquaredError',
    })));

  test('an attention block', async () => {
    const attend = (x: tf.Tensor, [wq, wk, wv, wo]: tf.Variable[]) => {
      const [q, k, v] = [wq!, wk!, wv!].map(w => tf.einsum('btc,chd->bthd', x, w));
      const scores = tf.softmax(tf.mul(tf.einsum('bthd,bshd->bhts', q!, k!), 1 / Math.sqrt(3)));
      return tf.add(x, tf.einsum('bthd,hdc->btc', tf.einsum('bhts,bshd->bthd', scores, v!), wo!));
    };
    const trainOn = async (backend: 'wasm' | 'cpu') => {
      await tf.setBackend(backend);
      seed = 0;
      const [x, y] = [random(2, 5, 6), random(2, 5, 6)];
      const weights = [[6, 2, 3], [6, 2, 3], [6, 2, 3], [2, 3, 6]].map(shape => tf.variable(random(...shape))); // prettier-ignore
      const optimizer = tf.train.sgd(0.1);
      const loss = () => tf.mean(tf.squaredDifference(attend(x, weights), y)) as tf.Scalar;
      const losses = Array.from({ length: 6 }, () => optimizer.minimize(loss, true, weights)!.dataSync()[0]!);
      return [{ shape: [6], values: losses }, ...weights.map(w => ({ shape: w.shape, values: [...w.dataSync()] }))];
    };
    const actual = await trainOn('wasm');
    expect(actual[0]!.values.at(-1)!).toBeLessThan(actual[0]!.values[0]!);
    expectClose(actual, await trainOn('cpu'), 1e-3);
  });
});
