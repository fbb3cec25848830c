/** A trainable tensor of a model. */
export interface TensorShape {
  readonly name: string;
  readonly shape: readonly number[];
}

/** How many elements a tensor, or a whole model, has. */
export function elementCountOf(tensors: TensorShape | readonly TensorShape[]): number {
  const list = 'shape' in tensors ? [tensors] : tensors;
  return list.reduce((sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1), 0);
}

/** A square filter without a bias, in TensorFlow's order HWIO: height, width, input and output channels. */
export function filter(name: string, size: number, inputs: number, outputs: number): TensorShape {
  return { name: `${name}.weight`, shape: [size, size, inputs, outputs] };
}

/** A bias, or another tensor with one number for each channel. */
export function vector(name: string, size: number): TensorShape {
  return { name, shape: [size] };
}

/** Weights and bias of a dense layer. The weights are in TensorFlow's order [inputs, outputs]. */
export function dense(name: string, inputs: number, outputs: number): TensorShape[] {
  return [{ name: `${name}.weight`, shape: [inputs, outputs] }, vector(`${name}.bias`, outputs)];
}

/** Scale and offset of a batch normalization. Its running averages are not trained. */
export function batchNorm(name: string, channels: number): TensorShape[] {
  return [vector(`${name}.weight`, channels), vector(`${name}.bias`, channels)];
}
