import { tf } from './tfjs';
import { batchMatMul } from './wasm-kernels/batch-mat-mul';
import { conv2DBackpropFilter } from './wasm-kernels/conv2d-backprop-filter';
import { conv2DBackpropInput } from './wasm-kernels/conv2d-backprop-input';
import { cpuKernel } from './wasm-kernels/cpu-kernel';
import { depthwiseBackpropFilter } from './wasm-kernels/depthwise-backprop-filter';
import { depthwiseBackpropInput } from './wasm-kernels/depthwise-backprop-input';
import { einsum } from './wasm-kernels/einsum';
import { addKernel, replaceKernel } from './wasm-kernels/kernel';
import { maxPoolGrad } from './wasm-kernels/max-pool-grad';
import { unsortedSegmentSum } from './wasm-kernels/unsorted-segment-sum';

let registered = false;

/**
 * Adds to TensorFlow.js's wasm backend, which was made for inference, what training needs. tfjs-backend-wasm must be
 * loaded before. Calling it again does nothing.
 */
export function registerWasmGradientKernels(): void {
  if (registered) return;
  registered = true;

  // Missing in 4.22. A later version's own are kept.
  addKernel(conv2DBackpropFilter);
  addKernel(depthwiseBackpropFilter);
  addKernel(depthwiseBackpropInput);
  addKernel(unsortedSegmentSum);
  addKernel(einsum);

  // Correct, but scalar loops, which would take most of the time of a training step.
  replaceKernel(conv2DBackpropInput);
  replaceKernel(batchMatMul);

  // Wrong in 4.22: maxima start from the smallest positive float, so the maximum of negative numbers is wrong …
  replaceKernel(maxPoolGrad);
  replaceKernel(cpuKernel(tf.MaxPool3D));
  replaceKernel(cpuKernel(tf.MaxPool3DGrad));
  replaceKernel(cpuKernel(tf.Dilation2D));
  replaceKernel(cpuKernel(tf.Dilation2DBackpropInput));
  replaceKernel(cpuKernel(tf.Dilation2DBackpropFilter));
  // … and the loops over the outputs of a 3D convolution end too early, at its borders and between its strides.
  replaceKernel(cpuKernel(tf.Conv3DBackpropInputV2));
  replaceKernel(cpuKernel(tf.Conv3DBackpropFilterV2));
}
