import * as tf from '@tensorflow/tfjs';
import { between, type Case, f, of } from './case';

type Resize = typeof tf.image.resizeBilinear;

const resizes = (resize: Resize): Case[] =>
  [1, 2, 3].flatMap(batch =>
    ([
      ['twice as large', [3, 4], [6, 8]],
      ['larger', [3, 4], [5, 7]],
      ['smaller', [5, 6], [2, 4]],
      ['half as large', [4, 6], [2, 3]],
      ['the same size', [3, 4], [3, 4]],
      ['to one pixel', [3, 4], [1, 1]],
      ['from one pixel', [1, 1], [3, 2]],
      ['wider and lower', [5, 2], [2, 6]],
    ] as [string, [number, number], [number, number]][]).flatMap(([what, from, to]) =>
      ([['', false, false], [', align corners', true, false], [', half pixel centers', false, true]] as [string, boolean, boolean][])
        .filter(() => batch < 3 || what === 'twice as large')
        .map(([attributes, align, half]) =>
          of(`batch ${batch}, ${what}${attributes}`, [f(batch, ...from, batch === 1 ? 1 : 2)], (x: tf.Tensor4D) => resize(x, to, align, half)),
        ),
    ),
  ).concat(of('rank 3', [f(2, 3, 2)], (x: tf.Tensor3D) => resize(x, [4, 6]))); // prettier-ignore

export const IMAGES: Record<string, Case[]> = {
  'image.resizeBilinear': resizes(tf.image.resizeBilinear),
  'image.resizeNearestNeighbor': resizes(tf.image.resizeNearestNeighbor),
  'image.cropAndResize': [
    of('bilinear', [f(2, 4, 4, 2)], (x: tf.Tensor4D) => tf.image.cropAndResize(x, [[0.05, 0.1, 0.8, 0.93], [0.2, 0.07, 0.95, 0.7]], [1, 0], [3, 2])),
    of('nearest', [f(2, 4, 4, 2)], (x: tf.Tensor4D) => tf.image.cropAndResize(x, [[0.05, 0.1, 0.8, 0.93], [0.2, 0.07, 0.95, 0.7]], [1, 0], [3, 2], 'nearest')),
    of('beyond the image', [f(1, 4, 4, 1)], (x: tf.Tensor4D) => tf.image.cropAndResize(x, [[-0.5, 0.1, 1.5, 0.9]], [0], [4, 3], 'bilinear', 0.7)),
  ],
  'image.flipLeftRight': [1, 2].map(batch => of(`batch ${batch}`, [f(batch, 2, 3, 2)], (x: tf.Tensor4D) => tf.image.flipLeftRight(x))),
  'image.grayscaleToRGB': [of('batch 2', [f(2, 2, 3, 1)], (x: tf.Tensor4D) => tf.image.grayscaleToRGB(x))],
  'image.rgbToGrayscale': [of('batch 2', [f(2, 2, 3, 3)], (x: tf.Tensor4D) => tf.image.rgbToGrayscale(x))],
  'image.rotateWithOffset': [
    of('a quarter', [f(1, 3, 3, 2)], (x: tf.Tensor4D) => tf.image.rotateWithOffset(x, Math.PI / 2)),
    of('by 0.3, batch 2', [f(2, 3, 4, 1)], (x: tf.Tensor4D) => tf.image.rotateWithOffset(x, 0.3, 0.5, [0.4, 0.6])),
  ],
  'image.transform': (['nearest', 'bilinear'] as const).flatMap(interpolation =>
    (['constant', 'reflect', 'wrap', 'nearest'] as const).map(fill =>
      of(`${interpolation}, ${fill}`, [f(2, 3, 4, 2)], (x: tf.Tensor4D) =>
        tf.image.transform(x, [[0.9, 0.1, 0.3, -0.1, 1.1, 0.2, 0, 0]], interpolation, fill, 0.5),
      ),
    ),
  ),
  'image.threshold': [of('fixed', [between(0, 255)(3, 4, 1)], (x: tf.Tensor3D) => tf.image.threshold(x, 'binary', false, 0.5))],
}; // prettier-ignore
