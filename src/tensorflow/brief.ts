import { brief as briefValue } from '../printable';
import { tf } from './tfjs';

/** A value in a few words, as {@link briefValue}. A tensor is shown by its type and shape. */
export function brief(value: unknown): string {
  if (value instanceof tf.Tensor) return `Tensor ${value.dtype}[${value.shape.join(', ')}]`;
  if (Array.isArray(value) && value.length <= 3) return `[${value.map(brief).join(', ')}]`;
  return briefValue(value);
}
