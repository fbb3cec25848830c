import { tf } from '../tfjs';
import { quietCpuBackend } from '../cpu-backend';
import type { ComposedKernel } from './kernel';

/**
 * The CPU backend's own kernel of that name, run on copies of the inputs: slow, but correct. For kernels whose results
 * on wasm are wrong, and that are too rare to compose them of others.
 */
export function cpuKernel<Attributes = tf.NamedAttrMap>(name: string): ComposedKernel<Attributes> {
  const { kernelFunc } = tf.getKernel(name, 'cpu');
  return {
    name,
    compute(inputs, attributes) {
      const backend = quietCpuBackend();
      const copies: tf.NamedTensorMap = {};
      for (const [key, tensor] of Object.entries(inputs)) {
        copies[key] = tf.engine().makeTensor(tensor.dataSync(), tensor.shape, tensor.dtype, backend);
      }
      const toWasm = (result: tf.TensorInfo) => {
        const output = tf.engine().makeTensorFromTensorInfo(result, backend);
        return tf.tensor(output.dataSync(), output.shape, output.dtype);
      };
      const result = kernelFunc({ inputs: copies, backend, attrs: attributes as tf.NamedAttrMap });
      return Array.isArray(result) ? result.map(toWasm) : toWasm(result);
    },
  };
}
