import { tf } from '../tfjs';

/**
 * A kernel for the wasm backend that is composed of TensorFlow.js ops.
 *
 * A raw kernel gets `TensorInfo`s and must count references itself. The engine calls these kernels with real tensors
 * and takes a tensor back, so they may use ordinary ops: no tape is running inside a kernel, and the `tf.tidy` around
 * the function frees everything but its result.
 */
export interface ComposedKernel<Attributes> {
  readonly name: string;
  /**
   * Computes the result, a new tensor (never one of the inputs). `stock` runs the backend's own kernel on the same
   * arguments. Kernels in {@link replaceKernel} may call it for what it does well.
   */
  compute(inputs: Record<string, tf.Tensor>, attributes: Attributes, stock: () => tf.Tensor): tf.Tensor;
}

/** Registers the kernel, unless the backend has one of that name, as a later tfjs may. */
export function addKernel<Attributes>(kernel: ComposedKernel<Attributes>): void {
  if (tf.getKernel(kernel.name, 'wasm') !== undefined) return;
  tf.registerKernel({
    kernelName: kernel.name,
    backendName: 'wasm',
    kernelFunc: ({ inputs, attrs }) =>
      tf.tidy(() =>
        kernel.compute(inputs as Record<string, tf.Tensor>, attrs as Attributes, () => {
          throw new Error(`The wasm backend has no ${kernel.name} of its own.`);
        }),
      ),
  });
}

/** Replaces the backend's kernel, which is still set up, and passed to this one as `stock`. */
export function replaceKernel<Attributes>(kernel: ComposedKernel<Attributes>): void {
  const original = tf.getKernel(kernel.name, 'wasm');
  // Unregistered first, else tfjs would warn that a kernel is registered twice.
  tf.unregisterKernel(kernel.name, 'wasm');
  tf.registerKernel({
    ...original,
    kernelFunc: params =>
      tf.tidy(() =>
        kernel.compute(params.inputs as Record<string, tf.Tensor>, params.attrs as Attributes, () =>
          tf.engine().makeTensorFromTensorInfo(original.kernelFunc(params) as tf.TensorInfo),
        ),
      ),
  });
}
