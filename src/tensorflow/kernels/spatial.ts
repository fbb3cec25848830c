import { tf } from '../tfjs';

/** Rows and columns to add on each side of an image. A negative number removes them. */
export interface Margins {
  readonly top: number;
  readonly bottom: number;
  readonly left: number;
  readonly right: number;
}

/** `x` [N, H, W, C] with zeros added, or pixels cut off, at its borders. */
export function padOrCrop(x: tf.Tensor4D, { top, bottom, left, right }: Margins): tf.Tensor4D {
  let result = x;
  if (top < 0 || bottom < 0 || left < 0 || right < 0) {
    const [batch, height, width, channels] = x.shape;
    const [skippedRows, skippedColumns] = [Math.max(0, -top), Math.max(0, -left)];
    const rows = height - skippedRows + Math.min(0, bottom);
    const columns = width - skippedColumns + Math.min(0, right);
    result = tf.slice(result, [0, skippedRows, skippedColumns, 0], [batch, rows, columns, channels]);
  }
  if (top > 0 || bottom > 0 || left > 0 || right > 0) {
    const [rows, columns] = [Math.max(0, top), Math.max(0, left)];
    result = tf.pad4d(result, [[0, 0], [rows, Math.max(0, bottom)], [columns, Math.max(0, right)], [0, 0]]); // prettier-ignore
  }
  return result;
}

/** Each pixel of `x` [N, H, W, C] followed by `stride − 1` rows and columns of zeros: [N, H·strideH, W·strideW, C]. */
export function spread(x: tf.Tensor4D, [strideHeight, strideWidth]: [number, number]): tf.Tensor4D {
  if (strideHeight === 1 && strideWidth === 1) return x;
  const [batch, height, width, channels] = x.shape;
  const rows: tf.Tensor4D = tf.reshape(x, [batch * height, 1, width, channels]);
  // Zeros after a pixel's channels are whole pixels of zeros, so the last axis need not be split.
  const padded = tf.pad4d(rows, [[0, 0], [0, strideHeight - 1], [0, 0], [0, (strideWidth - 1) * channels]]); // prettier-ignore
  return tf.reshape(padded, [batch, height * strideHeight, width * strideWidth, channels]);
}

/**
 * The inverse of {@link spread}: every `stride`-th pixel of `x`, whose height and width are multiples of the strides.
 */
export function subsample(x: tf.Tensor4D, [strideHeight, strideWidth]: [number, number]): tf.Tensor4D {
  if (strideHeight === 1 && strideWidth === 1) return x;
  const [batch, height, width, channels] = x.shape;
  const [rows, columns] = [height / strideHeight, width / strideWidth];
  // Not tf.stridedSlice: on wasm that is a JavaScript loop over single elements.
  const blocks = tf.reshape(x, [batch * rows, strideHeight, columns, strideWidth * channels]);
  const firsts = tf.slice(blocks, [0, 0, 0, 0], [batch * rows, 1, columns, channels]);
  return tf.reshape(firsts, [batch, rows, columns, channels]);
}
