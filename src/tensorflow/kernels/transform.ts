import { tf } from '../tfjs';
import { cpuKernel } from './cpu-kernel';
import type { ComposedKernel, Inputs } from './kernel';

/** The kernel of the CPU backend returns after the first image of a batch. */
export const transform: ComposedKernel<tf.TransformAttrs> = {
  name: tf.Transform,
  compute: (inputs, _, stock) => eachImage(inputs, image => stock({ inputs: image })),
};

/** That of wasm does not reflect what lies before the first pixel. */
export const reflectingTransform: ComposedKernel<tf.TransformAttrs> = {
  name: tf.Transform,
  compute(inputs, attributes, stock) {
    if (attributes.fillMode !== 'reflect') return stock();
    return eachImage(inputs, image => cpuTransform.compute(image, attributes, stock) as tf.Tensor);
  },
};

const cpuTransform = cpuKernel<tf.TransformAttrs>(tf.Transform);

/** The images of a batch, transformed one by one: there is one transform for each of them, or one for all. */
function eachImage(inputs: Inputs, transformOne: (inputs: Inputs) => tf.Tensor): tf.Tensor {
  const images = tf.split(inputs['image']!, inputs['image']!.shape[0]);
  const transforms = tf.split(inputs['transforms']!, inputs['transforms']!.shape[0]);
  return tf.concat(images.map((image, i) => transformOne({ image, transforms: transforms[i] ?? transforms[0]! })));
}
