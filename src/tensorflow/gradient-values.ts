import { tf } from './tfjs';

/** The values of a tensor. */
export interface GradientValues {
  readonly values: Float32Array;
  /** Whether the array was made for the caller, who may free its memory. */
  readonly isCopy: boolean;
}

/** Reads a tensor of any type. Values that are not float32 are converted. */
export function gradientValues(tensor: tf.Tensor): GradientValues {
  const isCopy = isReadAsCopy(tensor);
  const values = tensor.dataSync();
  return values instanceof Float32Array ? { values, isCopy } : { values: Float32Array.from(values), isCopy: true };
}

/** Private parts of TensorFlow.js. If they are different, nothing counts as a copy. */
interface Internals {
  /** The backend of each tensor. */
  readonly state?: { readonly tensorInfo?: WeakMap<object, { readonly backend?: unknown }> };
}
interface NativeBackend {
  /** `values` is the array that the tensor was made of, until an operation has used it. */
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
