import { tf } from '../tfjs';
import type { ComposedKernel } from './kernel';

/**
 * The gradient of max pooling: each `dy` goes to the largest pixel of its window, the first of equal ones.
 *
 * It replaces the stock kernel, whose results are wrong: it starts each search for the largest pixel at the smallest
 * *positive* float (`std::numeric_limits<float>::min()` in tfjs-backend-wasm 4.22), so the gradient of a window of
 * negative pixels goes to the first pixel of the whole batch. This is a loop in JavaScript, because no op returns the
 * positions (MaxPoolWithArgmax has the same error). It takes half the time of the stock kernel.
 */
export const maxPoolGrad: ComposedKernel<tf.MaxPoolGradAttrs> = {
  name: tf.MaxPoolGrad,
  compute(inputs, { filterSize, strides, pad, dimRoundingMode }) {
    const x = inputs['input'] as tf.Tensor4D;
    const info = tf.backend_util.computePool2DInfo(x.shape, filterSize, strides, 1, pad, dimRoundingMode);
    const dx = scatterToLargest(x.dataSync(), inputs['dy']!.dataSync(), info);
    return tf.tensor(dx, x.shape, 'float32');
  },
};

type Values = Float32Array | Int32Array | Uint8Array;

function scatterToLargest(x: Values, dy: Values, info: tf.backend_util.Conv2DInfo): Float32Array {
  const { batchSize, inHeight, inWidth, inChannels: channels, outHeight, outWidth, padInfo } = info;
  const dx = new Float32Array(x.length);
  const largest = new Float32Array(channels);
  const positions = new Int32Array(channels);
  let dyOffset = 0;
  for (let image = 0; image < batchSize; image++) {
    for (let outRow = 0; outRow < outHeight; outRow++) {
      const top = outRow * info.strideHeight - padInfo.top;
      const bottom = Math.min(inHeight, top + info.filterHeight);
      for (let outColumn = 0; outColumn < outWidth; outColumn++) {
        const left = outColumn * info.strideWidth - padInfo.left;
        const right = Math.min(inWidth, left + info.filterWidth);
        largest.fill(-Infinity);
        positions.fill(-1);
        for (let row = Math.max(0, top); row < bottom; row++) {
          for (let column = Math.max(0, left); column < right; column++) {
            const pixel = ((image * inHeight + row) * inWidth + column) * channels;
            for (let channel = 0; channel < channels; channel++) {
              const value = x[pixel + channel]!;
              if (value > largest[channel]!) {
                largest[channel] = value;
                positions[channel] = pixel + channel;
              }
            }
          }
        }
        // A window that holds only padding, or only NaN, has no largest pixel.
        for (let channel = 0; channel < channels; channel++, dyOffset++) {
          const position = positions[channel]!;
          if (position >= 0) dx[position]! += dy[dyOffset]!;
        }
      }
    }
  }
  return dx;
}
