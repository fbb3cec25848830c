#!/usr/bin/env node
// Times the gradients of 2D convolutions on the wasm backend, and beside them the input gradient of TensorFlow.js
// alone. Prints one JSON object a line. Use it by hand, after `npm run build`.
const tf = require('@tensorflow/tfjs');
const { setThreadsCount } = require('@tensorflow/tfjs-backend-wasm');
const { registerKernels } = require('../dist/tensorflow/kernels/register-kernels');

const CASES = [
  { input: [16, 8, 8, 32], filter: [3, 3, 32, 64], strides: 1 },
  { input: [8, 32, 32, 16], filter: [3, 3, 16, 16], strides: 1 },
  { input: [8, 56, 56, 64], filter: [3, 3, 64, 64], strides: 1 },
  { input: [8, 56, 56, 64], filter: [1, 1, 64, 64], strides: 1 },
  { input: [8, 28, 28, 64], filter: [3, 3, 64, 128], strides: 2 },
];
const RUNS = 15;

/** The median of some runs, in ms, after a few that do not count. */
function medianMs(run) {
  const times = [];
  for (let i = -3; i < RUNS; i++) {
    const start = performance.now();
    const result = run();
    result.dataSync();
    result.dispose();
    if (i >= 0) times.push(performance.now() - start);
  }
  return Number(times.sort((a, b) => a - b)[Math.floor(RUNS / 2)].toFixed(2));
}

/** What can be timed of a convolution. */
function kernelsOf({ input, filter, strides }) {
  const x = tf.randomNormal(input, 0, 1, 'float32', 1);
  const w = tf.randomNormal(filter, 0, 1, 'float32', 2);
  const attributes = { strides: [strides, strides], pad: 'same', dataFormat: 'NHWC', dimRoundingMode: undefined };
  const forward = () => tf.engine().runKernel('Conv2D', { x, filter: w }, { ...attributes, dilations: [1, 1] });
  const dy = tf.tidy(() => tf.mul(/** @type {import('@tensorflow/tfjs').Tensor} */ (forward()), 0.5));
  const backprop = (name, inputs, shape) => () =>
    tf.engine().runKernel(name, { dy, ...inputs }, { ...attributes, ...shape });
  return {
    forward,
    filterGradient: backprop('Conv2DBackpropFilter', { x }, { filterShape: filter }),
    inputGradient: backprop('Conv2DBackpropInput', { filter: w }, { inputShape: input }),
  };
}

async function main() {
  setThreadsCount(1); // as gradring does
  await tf.setBackend('wasm');
  const cases = CASES.map(each => ({ ...each, kernels: kernelsOf(each) }));
  const stock = cases.map(({ kernels }) => medianMs(kernels.inputGradient));
  registerKernels('wasm');
  for (const [i, { kernels, ...convolution }] of cases.entries()) {
    const [forwardMs, filterGradientMs, inputGradientMs] = ['forward', 'filterGradient', 'inputGradient'].map(name =>
      medianMs(kernels[name]),
    );
    const times = { forwardMs, filterGradientMs, inputGradientMs, stockInputGradientMs: stock[i] };
    console.log(JSON.stringify({ ...convolution, ...times }));
  }
}

main();
