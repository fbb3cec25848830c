import { tf } from './tfjs';

/** The part of tfjs-backend-cpu's `MathBackendCPU` that is used here. `@tensorflow/tfjs` does not export its type. */
interface CpuBackend extends tf.KernelBackend {
  /** Whether there was no tensor yet. At the first one the backend advises to install tfjs-node. */
  firstUse: boolean;
}

/** The CPU backend without its advice: `loadBackend` says why it takes this backend. */
export function quietCpuBackend(): tf.KernelBackend {
  const backend = tf.findBackend('cpu') as CpuBackend;
  backend.firstUse = false;
  return backend;
}
