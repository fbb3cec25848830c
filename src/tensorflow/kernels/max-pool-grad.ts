import { tf } from '../tfjs';
import type { ComposedKernel } from './kernel';

/**
 * The gradient of max pooling: each `dy` goes to the largest pixel of its window, the first of equal ones.
 *
 * It replaces the kernel of wasm, whose results are wrong: it starts each search for the largest pixel at the smallest
 * *positive* float (`std::numeric_limits<float>::min()` in tfjs-backend-wasm 4.22), so the gradient of a window of
 * negative pixels goes to the first pixel of the whole batch. This is a loop in JavaScript, because no op returns the
 * positions (MaxPoolWithArgmax has the same error). It takes half the time of that kernel.
 */
export const maxPoolGrad: ComposedKernel<tf.MaxPoolGradAttrs> = {
  name: tf.MaxPoolGrad,
  compute(inputs, { filterSize, strides, pad, dimRoundingMode }) {
    const x = inputs['input'] as tf.Tensor4D;
    const info = tf.backend_util.computePool2DInfo(x.shape, filterSize, strides, 1, pad, dimRoundingMode);
    const flat = { inDepth: 1, outDepth: 1, strideDepth: 1, filterDepth: 1 };
    const padInfo = { ...info.padInfo, front: 0 };
    return toLargest(x, inputs['dy']!, { ...info, ...flat, padInfo });
  },
};

/**
 * {@link maxPoolGrad} in three dimensions. The kernel of the CPU backend is wrong, too, for windows whose height is not
 * their width: it writes positions with the one and reads them with the other.
 */
export const maxPool3DGrad: ComposedKernel<tf.MaxPool3DGradAttrs> = {
  name: tf.MaxPool3DGrad,
  compute(inputs, { filterSize, strides, pad, dimRoundingMode }) {
    const x = inputs['input'] as tf.Tensor5D;
    const info = tf.backend_util.computePool3DInfo(x.shape, filterSize, strides, 1, pad, dimRoundingMode);
    return toLargest(x, inputs['dy']!, info);
  },
};

type Info = Pick<
  tf.backend_util.Conv3DInfo,
  | 'batchSize'
  | 'inDepth'
  | 'inHeight'
  | 'inWidth'
  | 'inChannels'
  | 'outDepth'
  | 'outHeight'
  | 'outWidth'
  | 'strideDepth'
  | 'strideHeight'
  | 'strideWidth'
  | 'filterDepth'
  | 'filterHeight'
  | 'filterWidth'
> & { readonly padInfo: { readonly front: number; readonly top: number; readonly left: number } };

function toLargest(input: tf.Tensor, output: tf.Tensor, info: Info): tf.Tensor {
  const { batchSize, inDepth, inHeight, inWidth, inChannels: channels, outDepth, outHeight, outWidth, padInfo } = info;
  const x = input.dataSync();
  const dy = output.dataSync();
  const dx = new Float32Array(x.length);
  const largest = new Float32Array(channels);
  const positions = new Int32Array(channels);
  let dyOffset = 0;
  for (let image = 0; image < batchSize; image++) {
    for (let outLayer = 0; outLayer < outDepth; outLayer++) {
      const front = outLayer * info.strideDepth - padInfo.front;
      const back = Math.min(inDepth, front + info.filterDepth);
      for (let outRow = 0; outRow < outHeight; outRow++) {
        const top = outRow * info.strideHeight - padInfo.top;
        const bottom = Math.min(inHeight, top + info.filterHeight);
        for (let outColumn = 0; outColumn < outWidth; outColumn++) {
          const left = outColumn * info.strideWidth - padInfo.left;
          const right = Math.min(inWidth, left + info.filterWidth);
          largest.fill(-Infinity);
          positions.fill(-1);
          for (let layer = Math.max(0, front); layer < back; layer++) {
            for (let row = Math.max(0, top); row < bottom; row++) {
              for (let column = Math.max(0, left); column < right; column++) {
                const pixel = (((image * inDepth + layer) * inHeight + row) * inWidth + column) * channels;
                for (let channel = 0; channel < channels; channel++) {
                  const value = x[pixel + channel]!;
                  if (value > largest[channel]!) {
                    largest[channel] = value;
                    positions[channel] = pixel + channel;
                  }
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
  }
  return tf.tensor(dx, input.shape, 'float32');
}
