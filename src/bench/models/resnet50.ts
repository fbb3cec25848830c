import { batchNorm, dense, filter, type TensorShape } from './tensor-shape';

/** The four stages of ResNet-50: how many blocks, and how many channels within a block. */
export const STAGES = [
  [3, 64],
  [4, 128],
  [6, 256],
  [3, 512],
] as const;
/** A block has this many times as many output channels as channels within. */
export const EXPANSION = 4;
export const CLASSES = 1000;

/**
 * ResNet-50 for ImageNet (He et al. 2015, table 1), like torchvision's `resnet50`: 25,557,032 parameters in 161
 * tensors. These are 53 filters, two tensors for each of 53 batch normalizations, and the weights and bias of the
 * classifier.
 */
export function resnet50(): TensorShape[] {
  const tensors = [filter('conv1', 7, 3, 64), ...batchNorm('bn1', 64)];
  let channels = 64;
  STAGES.forEach(([blocks, width], stage) => {
    for (let block = 0; block < blocks; block++) {
      tensors.push(...bottleneck(`layer${stage + 1}.${block}`, channels, width, block === 0));
      channels = EXPANSION * width;
    }
  });
  return [...tensors, ...dense('fc', channels, CLASSES)];
}

/** 1×1 down to `width` channels, 3×3, and 1×1 up again. The first block of a stage has a projection as its shortcut. */
function bottleneck(name: string, inputs: number, width: number, projects: boolean): TensorShape[] {
  const outputs = EXPANSION * width;
  return [
    filter(`${name}.conv1`, 1, inputs, width),
    ...batchNorm(`${name}.bn1`, width),
    filter(`${name}.conv2`, 3, width, width),
    ...batchNorm(`${name}.bn2`, width),
    filter(`${name}.conv3`, 1, width, outputs),
    ...batchNorm(`${name}.bn3`, outputs),
    ...(projects
      ? [filter(`${name}.downsample.0`, 1, inputs, outputs), ...batchNorm(`${name}.downsample.1`, outputs)]
      : []),
  ];
}
