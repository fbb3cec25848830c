import { batchNorm, dense, filter, type TensorShape, vector } from './tensor-shape';

/** The output channels of the 3×3 convolutions. The pooling between the groups has no parameters. */
const GROUPS = [
  [64, 64],
  [128, 128],
  [256, 256, 256],
  [512, 512, 512],
  [512, 512, 512],
];

/**
 * VGG-16 (Simonyan and Zisserman 2014, configuration D) with batch normalization, like torchvision's `vgg16_bn`:
 * 138,365,992 parameters in 58 tensors. Its convolutions have a bias, although the normalization cancels it.
 */
export function vgg16Bn(): TensorShape[] {
  const tensors: TensorShape[] = [];
  let inputs = 3;
  let position = 0;
  for (const group of GROUPS) {
    for (const outputs of group) {
      const name = `features.${position}`;
      tensors.push(filter(name, 3, inputs, outputs), vector(`${name}.bias`, outputs));
      tensors.push(...batchNorm(`features.${position + 1}`, outputs));
      inputs = outputs;
      position += 3; // convolution, normalization, ReLU
    }
    position += 1; // pooling
  }
  return [
    ...tensors,
    ...dense('classifier.0', 7 * 7 * 512, 4096),
    ...dense('classifier.3', 4096, 4096),
    ...dense('classifier.6', 4096, 1000),
  ];
}
