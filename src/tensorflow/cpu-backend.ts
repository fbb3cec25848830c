import { tf } from './tfjs';

/** tfjs-backend-cpu's `MathBackendCPU`, as far as it matters here; `@tensorflow/tfjs` does not export its type. */
interface CpuBackend extends tf.KernelBackend {
  /** Whether the next tensor is the first one, at which the backend prints advice to install tfjs-node. */
  firstUse: boolean;
}

/** The CPU backend, silenced: who gets it from `loadBackend` is told there why it is not a faster one. */
export function quietCpuBackend(): tf.KernelBackend {
  const backend = tf.findBackend('cpu') as CpuBackend;
  backend.firstUse = false;
  return backend;
}
