import { tf } from '../tfjs';

/** The backends of TensorFlow.js by their own names: that of tfjs-node and tfjs-node-gpu is `tensorflow`. */
export type KernelBackend = 'wasm' | 'cpu' | 'tensorflow';

/** The inputs of a kernel by their names. Those that an operation was not given are undefined. */
export type Inputs = Record<string, tf.Tensor>;

/** Runs the backend's own kernel, on the same inputs and attributes or on some that are changed. */
export type Stock<Attributes> = (changes?: { inputs?: Inputs; attributes?: Partial<Attributes> }) => tf.Tensor;

/**
 * A kernel that is composed of TensorFlow.js ops.
 *
 * A raw kernel gets `TensorInfo`s and must count references itself. The engine calls these kernels with real tensors
 * and takes tensors back, so they may use ordinary ops: no tape is running inside a kernel, and the `tf.tidy` around
 * the function frees everything but its result.
 */
export interface ComposedKernel<Attributes> {
  readonly name: string;
  /**
   * Runs before. It may change the inputs and the attributes: the engine puts the same objects on its tape, so the
   * gradient sees the changes. Tensors that it makes live as long as those of the operation that runs the kernel.
   */
  prepare?(inputs: Inputs, attributes: Attributes): void;
  /**
   * Computes the result, a new tensor (never one of the inputs), or several. Kernels in {@link replaceKernel} may call
   * `stock` for what it does well.
   */
  compute(inputs: Inputs, attributes: Attributes, stock: Stock<Attributes>): tf.Tensor | tf.Tensor[];
}

/** Registers the kernel, unless the backend has one of that name, as a later tfjs may. */
export function addKernel<Attributes>(kernel: ComposedKernel<Attributes>, backendName: KernelBackend): void {
  if (tf.getKernel(kernel.name, backendName) !== undefined) return;
  tf.registerKernel({
    kernelName: kernel.name,
    backendName,
    kernelFunc: ({ inputs, attrs }) =>
      tf.tidy(() =>
        kernel.compute(inputs as Inputs, attrs as Attributes, () => {
          throw new Error(`The ${backendName} backend has no ${kernel.name} of its own.`);
        }),
      ),
  });
}

/** Replaces the backend's kernel, if it has one. It is passed to this one as `stock`. */
export function replaceKernel<Attributes>(kernel: ComposedKernel<Attributes>, backendName: KernelBackend): void {
  const original = tf.getKernel(kernel.name, backendName);
  if (original === undefined) return;
  // Unregistered first, else tfjs would warn that a kernel is registered twice.
  tf.unregisterKernel(kernel.name, backendName);
  tf.registerKernel({
    ...original,
    kernelFunc: params => {
      const inputs = params.inputs as Inputs;
      const attributes = params.attrs as Attributes;
      kernel.prepare?.(inputs, attributes);
      const stock: Stock<Attributes> = (changes = {}) => {
        const attrs = { ...attributes, ...changes.attributes } as tf.NamedAttrMap;
        return asTensor(original.kernelFunc({ ...params, inputs: changes.inputs ?? inputs, attrs }) as tf.TensorInfo);
      };
      return tf.tidy(() => kernel.compute(inputs, attributes, stock));
    },
  });
}

/** The kernels of tfjs-node return tensors, the others only what tensors are made of. */
function asTensor(result: tf.TensorInfo): tf.Tensor {
  return result instanceof tf.Tensor ? result : tf.engine().makeTensorFromTensorInfo(result);
}

/**
 * Whether a tensor is broadcast to another shape if its values are merely repeated: the shape ends as this one does.
 * Some kernels do no more than that.
 */
export function repeats(shape: readonly number[], to: readonly number[]): boolean {
  const begin = shape.findIndex(size => size !== 1);
  if (begin < 0) return true;
  const own = shape.slice(begin);
  return own.every((size, i) => size === to[to.length - own.length + i]);
}
