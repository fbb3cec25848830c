import { tf } from './tfjs';

/** What a tensor holds. */
export interface GradientValues {
  readonly values: Float32Array;
  /** Whether the array was made for the caller, so that nobody minds if its memory is freed. */
  readonly isCopy: boolean;
}

/** Of a tensor of any type; what is not float32 is converted. */
export function gradientValues(tensor: tf.Tensor): GradientValues {
  const isCopy = isReadAsCopy(tensor);
  const values = tensor.dataSync();
  return values instanceof Float32Array ? { values, isCopy } : { values: Float32Array.from(values), isCopy: true };
}

/** What TensorFlow.js keeps to itself, as far as it matters here; where it is otherwise, nothing counts as a copy. */
interface Internals {
  /** Where each tensor is. */
  readonly state?: { readonly tensorInfo?: WeakMap<object, { readonly backend?: unknown }> };
}
interface NativeBackend {
  /** `values` is the very array that a tensor was made of, until an operation has used it. */
  readonly tensorMap?: { get(id: object): { readonly values?: unknown } | undefined };
}

function isReadAsCopy({ dataId }: tf.Tensor): boolean {
  const backend = tf.backend();
  if ((tf.engine() as Internals).state?.tensorInfo?.get(dataId)?.backend !== backend) return false;
  switch (tf.getBackend()) {
    case 'wasm':
      return true;
    case 'tensorflow':
      return (backend as NativeBackend).tensorMap?.get(dataId)?.values === null;
    default:
      return false;
  }
}
