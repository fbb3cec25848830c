import { tf } from '../tfjs';
import { quietCpuBackend } from '../cpu-backend';
import type { ComposedKernel } from './kernel';

/**
 * The CPU backend's kernel of that name, run on copies of the inputs: slow, but correct. For kernels whose results on
 * wasm are wrong, and that are too rare to compose them of others.
 */
export function cpuKernel(name: string): ComposedKernel<tf.NamedAttrMap> {
  return {
    name,
    compute(inputs, attrs) {
      const backend = quietCpuBackend();
      const copies: tf.NamedTensorMap = {};
      for (const [key, tensor] of Object.entries(inputs)) {
        copies[key] = tf.engine().makeTensor(tensor.dataSync(), tensor.shape, tensor.dtype, backend);
      }
      const result = tf.getKernel(name, 'cpu').kernelFunc({ inputs: copies, backend, attrs }) as tf.TensorInfo;
      const output = tf.engine().makeTensorFromTensorInfo(result, backend);
      return tf.tensor(output.dataSync(), output.shape, output.dtype);
    },
  };
}
