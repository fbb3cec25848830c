import { type TensorShape, vector } from './tensor-shape';

/** How many gates a recurrent cell has. Their matrices are side by side in one tensor. */
export const GATES = { lstm: 4, gru: 3 } as const;

/** The kind and the sizes of a recurrent layer. */
export interface RecurrentLayer {
  readonly cell: keyof typeof GATES;
  readonly inputs: number;
  readonly units: number;
}

/**
 * One direction of a recurrent layer like in cuDNN and PyTorch: all gates in one tensor, the weights here as
 * [inputs, gates · units], and two biases, although one would be enough.
 *
 * @param suffix PyTorch's, such as `l0` or `l0_reverse`.
 */
export function recurrent(name: string, suffix: string, { cell, inputs, units }: RecurrentLayer): TensorShape[] {
  const width = GATES[cell] * units;
  return [
    { name: `${name}.weight_ih_${suffix}`, shape: [inputs, width] },
    { name: `${name}.weight_hh_${suffix}`, shape: [units, width] },
    vector(`${name}.bias_ih_${suffix}`, width),
    vector(`${name}.bias_hh_${suffix}`, width),
  ];
}
