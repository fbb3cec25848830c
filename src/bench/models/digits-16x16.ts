import { dense, filter, type TensorShape, vector } from './tensor-shape';

/** The large network of `npm start` (scripts/train/digits-model.js): 678,218 parameters in 10 tensors. */
export function digits16x16(): TensorShape[] {
  const channels = [1, 64, 128, 64] as const;
  const convolutions = channels.slice(1).flatMap((outputs, i) => {
    const name = `convolution.${i}`;
    return [filter(name, 3, channels[i]!, outputs), vector(`${name}.bias`, outputs)];
  });
  return [...convolutions, ...dense('dense.0', 4 * 4 * 64, 512), ...dense('dense.1', 512, 10)];
}
