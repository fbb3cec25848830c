import { tf } from '../tfjs';
import { avgPool3DGrad, avgPoolGrad } from './average-pool-grad';
import { batchMatMul, broadcastBatchMatMul } from './batch-mat-mul';
import { fusedBatchNorm } from './batch-norm';
import { conv2DBackpropFilter, conv2DBackpropInput } from './conv2d-backprop';
import { cpuKernel } from './cpu-kernel';
import { depthwiseBackpropFilter, depthwiseBackpropInput } from './depthwise-backprop';
import { einsum } from './einsum';
import { gather, gatherAlongNegative } from './gather';
import { addKernel, type ComposedKernel, type KernelBackend, replaceKernel } from './kernel';
import { maxPool3DGrad, maxPoolGrad } from './max-pool-grad';
import { oneChannelBackpropInput, oneChannelBackpropInput3D, onePixelBackpropFilter } from './native-convolutions';
import { resizeGrad } from './resize-grad';
import { withRoundedWindows } from './rounded-windows';
import { reflectingTransform, transform } from './transform';
import { unsortedSegmentSum } from './unsorted-segment-sum';
import { VOLUME_KERNELS, withinWindows } from './volumes';
import { cast, fusedMatMul, prelu } from './wasm-corrections';

// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Kernels = readonly ComposedKernel<any>[];

/** What gradring adds to each backend. The reasons are in the files of the kernels. */
export const KERNELS: Record<KernelBackend, { readonly missing: Kernels; readonly replaced: Kernels }> = {
  wasm: {
    missing: [conv2DBackpropFilter, depthwiseBackpropFilter, depthwiseBackpropInput, unsortedSegmentSum, einsum],
    replaced: [
      // Correct, but scalar loops, which would take most of the time of a training step.
      conv2DBackpropInput,
      batchMatMul,

      // Wrong in 4.22: maxima start from the smallest positive float, so the maximum of negative numbers is wrong …
      maxPoolGrad,
      maxPool3DGrad,
      ...[tf.MaxPool3D, tf.MaxPoolWithArgmax].map(name => cpuKernel(name)),
      ...[tf.Dilation2D, tf.Dilation2DBackpropInput, tf.Dilation2DBackpropFilter].map(name => cpuKernel(name)),
      // … and the loops over the outputs of a 3D convolution end too early, at its borders and between its strides.
      ...[tf.Conv3DBackpropInputV2, tf.Conv3DBackpropFilterV2].map(name => cpuKernel(name)),

      // Wrong, for the reasons that their files tell.
      avgPoolGrad,
      avgPool3DGrad,
      cast,
      fusedBatchNorm,
      fusedMatMul,
      gather,
      prelu,
      reflectingTransform,
      resizeGrad('resizeBilinear', false),
      resizeGrad('resizeNearestNeighbor', true),
      ...[tf.Conv2D, tf.DepthwiseConv2dNative, tf.AvgPool, tf.MaxPool].map(withRoundedWindows),
      ...VOLUME_KERNELS.map(withinWindows),
    ],
  },
  cpu: {
    missing: [],
    replaced: [
      avgPoolGrad,
      avgPool3DGrad,
      broadcastBatchMatMul,
      einsum,
      fusedBatchNorm,
      maxPool3DGrad,
      resizeGrad('resizeBilinear', true),
      resizeGrad('resizeNearestNeighbor', true),
      transform,
      ...[tf.Conv2D, tf.AvgPool, tf.MaxPool].map(withRoundedWindows),
      ...VOLUME_KERNELS.map(withinWindows),
    ],
  },
  tensorflow: {
    missing: [],
    replaced: [
      fusedBatchNorm,
      gatherAlongNegative,
      oneChannelBackpropInput,
      oneChannelBackpropInput3D,
      onePixelBackpropFilter,
      resizeGrad('resizeBilinear', false),
      resizeGrad('resizeNearestNeighbor', false),
    ],
  },
};

const registered = new Set<KernelBackend>();

/**
 * Adds to a backend of TensorFlow.js the kernels that it lacks for training, and replaces those that are wrong. The
 * backend must be loaded before. Calling it again does nothing.
 */
export function registerKernels(backend: KernelBackend): void {
  if (registered.has(backend)) return;
  registered.add(backend);
  for (const kernel of KERNELS[backend].missing) addKernel(kernel, backend);
  for (const kernel of KERNELS[backend].replaced) replaceKernel(kernel, backend);
}
