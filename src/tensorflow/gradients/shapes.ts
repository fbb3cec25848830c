import { tf } from '../tfjs';
import { correctGradient, type Gradient } from './gradient';

/** The gradient of a running sum: the running sum from the other end. (That of tfjs 4.22 exchanges the axes.) */
export const cumsumGradient: Gradient<tf.CumsumAttrs> = {
  kernelName: tf.Cumsum,
  derive: (dy, _, { axis, exclusive, reverse }) => ({ x: () => tf.cumsum(dy, axis, exclusive, !reverse) }),
};

/** The gradient of mirrored padding: what was mirrored also belongs to the pixels within. (tfjs 4.22 cuts it off.) */
export const mirrorPadGradient: Gradient<tf.MirrorPadAttrs> = {
  kernelName: tf.MirrorPad,
  inputsToSave: ['x'],
  derive: (dy, [x], { paddings, mode }) => ({
    x: () =>
      paddings.reduce((derivative, [before, after], axis) => {
        const size = x!.shape[axis]!;
        // With 'reflect' the pixel at the border is not repeated.
        const skipped = mode === 'reflect' ? 1 : 0;
        const part = (begin: number, length: number) => {
          const [begins, sizes] = [derivative.shape.map(() => 0), [...derivative.shape]];
          [begins[axis], sizes[axis]] = [begin, length];
          return tf.slice(derivative, begins, sizes);
        };
        const mirrored = (begin: number, length: number, to: number) => {
          const margins = derivative.shape.map((): [number, number] => [0, 0]);
          margins[axis] = [to, size - to - length];
          return tf.pad(tf.reverse(part(begin, length), axis), margins);
        };
        let within = part(before, size);
        if (before > 0) within = tf.add(within, mirrored(0, before, skipped));
        if (after > 0) within = tf.add(within, mirrored(before + size, after, size - after - skipped));
        return within;
      }, dy),
  }),
};

/** Corrects the gradient of repeating a tensor, which in tfjs 4.22 ends at rank 4: the sum of the copies. */
export function correctTileGradient(): void {
  correctGradient<tf.TileAttrs>(tf.Tile, stock => (dy, saved, attributes) => {
    const [x] = saved as [tf.Tensor];
    if (x.rank <= 4) return stock(dy, saved, attributes);
    const sumOfCopies = (derivative: tf.Tensor, count: number, axis: number) => {
      if (count === 1) return derivative;
      const shape = derivative.shape.slice();
      shape[axis] = x.shape[axis]!;
      const sizes = [shape.slice(0, axis), [count], shape.slice(axis)].map(part => tf.util.sizeFromShape(part));
      return tf.reshape(tf.sum(tf.reshape(derivative, sizes), 1), shape);
    };
    return { x: () => attributes.reps.reduce(sumOfCopies, dy) };
  });
}

/** Corrects the gradients of `unstack` and `split`, which in tfjs 4.22 fail if there is only one part. */
export function correctPartGradients(): void {
  for (const kernelName of [tf.Unpack, tf.SplitV]) {
    const asParts = (dy: tf.Tensor) => [dy].flat() as unknown as tf.Tensor;
    correctGradient(kernelName, stock => (dy, saved, attributes) => stock(asParts(dy), saved, attributes));
  }
}

/** Corrects the gradient of a product, which in tfjs 4.22 fails for axes that are counted from the last. */
export function correctProdGradient(): void {
  correctGradient<{ axis: number | number[] | null }>(tf.Prod, stock => (dy, saved, { axis }) =>
    stock(dy, saved, { axis: tf.util.parseAxisParam(axis!, saved[0]!.shape) }),
  ); // prettier-ignore
}
