import { tf } from '../tfjs';
import type { ComposedKernel } from './kernel';

interface WindowAttributes {
  readonly filterSize?: number | [number, number];
  readonly strides: number | [number, number];
  readonly dilations?: number | [number, number];
  pad: 'same' | 'valid' | number | tf.backend_util.ExplicitPadding;
  dimRoundingMode?: 'floor' | 'round' | 'ceil' | undefined;
}

/**
 * A convolution or pooling. If `dimRoundingMode` gives it a last window that goes beyond the padding, the padding is
 * made as large as this needs: the kernels of wasm, and the gradients of tfjs, take no account of the mode.
 */
export function withRoundedWindows(name: string): ComposedKernel<WindowAttributes> {
  return {
    name,
    prepare({ x, filter }, attributes) {
      const { filterSize, strides, dilations = 1, pad, dimRoundingMode } = attributes;
      if (typeof pad !== 'number' || dimRoundingMode === undefined || dimRoundingMode === 'floor') return;
      const info =
        filter === undefined
          ? tf.backend_util.computePool2DInfo(x!.shape as [number, number, number, number], filterSize!, strides, dilations, pad, dimRoundingMode)
          : tf.backend_util.computeConv2DInfo(x!.shape as [number, number, number, number], filter.shape as [number, number, number, number], strides, dilations, pad, dimRoundingMode, true); // prettier-ignore
      const bottom = (info.outHeight - 1) * info.strideHeight + info.effectiveFilterHeight - pad - info.inHeight;
      const right = (info.outWidth - 1) * info.strideWidth + info.effectiveFilterWidth - pad - info.inWidth;
      attributes.pad = [[0, 0], [pad, Math.max(pad, bottom)], [pad, Math.max(pad, right)], [0, 0]]; // prettier-ignore
      attributes.dimRoundingMode = undefined;
    },
    compute: (_, __, stock) => stock(),
  };
}
