import { tf } from '../tfjs';
import type { ComposedKernel } from './kernel';

type Resize = 'resizeBilinear' | 'resizeNearestNeighbor';

/**
 * The gradients of resizing an image: each `dy` goes back to the pixels that its value came from.
 *
 * The kernels of all backends ignore half pixel centers. Those of the CPU backend are wrong beyond that: the nearest
 * one reads only the first image of a batch, and never returns for an image of one pixel with aligned corners; the
 * bilinear one exchanges height and width.
 *
 * @param always Whether it replaces the stock kernel for all attributes.
 */
export function resizeGrad(resize: Resize, always: boolean): ComposedKernel<tf.ResizeBilinearGradAttrs> {
  return {
    name: resize === 'resizeBilinear' ? tf.ResizeBilinearGrad : tf.ResizeNearestNeighborGrad,
    compute(inputs, attributes, stock) {
      const { alignCorners, halfPixelCenters } = attributes as tf.ResizeBilinearAttrs;
      if (!always && !halfPixelCenters) return stock();
      const images = inputs['images'] as tf.Tensor4D;
      const dy = inputs['dy'] as tf.Tensor4D;
      // The backend itself tells where the value of a row comes from, when it resizes an image of its row numbers.
      const sources = (from: number, to: number) => {
        const numbers = tf.reshape(tf.range(0, from), [1, from, 1, 1]) as tf.Tensor4D;
        return tf.image[resize](numbers, [to, 1], alignCorners, halfPixelCenters).dataSync();
      };
      const [, height, width] = images.shape;
      return giveBack(dy, images.shape, sources(height, dy.shape[1]), sources(width, dy.shape[2]));
    },
  };
}

/**
 * Adds each `dy` to the pixels around its place in the image, as near as they are.
 *
 * @param rows The row in the image for each row of `dy`. Between two rows it is a fraction.
 */
function giveBack(
  dy: tf.Tensor4D,
  shape: [number, number, number, number],
  rows: ArrayLike<number>,
  columns: ArrayLike<number>,
): tf.Tensor {
  const [batch, height, width, channels] = shape;
  const values = dy.dataSync();
  const dx = new Float32Array(batch * height * width * channels);
  let from = 0;
  for (let image = 0; image < batch; image++) {
    for (let i = 0; i < rows.length; i++) {
      const top = Math.floor(rows[i]!);
      const below = rows[i]! - top;
      for (let j = 0; j < columns.length; j++, from += channels) {
        const left = Math.floor(columns[j]!);
        const right = columns[j]! - left;
        const add = (row: number, column: number, share: number) => {
          if (share === 0) return;
          const to = ((image * height + row) * width + column) * channels;
          for (let channel = 0; channel < channels; channel++) dx[to + channel]! += share * values[from + channel]!;
        };
        add(top, left, (1 - below) * (1 - right));
        add(top, left + 1, (1 - below) * right);
        add(top + 1, left, below * (1 - right));
        add(top + 1, left + 1, below * right);
      }
    }
  }
  return tf.tensor(dx, shape, 'float32');
}
