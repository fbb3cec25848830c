import { dense, filter, type TensorShape, vector } from './tensor-shape';

/** The position in torchvision's `features`, the filter size, and the numbers of input and output channels. */
const CONVOLUTIONS = [
  [0, 11, 3, 64],
  [3, 5, 64, 192],
  [6, 3, 192, 384],
  [8, 3, 384, 256],
  [10, 3, 256, 256],
] as const;

/**
 * AlexNet with one tower (Krizhevsky 2014, "One weird trick"), like torchvision's `alexnet`: 61,100,840 parameters in
 * 16 tensors.
 */
export function alexnet(): TensorShape[] {
  const features = CONVOLUTIONS.flatMap(([position, size, inputs, outputs]) => {
    const name = `features.${position}`;
    return [filter(name, size, inputs, outputs), vector(`${name}.bias`, outputs)];
  });
  return [
    ...features,
    ...dense('classifier.1', 6 * 6 * 256, 4096),
    ...dense('classifier.4', 4096, 4096),
    ...dense('classifier.6', 4096, 1000),
  ];
}
